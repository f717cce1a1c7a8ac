"""Sets of stored turns: what they may be written as, and what is kept aside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from workbench import Session, cases, messages
from workbench.cases import Case
from workbench.errors import UsageError
from workbench.expect import expectation

WHOLE = {
    "id": "p01", "question": "When?", "relevant": ["crm://a"], "expect": "2026", "attach": ["crm://a"],
    "messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}],
}  # fmt: skip


def written(path: Path, *lines: Any) -> Path:
    path.write_text("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines), encoding="utf-8")
    return path


def test_a_file_of_json_lines_is_read_and_written_again(tmp_path: Path) -> None:
    found = cases.load(written(tmp_path / "a.jsonl", WHOLE, "", {"question": "And?"}))
    assert not found.aside
    first, second = found.good
    assert (first.id, first.relevant, first.expect, first.attach) == ("p01", ("crm://a",), "2026", ("crm://a",))
    assert first.messages == tuple(WHOLE["messages"])  # type: ignore[arg-type]
    assert second == Case(id="line 3", question="And?")
    assert cases.load(cases.save(found.good, tmp_path / "b.jsonl")).good == found.good


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "it is no JSON"),
        ("[1]", "it is no object"),
        ({"question": "  "}, "its question is no text"),
        ({"question": 3}, "its question is no text"),
        ({"question": "x", "relevant": 3}, "relevant is no list of URIs"),
        ({"question": "x", "attach": [""]}, "attach is no list of URIs"),
        ({"question": "x", "relevent": ["a://b"]}, "'relevent' is not known; 'relevant' is"),
        ({"question": "x", "expect": "/(/"}, "is no regular expression"),
        ({"question": "x", "expect": 3}, "expects is no text"),
        ({"question": "x", "messages": "hello"}, "no list of objects"),
        ({"question": "x", "messages": [{"role": "wizard", "content": "x"}]}, "has the role 'wizard'"),
        ({"id": "p01", "question": "again"}, "the id 'p01' is taken"),
        ({"spans": []}, "neither a question nor chat messages"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "neither a question nor chat messages"),
    ],
)
def test_a_bad_line_is_kept_aside_by_its_number_and_the_rest_runs(tmp_path: Path, line: Any, why: str) -> None:
    found = cases.load(written(tmp_path / "a.jsonl", WHOLE, line, {"id": "p03", "question": "And?"}))
    assert [case.id for case in found.good] == ["p01", "p03"]
    ((where, said),) = found.aside
    assert where == "line 2" and why in said


def test_bytes_that_are_no_utf_8_spoil_one_line(tmp_path: Path) -> None:
    (path := tmp_path / "a.jsonl").write_bytes(b'{"question": "a"}\n\xff\xfe\n{"question": "b"}\n')
    found = cases.load(path)
    assert len(found.good) == 2 and found.aside[0].where == "line 2"


def test_an_empty_set_and_a_missing_file_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a\.jsonl has no turns to replay.*One is a line such as \{"):
        cases.load(written(tmp_path / "a.jsonl", ""))
    with pytest.raises(UsageError, match=r"and 1 that cannot be used; the first: line 1: it is no JSON"):
        cases.load(written(tmp_path / "a.jsonl", "{"))
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        cases.load(tmp_path / "none.jsonl")
    with pytest.raises(UsageError, match="there are no turns"):
        cases.load([])


def test_a_frame_is_a_set_and_what_it_does_not_know_is_left_out() -> None:
    frame = pd.DataFrame([WHOLE, {"id": 7, "question": "And?"}])
    first, second = cases.load(frame).good
    assert first.relevant == ("crm://a",) and second == Case(id="7", question="And?")
    bad = cases.load(pd.DataFrame({"question": ["x", None]}))
    assert bad.aside[0].where == "row 1"


ASKED = [
    {"role": "system", "content": "You are theirs."},
    {"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"},
    {"role": "user", "content": "When does it end?"}, {"role": "assistant", "content": "In May."},
]  # fmt: skip
SERIALISED = {
    "lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "HumanMessage"],
    "kwargs": {"content": "When does it end?", "type": "human"},
}  # fmt: skip
PARTS = [
    {"role": "user", "parts": [{"type": "text", "content": "Look it up"}]},
    {"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": "find", "arguments": {"q": "x"}}]},
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": "May"}]},
    {"role": "user", "parts": [{"type": "text", "content": "When does it end?"}]},
]


@pytest.mark.parametrize(
    ("line", "before"),
    [
        ({"messages": ASKED}, ["user", "assistant"]),
        ({"inputs": {"messages": [ASKED]}, "trace_id": "t-1"}, ["user", "assistant"]),
        ({"input": ASKED[1:]}, ["user", "assistant"]),
        ({"input": {"messages": ASKED}}, ["user", "assistant"]),
        ({"inputs": {"messages": [[SERIALISED]]}}, []),
        ({"attributes": {"gen_ai.input.messages": json.dumps(PARTS)}}, ["user", "assistant", "tool"]),
        ({"messages": [{"type": "human", "content": [{"type": "text", "text": "When does it end?"}]}]}, []),
    ],
)  # fmt: skip
def test_the_chat_messages_of_other_tracers_are_turns(tmp_path: Path, line: Any, before: list[str]) -> None:
    (case,) = cases.load(written(tmp_path / "a.jsonl", line)).good
    assert case.question == "When does it end?"
    assert [message["role"] for message in case.messages] == before, "no system message, and not the answer"
    thread = messages.from_chat(case.messages)
    assert [message.type for message in thread] == [{"user": "human", "assistant": "ai"}.get(r, r) for r in before]
    assert case.id == line.get("trace_id", "line 1")


def test_a_call_without_its_result_gets_one() -> None:
    calls = [{"id": "1", "type": "function", "function": {"name": "find", "arguments": "{}"}}]
    thread = messages.from_chat(
        [{"role": "user", "content": "x"}, {"role": "assistant", "content": "", "tool_calls": calls}]
    )
    assert [message.type for message in thread] == ["human", "ai", "tool"]
    assert messages.to_chat(thread)[1]["tool_calls"][0]["function"]["name"] == "find"


def test_the_turns_of_a_notebook_become_cases() -> None:
    with Session("demo") as wb:
        wb.connect("demo")
        assert wb.turns.to_cases() == []
        wb.ask("Is customer 4471 still on the annual plan?")
        wb.attach("docs://style-guide")
        wb.ask("How are headings written?", pattern="dump")
        first, second = wb.turns.to_cases()
    assert first.relevant == ("crm://customer/4471/subscription",) and not first.messages and not first.attach
    assert second.relevant == second.attach == ("docs://style-guide",), "what was dumped, nobody has chosen"
    assert [message["role"] for message in second.messages] == ["user", "assistant", "tool", "assistant"]


# -- what a right answer is

QUOTED = 'From `crm://x`:\n\n> ```\n> {"plan": {"name": "Business", "seats": [320, 297]}, "paid": true}\n> ```\n'


@pytest.mark.parametrize(
    ("expect", "right"),
    [
        ("business", True),
        ("/seats.*297/", True),
        ("/^Business$/", False),
        ("$.plan.name == Business", True),
        ('$.plan.name == "Business"', True),
        ("$.plan.name == Team", False),
        ("$.plan.seats[0] == 320", True),
        ("$.plan.seats[?@ > 300]", True),
        ("$.plan.seats[?@ > 400]", False),
        ("$.paid == true", True),
        ("$.none", False),
    ],
)
def test_a_text_an_expression_or_a_json_path(expect: str, right: bool) -> None:
    found = expectation(expect)
    assert found is not None and found(QUOTED) is right
    assert found("") is False


@pytest.mark.parametrize(
    ("expect", "why"), [("  ", "is empty"), ("/(/", "no regular expression"), ("$.a[", "is no JSON path")]
)
def test_an_expectation_that_is_none_is_refused(expect: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        expectation(expect)


def test_an_answer_full_of_brackets_is_looked_at_in_time() -> None:
    found = expectation("$.a == 1")
    assert found is not None and found("[" * 200_000) is False
    assert found("{" * 500 + '{"a": 1}') is True
