"""What a right answer is: a text that it holds, a regular expression, or a place in the JSON that it holds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from .errors import UsageError

__all__ = ["EXPECTED", "expectation"]

EXPECTED = "a text that it holds, /a regular expression/, $.a.json.path, or $.a.json.path == a value"
"""How it is written."""
_PATH = re.compile(r"\$[.\[]")
_TRIED = 1000  # brackets in an answer that may open a JSON value


def expectation(expect: str | None) -> Callable[[str], bool] | None:
    """Whether an answer is right; `None` where nothing is expected.

    A text is found whatever the case and the blanks. `$.plan.seats == 320` finds this value at that path (JSONPath, RFC 9535)
    in any JSON that stands in the answer; without `==` anything there will do. Raises `UsageError` for an expression that is
    none.
    """
    if expect is None:
        return None
    if not expect.strip():
        raise UsageError(f"the expectation is empty: give {EXPECTED}")
    if len(expect) > 2 and expect.startswith("/") and expect.endswith("/"):
        try:
            found = re.compile(expect[1:-1], re.IGNORECASE)
        except re.error as error:
            raise UsageError(f"{expect} is no regular expression: {error}") from None
        return lambda answer: found.search(answer) is not None
    if _PATH.match(expect):
        return _at_path(expect)
    wanted = _plain(expect)
    return lambda answer: wanted in _plain(answer)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _at_path(expect: str) -> Callable[[str], bool]:
    try:
        import jsonpath
    except ImportError:
        raise UsageError(f'{expect} is a JSON path: pip install "mcp-agent-workbench[replay]"') from None
    path, compared, value = expect.partition(" == ")
    try:
        query = jsonpath.compile(path.strip())
    except jsonpath.JSONPathError as error:
        raise UsageError(f"{path} is no JSON path: {str(error).splitlines()[0]}") from None
    wanted = _value(value.strip())

    def right(answer: str) -> bool:
        found = (each for data in _values(answer) for each in query.findall(data))
        return any(not compared or each == wanted or str(each) == value.strip() for each in found)

    return right


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text  # a string may be written without its quotes


def _values(answer: str) -> Iterator[Any]:
    """Every object and list that stands in the answer, also in a quotation."""
    text = re.sub(r"^(?:> ?)+", "", answer, flags=re.MULTILINE)
    decoder, end = json.JSONDecoder(), 0
    for begin in islice(re.finditer(r"[{\[]", text), _TRIED):
        if begin.start() < end:
            continue  # inside of the last one
        with suppress(ValueError, RecursionError):
            data, end = decoder.raw_decode(text, begin.start())
            yield data
