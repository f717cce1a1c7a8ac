"""Import `mcp` quietly, and without the 1.5 seconds of CPU that somebody else's grammar costs.

`mcp` pulls in its server half, that jsonschema, and where JupyterLab is installed jsonschema's format checks import
`rfc3987_syntax`, which builds a grammar at import. Its one function is put off here until somebody checks an IRI; then the
real one does it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType

__all__ = ["load"]

_GRAMMAR = "rfc3987_syntax"


def load() -> None:
    """Import `mcp`; a second call costs nothing."""
    with _deferred():
        import mcp.shared.session as session
    # The SDK warns of what a server sends through the root logger, whose first use prints into the running cell and sets
    # up logging for everybody; under its own name it can be listened to, and stays silent otherwise.
    session.logging = logging.getLogger(session.__name__)  # type: ignore[assignment,attr-defined]
    for name in ("mcp", "httpx", "httpcore", "langchain_mcp_adapters"):
        if not (logger := logging.getLogger(name)).handlers:
            logger.addHandler(logging.NullHandler())  # else logging's last resort prints it


@contextmanager
def _deferred() -> Iterator[None]:
    if _GRAMMAR in sys.modules or find_spec(_GRAMMAR) is None:
        yield
        return
    stand_in = ModuleType(_GRAMMAR)
    stand_in.is_valid_syntax = _is_valid_syntax  # type: ignore[attr-defined]
    sys.modules[_GRAMMAR] = stand_in
    try:
        yield
    finally:
        del sys.modules[_GRAMMAR]  # whoever imports it from now on gets the real one


def _is_valid_syntax(rule: str, text: str) -> bool:
    from rfc3987_syntax import is_valid_syntax

    return bool(is_valid_syntax(rule, text))
