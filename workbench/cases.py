"""Stored turns to be run again: from JSON lines, a DataFrame, finished turns, or another tracer's export of chat messages.

    {"id": "p01", "question": "When does Acme's contract end?", "relevant": ["crm://accounts/acme"], "expect": "2026-09-30"}

`messages` is the conversation before the question, `relevant` the URIs whose content it needs, `expect` what a right answer
holds (`expect.py`), `attach` the URIs that the host knew beforehand.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .content import visible
from .errors import UsageError
from .expect import expectation
from .turn import Turn

if TYPE_CHECKING:
    import pandas

    from .span import Span

__all__ = ["Aside", "Case", "Cases", "Turns", "load", "save"]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One stored turn."""

    id: str
    question: str
    messages: tuple[Mapping[str, Any], ...] = ()
    """What was said before, as in OpenAI's chat format: `role`, `content`, `tool_calls`, `tool_call_id`."""
    relevant: tuple[str, ...] = ()
    """The URIs whose content the question needs; with none, nobody can say whether it was in the context."""
    expect: str | None = None
    attach: tuple[str, ...] = ()
    """The URIs that the host knew beforehand: what the pattern `attach` puts before the question."""

    def to_json(self) -> dict[str, Any]:
        """What stands in its line: nothing that is empty."""
        return {key: value for key, value in asdict(self).items() if value}


class Aside(NamedTuple):
    """What could not be used of a set, and why; the rest runs."""

    where: str
    """`line 3`, `row 3` or `case p01`."""
    why: str


class Cases(NamedTuple):
    """A set of turns."""

    good: tuple[Case, ...]
    aside: tuple[Aside, ...] = ()


_KEYS = ("id", "question", "messages", "relevant", "expect", "attach")
_LONGEST = 300  # characters of a bad line's error


def load(source: Any) -> Cases:
    """The cases of a file of JSON lines, of a DataFrame with the same columns, or of cases, mappings and turns.

    What cannot be used is kept aside with its number, the rest stands. Raises `UsageError` where there is no such file, or
    where nothing could be used.
    """
    if isinstance(source, str | Path):
        told, found = f"{Path(source).name} has", _of_file(Path(source))
    elif hasattr(source, "to_dict") and hasattr(source, "columns"):
        told, found = "the DataFrame has", _of_frame(source)
    else:
        told, found = "there are", ((f"case {n}", each) for n, each in enumerate(source, 1))
    good: dict[str, Case] = {}
    aside: list[Aside] = []
    for where, raw in found:
        try:
            case = raw if isinstance(raw, Case) else _of_turn(raw) if isinstance(raw, Turn) else _case(raw, where)
            if case.id in good:
                raise UsageError(f"the id {visible(case.id)!r} is taken by a line before it")
            good[case.id] = case
        except UsageError as error:
            aside.append(Aside(where, str(error)[:_LONGEST]))
    if not good:
        why = f"; the first: {aside[0].where}: {aside[0].why}" if aside else ". One is a line such as " + _EXAMPLE
        raise UsageError(f"{told} no turns to replay, and {len(aside)} that cannot be used{why}")
    return Cases(tuple(good.values()), tuple(aside))


_EXAMPLE = '{"id": "p01", "question": "When does it end?", "relevant": ["crm://acme"]}'


def _of_file(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        with path.expanduser().open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield f"line {number}", line
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}. A set of turns is a file of JSON lines") from None


def _of_frame(frame: pandas.DataFrame) -> Iterator[tuple[str, Any]]:
    import pandas as pd

    for number, row in enumerate(frame.to_dict("records")):
        yield (
            f"row {number}",
            {str(key): value for key, value in row.items() if not (pd.api.types.is_scalar(value) and pd.isna(value))},
        )


def _case(raw: Any, where: str) -> Case:
    if isinstance(raw, bytes):
        try:
            raw = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"it is no JSON: {error}") from None
    if not isinstance(raw, Mapping):
        raise UsageError(f"it is no object: {visible(json.dumps(raw, default=str), 80)}")
    if "question" not in raw:
        return _of_chat(raw, where)
    for key in raw:
        if key not in _KEYS and (near := get_close_matches(str(key), _KEYS, 1, 0.8)):
            raise UsageError(f"{visible(str(key))!r} is not known; {near[0]!r} is")
    question, expect = raw["question"], raw.get("expect")
    if not isinstance(question, str) or not question.strip():
        raise UsageError("its question is no text")
    if expect is not None and not isinstance(expect, str):
        raise UsageError("what it expects is no text")
    expectation(expect)
    return Case(
        id=str(raw.get("id", where)), question=question, expect=expect, messages=tuple(_messages(raw.get("messages") or ())),
        relevant=_uris(raw, "relevant"), attach=_uris(raw, "attach"),
    )  # fmt: skip


def _uris(raw: Mapping[str, Any], key: str) -> tuple[str, ...]:
    given = raw.get(key)
    given = [] if given is None else [given] if isinstance(given, str) else given
    if not isinstance(given, Iterable) or not all(isinstance(uri, str) and uri for uri in given):
        raise UsageError(f"{key} is no list of URIs")
    return tuple(dict.fromkeys(given))


# -- chat messages


