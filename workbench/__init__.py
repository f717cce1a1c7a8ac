"""The Jupyter-native agent workbench for the Model Context Protocol.

import workbench
wb = workbench.Session(model="demo")        # in a notebook: %load_ext workbench, then workbench.session()
wb.connect("demo")
turn = wb.ask("Which products does the SUM ABAP test matrix cover?")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import (
    ConnectError,
    ModelError,
    NotConnected,
    NotOffered,
    RequestTimeout,
    ServerError,
    UsageError,
    WorkbenchError,
)
from .span import Span, Usage

if TYPE_CHECKING:
    from .replayed import Replayed
    from .sessions import Session
    from .turn import Turn

__version__ = "0.1.0"
__all__ = [
    "ConnectError",
    "ModelError",
    "NotConnected",
    "NotOffered",
    "RequestTimeout",
    "ServerError",
    "Session",
    "Span",
    "Turn",
    "Usage",
    "UsageError",
    "WorkbenchError",
    "load_ipython_extension",
    "replay",
    "session",
    "unload_ipython_extension",
]


def __getattr__(name: str) -> Any:
    # `%load_ext workbench` must cost next to nothing; the rest is imported when it is first used.
    if name == "Session":
        from .sessions import Session

        return Session
    if name == "Turn":
        from .turn import Turn

        return Turn
    raise AttributeError(f"module 'workbench' has no attribute {name!r}")


def session() -> Session:
    """The notebook's own session, which `%mcp` and `%%agent` work on; made by `%load_ext workbench`."""
    from . import magics

    return magics.current().session


def replay(turns: Any, *arguments: Any, session: Session | None = None, **options: Any) -> Replayed:
    """`Session.replay`, of the notebook's own session where no other is given."""
    from . import magics

    return (session or magics.current().session).replay(turns, *arguments, **options)


def load_ipython_extension(ip: Any) -> None:
    """`%load_ext workbench`."""
    from . import magics

    magics.load(ip)


def unload_ipython_extension(ip: Any) -> None:
    """`%unload_ext workbench`: closes every connection."""
    from . import magics

    magics.unload(ip)
