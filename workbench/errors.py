"""Everything the workbench raises on purpose.

    WorkbenchError                  catch this one
      UsageError                    the call or the magic line is wrong
      ConnectError                  a connection could not be opened
      NotConnected                  there is no (living) connection to do this with
      ServerError                   the server answered an error
      RequestTimeout                the server did not answer in time
      NotOffered                    a URI, prompt or tool that no connected server has
      ModelError                    the model is unknown, its package is missing, or its provider refused
      Stopped                       a person interrupted it

Each message says what was tried, what was found and what to type next. In a notebook it is shown as that one message,
without a traceback; the cell still fails, so that batch runs stop.
"""

from __future__ import annotations

from .content import harmless

__all__ = [
    "ConnectError", "ModelError", "NotConnected", "NotOffered", "RequestTimeout", "ServerError", "Stopped", "UsageError",
    "WorkbenchError",
]  # fmt: skip


class WorkbenchError(Exception):
    """The base of all of them."""

    def _render_traceback_(self) -> list[str]:
        # IPython asks the exception itself; the frames would tell the user nothing and print arguments under %xmode Verbose.
        return [harmless(f"{type(self).__name__}: {self}")]


class UsageError(WorkbenchError):
    """The call or the magic line is wrong; the message names what was expected."""


class ConnectError(WorkbenchError):
    """A connection could not be opened; the message ends with the server's last stderr lines."""


class NotConnected(WorkbenchError):
    """No such connection, none at all, or one whose server has ended."""


class ServerError(WorkbenchError):
    """The server answered an error, given in its own words; `code` is the JSON-RPC code where there was one."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class RequestTimeout(WorkbenchError):
    """No answer within the connection's timeout."""


class NotOffered(WorkbenchError):
    """A URI, prompt or tool that nobody offers; the message lists near matches."""


class ModelError(WorkbenchError):
    """The model is unknown, its package is missing, or its provider refused the request."""


class Stopped(WorkbenchError):
    """A person interrupted it; what had finished is kept."""
