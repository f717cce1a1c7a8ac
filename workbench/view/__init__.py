"""Views: text, HTML and DataFrame, each a fold over the same spans."""
