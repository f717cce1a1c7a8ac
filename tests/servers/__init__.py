"""Servers and models that the tests drive: real processes over stdio and HTTP, and stand-ins for providers."""

import sys
from pathlib import Path

HERE = Path(__file__).parent


def awkward(*arguments: str) -> list[str]:
    """The command of the awkward server: every fault of the public list, on purpose."""
    return [sys.executable, str(HERE / "awkward.py"), *arguments]


def asking(*arguments: str) -> list[str]:
    """The command of the server that asks back: for forms, pages and samples."""
    return [sys.executable, str(HERE / "asking.py"), *arguments]


def talkative(*arguments: str) -> list[str]:
    """The command of the server that says whatever it is told to, unasked."""
    return [sys.executable, str(HERE / "talkative.py"), *arguments]


def raw(replies: Path) -> list[str]:
    """The command of the server that sends exactly what a file says."""
    return [sys.executable, str(HERE / "raw.py"), str(replies)]
