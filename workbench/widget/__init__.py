"""The two live widgets. They know rows, events and callbacks, never a `Session`; Python renders what is saved."""

from __future__ import annotations

from workbench.widget.catalog import Catalog, CatalogRow
from workbench.widget.trace import Trace

__all__ = ["Catalog", "CatalogRow", "Trace"]
