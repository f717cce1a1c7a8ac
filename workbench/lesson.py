"""Run a lesson without a display: `python -m workbench.lesson NOTEBOOK OUT`, or `--in-place NOTEBOOK ...`.

Prints what each code cell shows as text, and leaves the executed notebook and its HTML (which loads nothing from the
network). Needs nbclient and nbconvert, which JupyterLab brings.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["execute", "main", "to_html"]


def execute(path: Path) -> Any:
    """The notebook after a run from top to bottom, without widget state or timings; raises `CellExecutionError`."""
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.read(path, as_version=4)
    book.metadata.pop("widgets", None)
    client = NotebookClient(
        book, timeout=120, kernel_name="python3", store_widget_state=False, record_timing=False,
        extra_arguments=["--IPKernelApp.log_level=40"],  # its start-up warnings are not the reader's business

        resources={"metadata": {"path": str(path.parent)}},
    )  # fmt: skip
    client.execute()
    book.metadata.get("language_info", {}).pop("version", None)  # it would change with every machine
    return book


def to_html(book: Any) -> str:
    """The notebook as one HTML file that needs neither scripts nor a network."""
    from nbconvert import HTMLExporter

    scripts = ("require_js", "mathjax", "jquery", "mermaid_js", "mermaid_layout_elk_js", "widget_renderer")
    exporter = HTMLExporter(template_name="lab", **{f"{name}_url": "" for name in scripts})
    body, _ = exporter.from_notebook_node(book)
    return str(body)


def texts(book: Any) -> Iterator[str]:
    """What the code cells show, as text: each cell's first line, then its outputs."""
    for cell in book.cells:
        if cell.cell_type == "code":
            yield f">>> {cell.source.splitlines()[0] if cell.source else ''}"
            for output in cell.outputs:
                yield str(output.get("text") or output.get("data", {}).get("text/plain", "")).rstrip() + "\n"


def main(arguments: list[str] | None = None) -> int:
    """The command line; the exit status is 1 when a cell fails."""
    parser = argparse.ArgumentParser(prog="python -m workbench.lesson", description=__doc__)
    parser.add_argument("--in-place", action="store_true", help="write the outputs back into the notebooks")
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="PATH", help="NOTEBOOK OUT, or NOTEBOOK ... with --in-place"
    )
    options = parser.parse_args(arguments)
    if options.in_place:
        for path in options.paths:
            _save(execute(path), path)
        return 0
    if len(options.paths) != 2:
        parser.error("a notebook and a folder for the results are needed")
    source, out = options.paths
    book = execute(source)
    print("\n".join(texts(book)))
    out.mkdir(parents=True, exist_ok=True)
    _save(book, notebook := out / source.name)
    (page := notebook.with_suffix(".html")).write_text(to_html(book), encoding="utf-8")
    print(f"The executed notebook: {notebook}\nThe same as a page:    {page}")
    return 0


def _save(book: Any, path: Path) -> None:
    import nbformat

    nbformat.write(book, path)


if __name__ == "__main__":
    sys.exit(main())