def _of_chat(raw: Mapping[str, Any], where: str) -> Case:
    """The last question of a conversation, and what was said before it. The answer behind it is left out, and so are system
    messages: what stands there is the pattern's to say."""
    said = _messages(_chat(raw))
    asked = [n for n, message in enumerate(said) if message["role"] == "user"]
    if not asked:
        raise UsageError(
            f"it has neither a question nor chat messages with one: it has {', '.join(map(str, raw))[:100]}"
        )
    question = _text(said[asked[-1]].get("content"))
    if not question.strip():
        raise UsageError("the last message of the user holds no text")
    identity = next((raw[key] for key in ("id", "trace_id", "run_id", "span_id") if raw.get(key)), where)
    return Case(id=str(identity), question=question, messages=tuple(said[: asked[-1]]))


def _chat(raw: Mapping[str, Any]) -> Any:
    """Where tracers keep the messages of a provider call: OpenAI's chat files, LangSmith, Langfuse, OpenTelemetry."""
    inputs, attributes = raw.get("inputs"), raw.get("attributes")
    for given in (
        raw.get("messages"), inputs.get("messages") if isinstance(inputs, Mapping) else None, raw.get("input"),
        *((attributes.get(key) for key in ("gen_ai.input.messages", "input.value")) if isinstance(attributes, Mapping) else ()),
    ):  # fmt: skip
        if isinstance(given, str) and given[:1] in "[{":
            try:
                given = json.loads(given)
            except (ValueError, RecursionError):
                continue
        given = given.get("messages") if isinstance(given, Mapping) else given
        if isinstance(given, list) and given:
            return given[0] if isinstance(given[0], list) else given  # LangSmith has a list for each of a batch
    return ()


_ROLES = {"human": "user", "ai": "assistant", "HumanMessage": "user", "AIMessage": "assistant", "ToolMessage": "tool",
          "SystemMessage": "system", "developer": "system", "function": "tool"}  # fmt: skip


def _messages(given: Any) -> list[dict[str, Any]]:
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(x, Mapping) for x in given):
        raise UsageError("its messages are no list of objects")
    made = [each for message in given for each in _message(message)]
    return [message for message in made if message["role"] != "system"]


def _message(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    if isinstance(kwargs := raw.get("kwargs"), Mapping):  # LangChain's own serialisation
        name = raw["id"][-1] if isinstance(raw.get("id"), list) and raw["id"] else ""
        raw = {"role": str(name).removesuffix("Chunk"), **kwargs}
    role = raw.get("role") or raw.get("type")
    role = _ROLES.get(str(role), role)
    if role not in ("user", "assistant", "system", "tool"):
        raise UsageError(f"a message has the role {visible(str(role))!r}; it is user, assistant, tool or system")
    if isinstance(parts := raw.get("parts"), list):
        return _of_parts(str(role), [part for part in parts if isinstance(part, Mapping)])
    kept = {key: raw[key] for key in ("content", "tool_calls", "tool_call_id", "name") if raw.get(key) is not None}
    return [{"role": str(role), "content": "", **kept}]


def _of_parts(role: str, parts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """OpenTelemetry's GenAI messages (semantic conventions, `gen_ai.input.messages`)."""
    answers = [
        {
            "role": "tool",
            "tool_call_id": str(part.get("id")),
            "content": _text(part.get("response", part.get("result"))),
        }
        for part in parts
        if part.get("type") == "tool_call_response"
    ]
    calls = [
        {"id": str(part.get("id")), "type": "function",
         "function": {"name": str(part.get("name")), "arguments": json.dumps(part.get("arguments") or {})}}
        for part in parts
        if part.get("type") == "tool_call"
    ]  # fmt: skip
    text = "\n".join(_text(part.get("content")) for part in parts if part.get("type") == "text")
    said = {"role": role, "content": text, **({"tool_calls": calls} if calls else {})}
    return [*([said] if text or calls or not answers else []), *answers]


def _text(content: Any) -> str:
    """The text of a message's content, which may be made of blocks."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(
            str(block.get("text", "")) if isinstance(block, Mapping) else str(block)
            for block in content
            if not isinstance(block, Mapping) or block.get("type", "text") in ("text", "input_text")
        )
    return "" if content is None else json.dumps(content, ensure_ascii=False)


# -- finished turns


def _of_turn(turn: Turn) -> Case:
    """Its question, what was said before, and the URIs that somebody chose and that its answer shows to have needed
    (`Context.unused` says which it does not); what was attached is what the host knew. Where everything was put into the
    system prompt, nobody has chosen, and what is relevant is not known."""
    from . import messages

    there = [x for x in turn.spans if x.kind in ("read", "attach") and x.status == "ok" and x.detail.get("uri")]
    unused = {each["label"] for span in turn.spans for each in span.detail.get("unused") or ()}
    chosen = [x for x in there if x.actor == "model" or (x.kind == "attach" and not _is_dumped(x))]
    used = [x for x in chosen if x.detail["uri"] not in unused]
    return Case(
        id=f"turn {turn.number}", question=turn.question, messages=tuple(messages.to_chat(turn.history)),
        relevant=tuple(dict.fromkeys(x.detail["uri"] for x in used)),
        attach=tuple(dict.fromkeys(x.detail["uri"] for x in used if x.kind == "attach")),
    )  # fmt: skip


def _is_dumped(span: Span) -> bool:
    return str(span.detail.get("rule")).partition("(")[0] in ("dump", "truncate")


def save(cases: Iterable[Case], path: str | Path) -> Path:
    """Write them as JSON lines, which `load` reads."""
    path = Path(path)
    lines = (json.dumps(case.to_json(), ensure_ascii=False) for case in cases)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


class Turns(list[Turn]):
    """Finished turns, the oldest first."""

    def to_cases(self) -> list[Case]:
        """A case of each, to be replayed: the URIs that its answer shows to have needed are the relevant ones."""
        return list(load(self).good) if self else []
