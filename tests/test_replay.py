"""Stored turns run again: rates, resuming, ceilings, recordings and what a person sees. Real servers and turns throughout."""

from __future__ import annotations

import _thread
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest
from langchain_core.outputs import ChatGenerationChunk
from mcp.server.fastmcp import FastMCP
from mcp.server.fastmcp.resources import TextResource
from pydantic import AnyUrl

import workbench
from tests.servers import asking
from tests.servers.script import Call, Reply
from tests.servers.scripted import Scripted
from workbench import Session, replaying
from workbench.cases import Case
from workbench.demo.model import DemoModel
from workbench.errors import ModelError, Stopped, UsageError
from workbench.outcome import outcome
from workbench.replayed import Replayed, spread
from workbench.span import Span
from workbench.store import Result, Store

ROOT = Path(__file__).parent.parent
CUSTOMERS = (4471, 4480, 4502, 4519)
SUBJECTS = {"renewal date": "renewal_date", "seat count": "licensed", "billing status": "billing_status"}
MISSING = "demo?miss=0.29&seed=7"


def uri(number: int) -> str:
    return f"crm://customer/{number}/subscription"


def turns(words: str = "What is the {} of customer {}?") -> list[Case]:
    return [
        Case(id=f"{subject} {n}", question=words.format(subject, n), relevant=(uri(n),), attach=(uri(n),), expect=holds)
        for subject, holds in SUBJECTS.items()
        for n in CUSTOMERS
    ]


@pytest.fixture
def wb() -> Iterator[Session]:
    with Session("demo") as made:
        made.connect("demo")
        yield made


def told(replayed: Replayed) -> dict[tuple[str, ...], tuple[Any, ...]]:
    """What of each row is no matter of the clock."""
    kept = ("outcome", "hit", "correct", "calls", "input_tokens_estimated", "answer", "error", "seed")
    return {
        (r["case"], r["pattern"], r["model"], str(r["repeat"])): tuple(r[key] for key in kept) for r in replayed.rows
    }


# -- the experiment


def test_what_misses_and_what_a_host_puts_there_have_rates_with_their_denominators(wb: Session) -> None:
    """Asked for by issue 6: the seed's experiment, a tool that fires on 71 % of the turns against an attachment."""
    found = wb.replay(turns() + [
        Case(**{**vars(case), "id": f"again {case.id}", "question": f"Please: {case.question}"}) for case in turns()
    ], "catalog,attach,truncate(200)", MISSING, repeat=2, concurrency=16)  # fmt: skip
    attach, catalog, truncate = (found._design(name) for name in ("attach", "catalog", "truncate(200)"))
    assert found.rate(attach)[:2] == (48, 48) and found.outcomes(attach)["given"] == 48
    fired = found.rate(catalog)
    assert fired.trials == 48 and 24 <= fired.successes <= 44, "0.71 of 48 is 34"
    assert (
        found.outcomes(catalog)["fired"] == fired.successes and found.outcomes(catalog)["never"] == 48 - fired.successes
    )
    assert found.rate(catalog, "correct") == fired, "the answer is in the record, and nowhere else"
    # The record of a customer is behind a template: no dump holds it, whatever it cuts.
    assert found.outcomes(truncate)["never"] == 48
    assert fired.interval is not None and fired.interval.low < fired.successes / 48 < fired.interval.high
    difference = found.compare("attach", "catalog")
    assert difference.paired.cases == 24 and difference.paired.only_b == 0
    assert difference.mean == pytest.approx(1 - fired.successes / 48)
    assert difference.interval is not None and difference.interval.low <= difference.mean <= difference.interval.high
    assert len(found.differing("attach", "catalog").pairs) == 48 - fired.successes
    assert len({row["seed"] for row in found.of(catalog)}) == 48, "every turn has a draw of its own"
    assert [r["seed"] for r in found.of(catalog)] == [r["seed"] for r in found.of(attach)], "the same for each design"


def test_the_session_is_as_it_was(wb: Session) -> None:
    wb.ask("How are headings written?")
    wb.attach("docs://style-guide")
    before = (list(wb.turns), wb.spans, dict(wb.attachments), list(wb._thread.messages))
    found = wb.replay(turns()[:3], "catalog", concurrency=3)
    assert (list(wb.turns), wb.spans, dict(wb.attachments), list(wb._thread.messages)) == before
    assert all("attach" not in [span.kind for span in found.turn(row).spans] for row in found.rows)
    assert wb.replays == [found]
    assert wb.ask("And how are numbers written?").number == 2


def test_what_was_said_before_is_said_again(wb: Session) -> None:
    model = Scripted(replies=[Reply(text="So it is.")])
    said = ({"role": "user", "content": "Say nothing of seats."}, {"role": "assistant", "content": "Good."})
    wb.replay([Case(id="x", question="And now?", messages=said)], "catalog", model)
    assert [m.text for m in model.seen[0][1:]] == ["Say nothing of seats.", "Good.", "And now?"]


def test_the_turns_of_this_session_and_a_frame_are_replayed_too(wb: Session) -> None:
    wb.ask("What is the seat count of customer 4471?")
    found = wb.replay(wb.turns, "catalog,attach")
    assert [row["outcome"] for row in found.rows] == ["fired", "never"], "nobody had attached it"
    framed = wb.replay(pd.DataFrame([case.to_json() for case in turns()[:2]]), "attach")
    assert [row["hit"] for row in framed.rows] == [True, True]
    assert workbench.replay(turns()[:1], "attach", session=wb).rows[0]["hit"]


# -- what became of a turn


def server() -> FastMCP:
    made = FastMCP("s")
    for name in ("a", "b", "c"):
        made.add_resource(
            TextResource(uri=AnyUrl(f"x://{name}"), name=name, description=f"About {name}", text=f"{name} " * 300)
        )
    return made


def door(name: str) -> Reply:
    return Reply(calls=(Call(name=f"{name}-tool", args={}, id="c1"),))


def read(*names: str) -> Reply:
    return Reply(calls=tuple(Call(name="read_resource", args={"uri": f"x://{name}"}, id=f"r{name}") for name in names))


FIND = Reply(calls=(Call(name="find_resources", args={"query": "a"}, id="f1"),))


@pytest.mark.parametrize(
    ("pattern", "replies", "relevant", "kind", "cut"),
    [
        ("catalog", [read("a"), Reply(text="It is.")], "a", "fired", False),
        ("catalog", [read("b"), read("a"), Reply(text="It is.")], "a", "late", False),
        ("catalog", [read("b", "a"), Reply(text="It is.")], "a", "fired", False),
        ("catalog", [read("b"), Reply(text="It is.")], "a", "wrong", False),
        ("catalog", [Reply(text="It is.")], "a", "never", False),
        ("catalog", [read("a"), Reply(text="It is.")], "ab", "wrong", False),
        ("catalog", [read("a"), read("b"), Reply(text="It is.")], "ab", "fired", False),
        ("attach(x://a)", [Reply(text="It is.")], "a", "given", False),
        ("attach(x://a)+catalog", [read("b"), Reply(text="It is.")], "ab", "fired", False),
        ("dump", [Reply(text="It is.")], "abc", "given", False),
        ("truncate(10)", [Reply(text="It is.")], "a", "given", True),
        ("companion", [door("a"), read("a"), Reply(text="It is.")], "a", "fired", False),
        ("companion", [door("b"), read("a"), Reply(text="It is.")], "a", "late", False),
        ("companion", [door("a"), Reply(text="It is.")], "a", "never", False),
        ("search", [FIND, read("a"), Reply(text="It is.")], "a", "fired", False),
        ("catalog", [read("nothing"), read("a"), Reply(text="It is.")], "a", "fired", False),
    ],
)  # fmt: skip
def test_how_the_content_came_into_the_context(
    pattern: str, replies: list[Reply], relevant: str, kind: str, cut: bool
) -> None:
    with Session(Scripted(replies=list(replies))) as wb:
        wb.connect("s", server=server())
        case = Case(id="x", question="Is it?", relevant=tuple(f"x://{name}" for name in relevant))
        row = wb.replay([case], pattern).rows[0]
    assert (row["outcome"], row["hit"], row["cut"]) == (kind, kind in ("given", "fired", "late"), cut)


def test_where_nobody_knows_what_was_needed_there_is_no_rate(wb: Session) -> None:
    found = wb.replay([Case(id="x", question="How are headings written?")], "catalog")
    assert found.rows[0]["hit"] is None and found.rate(found.designs[0]) == (0, 0, None)
    assert outcome((), ()) is None
    with pytest.raises(UsageError, match="there is no turn of which it is known"):
        found.compare("catalog", "catalog")
    assert "in context" not in repr(found) and "right" not in repr(found).split("\n")[1]


def test_a_figure_that_one_turn_does_not_have_is_unknown_of_all() -> None:
    assert spread([1, 2, None]) == {"median": None, "p95": None, "total": None} == spread([])
    assert spread([1, 2, 3]) == {"median": 2.0, "p95": pytest.approx(2.9), "total": 6}


# -- going on where it was


class Counting(DemoModel):
    """The demo model; says how often it was called, and fails where a question holds a word."""

    made: ClassVar[list[str]] = []
    failing: ClassVar[dict[str, list[Exception]]] = {}

    async def _astream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        question = next(m.text for m in reversed(messages) if m.type == "human").split("\n")[-1]
        self.made.append(question)
        for word, errors in self.failing.items():
            if word in question and errors:
                raise errors.pop(0)
        async for chunk in super()._astream(messages, *args, **kwargs):
            yield chunk


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Counting.made.clear()
    Counting.failing.clear()


class Refused(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"no, {status}")
        self.status_code = status


def test_a_second_run_does_only_what_is_missing(wb: Session, tmp_path: Path) -> None:
    store = tmp_path / "results.sqlite"
    first = wb.replay(turns()[:4], "attach", Counting(), store=store)
    assert len(Counting.made) == 4
    again = wb.replay(turns()[:6], "attach", Counting(), store=store)
    assert len(Counting.made) == 6 and told(first).items() <= told(again).items()
    changed = [Case(**{**vars(turns()[0]), "expect": "something else"}), *turns()[1:6]]
    assert [row["correct"] for row in wb.replay(changed, "attach", Counting(), store=store).rows] == [False] + [
        True
    ] * 5
    assert len(Counting.made) == 7, "a changed case is another one"
    wb.replay(turns()[:6], "attach", Counting(), store=store, seed=1)
    assert len(Counting.made) == 13
    wb.connect("s", server=server())
    wb.replay(turns()[:6], "attach", Counting(), store=store)
    assert len(Counting.made) == 19, "another offer is another experiment"


def test_a_function_that_was_changed_is_another_design(wb: Session, tmp_path: Path) -> None:
    async def mine(offer: Any, read: Any) -> Any:
        return await workbench.pattern.catalog(offer, read)

    def identity(source: str) -> str:
        return replaying._identity(mine)

    assert "workbench.pattern.catalog" in identity("") and identity("").startswith("mine\n")
    found = wb.replay(turns()[:1], [mine, "catalog"], Counting(), store=tmp_path / "r.sqlite")
    assert [row["pattern"] for row in found.rows] == ["mine", "catalog"]
    assert {row["outcome"] for row in found.rows} == {"fired"}


def test_what_failed_is_a_row_and_run_again_the_next_time(wb: Session, tmp_path: Path) -> None:
    """Asked for by issue 6: a model that fails on some calls."""
    Counting.failing["seat count"] = [Refused(400) for _ in range(4)]
    first = wb.replay(turns(), "attach", Counting(), store=tmp_path / "r.sqlite", concurrency=4)
    rows = {row["case"]: row for row in first.rows}
    assert sum(row["error"] is not None for row in rows.values()) == 4
    assert "status 400" in rows["seat count 4471"]["error"] and rows["seat count 4471"]["hit"] is None
    assert first.rate(first.designs[0])[:2] == (8, 8), "what failed is in no rate"
    assert "4 failed: " in repr(first) and "What failed is run again" in repr(first)
    again = wb.replay(turns(), "attach", Counting(), store=tmp_path / "r.sqlite")
    assert len(Counting.made) == 12 + 4 and again.rate(again.designs[0])[:2] == (12, 12)


def test_a_busy_provider_is_asked_again_and_another_refusal_is_not(
    wb: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncio.sleep", _no_time)
    Counting.failing |= {"renewal date": [Refused(429), Refused(529)], "seat count": [Refused(401)]}
    progress: list[int] = []
    found = wb.replay(
        [turns()[0], turns()[4]], "attach", Counting(), live=lambda p: progress.append(p.retried), concurrency=1
    )
    assert [(row["attempts"], row["error"] is None) for row in found.rows] == [(3, True), (1, False)]
    assert progress[-1] == 2
    Counting.failing["billing"] = [Refused(503) for _ in range(9)]
    gave_up = wb.replay([turns()[8]], "attach", Counting(), retries=2)
    assert gave_up.rows[0]["attempts"] == 3 and "status 503" in gave_up.rows[0]["error"]


_slept = __import__("asyncio").sleep


async def _no_time(seconds: float) -> None:
    await _slept(0)


def test_an_interrupt_keeps_what_is_finished_and_the_next_run_goes_on(wb: Session, tmp_path: Path) -> None:
    def interrupt(progress: replaying.Progress) -> None:
        if progress.done == 3:
            _thread.interrupt_main()

    store = tmp_path / "r.sqlite"
    with pytest.raises(KeyboardInterrupt):
        wb.replay(turns(), "catalog", "demo?first=0.05&next=0.05", store=store, concurrency=2, live=interrupt)
    stopped = wb.replays[-1]
    done = len(stopped.rows)
    assert 3 <= done < 12 and stopped.stopped == "it was stopped"
    assert f"it was stopped; {12 - done} of 12 turns are left" in repr(stopped)
    progress: list[replaying.Progress] = []
    whole = wb.replay(turns(), "catalog", "demo?first=0.05&next=0.05", store=store, live=progress.append)
    assert progress[-1].kept == whole.kept == done and len(whole.rows) == 12
    assert f"{done} of 12 were in the store before" in repr(whole)
    assert told(whole) == told(wb.replay(turns(), "catalog", "demo?first=0.05&next=0.05"))


KILLED = """
import os, signal, sys
from workbench import Session
def live(progress):
    if progress.done == 5:
        os.kill(os.getpid(), signal.SIGKILL)
if __name__ == "__main__":
    with Session("demo") as wb:
        wb.connect("demo")
        wb.replay(sys.argv[1], "catalog,attach", "demo?miss=0.29&seed=7", store=sys.argv[2], concurrency=3, live=live)
"""


def test_killed_in_the_middle_and_run_again_it_equals_an_uninterrupted_run(wb: Session, tmp_path: Path) -> None:
    """Asked for by issue 6: kill -9 in the middle, run again, equal to an uninterrupted run."""
    workbench.cases.save(turns(), path := tmp_path / "turns.jsonl")
    (script := tmp_path / "run.py").write_text(KILLED)
    store = tmp_path / "killed.sqlite"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run([sys.executable, str(script), str(path), str(store)], env=env, timeout=120, check=False)
    assert ended.returncode == -signal.SIGKILL
    progress: list[replaying.Progress] = []
    whole = wb.replay(path, "catalog,attach", MISSING, store=store, live=progress.append)
    assert progress[-1].kept == 5, "all that had finished"
    assert told(whole) == told(wb.replay(path, "catalog,attach", MISSING, store=tmp_path / "other.sqlite"))
    assert len(whole.rows) == 24
    spans = whole.turn(whole.rows[0]).spans
    assert [span.kind for span in spans][:2] == ["turn", "model"], "each with its trace"


# -- ceilings


def test_it_stops_before_a_ceiling_on_tokens_is_exceeded(wb: Session, tmp_path: Path) -> None:
    used: list[int] = []
    counted = replaying.Budget.__call__

    def spy(self: replaying.Budget, event: Any) -> None:
        counted(self, event)
        used.append(self.tokens)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replaying.Budget, "__call__", spy)
        found = wb.replay(turns(), "catalog", most_tokens=12_000, concurrency=3, store=tmp_path / "r.sqlite")
    assert 1 <= len(found.rows) < 12 and max(used) <= 12_000
    assert found.stopped is not None and "would exceed the 12,000 allowed" in found.stopped
    assert all(row["error"] is None for row in found.rows), "a turn that was not finished is no failure"
    assert len(wb.replay(turns(), "catalog", store=tmp_path / "r.sqlite").rows) == 12


def test_a_ceiling_on_money_needs_a_price_and_holds_it(wb: Session) -> None:
    unknown = wb.replay(turns()[:2], "catalog", most_usd=1.0)
    assert unknown.rows == [] and "the price of demo is not known" in str(unknown.stopped)

    class Priced(DemoModel):
        @property
        def model_name(self) -> str:
            return "gpt-4.1"

        def _get_ls_params(self, *_: Any, **__: Any) -> Any:
            return {"ls_provider": "openai"}

    found = wb.replay(turns(), "catalog", Priced(), most_usd=0.02, concurrency=2)
    assert 1 <= len(found.rows) < 12 and "would exceed the US$ 0.02 allowed" in str(found.stopped)
    assert found.rows[0]["price_usd"] is None, "nothing was reported, so what it cost is not known"
    for most in ({"most_tokens": 0}, {"most_usd": -1.0}):
        with pytest.raises(UsageError, match="lets nothing run"):
            wb.replay(turns(), "catalog", **most)  # type: ignore[arg-type]


# -- recordings


def test_reads_are_answered_from_a_recording_and_no_server_is_needed(wb: Session, tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    live = wb.replay(turns()[:4], "catalog,attach", recording=path)
    reads = [span for row in live.rows for span in live.turn(row).spans if span.kind == "read"]
    assert len(reads) == 8 and sum(not span.detail["recorded"] for span in reads) == 4, "each record was read once"
    with Session("demo") as alone:
        same = alone.replay(turns()[:4], "catalog,attach", recording=path)
        assert told(same) == told(live)
        missing = alone.replay(turns("Tell me the {} of {}")[:1], "attach(docs://style-guide)", recording=path)
    assert missing.rows[0]["error"] == (
        "resources/read of docs://style-guide is not recorded, and demo is not connected to ask it"
    )
    with path.open("a") as file:
        file.write('{"server": "dem')
    with pytest.raises(UsageError, match=r"recording\.jsonl, line \d+ is none of a recording"):
        wb.replay(turns()[:1], "catalog", recording=path)


def test_a_servers_error_is_recorded_too(tmp_path: Path) -> None:
    made = server()

    @made.resource("x://{n}/broken", description="Broken")
    def broken(n: str) -> str:
        raise ValueError("out of order")

    path = tmp_path / "recording.jsonl"
    case = Case(id="x", question="?")
    with Session(Scripted(replies=[Reply(text="no")])) as wb:
        wb.connect("s", server=made)
        first = wb.replay([case], "attach(x://1/broken)", recording=path)
    with Session(Scripted(replies=[Reply(text="no")])) as alone:
        again = alone.replay([case], "attach(x://1/broken)", recording=path)
    assert first.rows[0]["error"] == again.rows[0]["error"] and "out of order" in first.rows[0]["error"]


def test_a_recording_holds_no_secret(tmp_path: Path) -> None:
    path, key = tmp_path / "recording.jsonl", "geheimgeheim"
    with Session(Scripted(replies=[read("a"), Reply(text="It is.")])) as wb:
        wb.connect("s", server=server())
        wb._secrets.add(workbench.secret.Secret("a a a"))
        wb.replay([Case(id="x", question="?")], "catalog", recording=path)
    text = path.read_text()
    assert key not in text and "••••" in text and "a a a" not in text


# -- bad input


def test_a_case_whose_content_is_no_longer_offered_is_set_aside(wb: Session) -> None:
    gone = Case(id="gone", question="?", relevant=("docs://gone",))
    found = wb.replay([gone, *turns()[:1]], "attach")
    assert len(found.rows) == 1
    assert "case gone is left out: what it needs is not offered: nobody offers 'docs://gone'" in repr(found)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"patterns": "wizard"}, "there is no pattern 'wizard'"),
        ({"patterns": "catalog,catalog"}, "catalog is named twice"),
        ({"models": "demo,demo"}, "the model demo is named twice"),
        ({"models": "wizard"}, "there is no model 'wizard'"),
        ({"repeat": 0}, "repeat is 0"),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"retries": -1}, "retries is -1"),
        ({"approve": "sometimes"}, "approve='sometimes' is not known"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(wb: Session, options: Mapping[str, Any], why: str) -> None:
    with pytest.raises((UsageError, ModelError), match=why):
        wb.replay(turns(), **{"patterns": "catalog", **options})
    assert wb.replays == []


def test_a_set_that_is_not_there_leaves_no_store_behind(wb: Session, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        wb.replay(tmp_path / "none.jsonl", "catalog")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(workbench.NotConnected, match="no server is connected"), Session() as alone:
        alone.replay(turns(), "catalog")


def test_a_store_of_something_else_or_of_another_version_is_left_alone(wb: Session, tmp_path: Path) -> None:
    with sqlite3.connect(other := tmp_path / "other.sqlite") as db:
        db.execute("CREATE TABLE mine (x)")
    Store(old := tmp_path / "old.sqlite").close()
    with sqlite3.connect(old) as db:
        db.execute("PRAGMA user_version = 99")
    (text := tmp_path / "text").write_text(
        "not a database, but longer than the header of one, and so no empty file " * 20
    )
    for path, why in (
        (other, "is a database of something else"), (old, "written by another version"), (text, "file is not a database"),
        (tmp_path / "none" / "r.sqlite", "unable to open"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=why):
            wb.replay(turns()[:1], "attach", store=path)


def test_a_full_disk_ends_it_in_words_and_keeps_what_was_written(wb: Session, tmp_path: Path, monkeypatch: Any) -> None:
    """A page limit is SQLite's own way to fill a disk."""
    prepare = Store._prepare

    def small(self: Store) -> None:
        prepare(self)
        self._db.execute("PRAGMA max_page_count = 8")

    monkeypatch.setattr(Store, "_prepare", small)
    found = wb.replay(turns(), "catalog,attach", store=tmp_path / "r.sqlite", concurrency=4)
    assert found.stopped is not None and "database or disk is full. What had finished is there" in found.stopped
    assert 1 <= len(found.rows) < 24
    monkeypatch.undo()
    assert len(wb.replay(turns(), "catalog,attach", store=tmp_path / "r.sqlite").rows) == 24


def test_two_kernels_may_write_into_one_store(tmp_path: Path) -> None:
    one, other = Store(tmp_path / "r.sqlite"), Store(tmp_path / "r.sqlite")
    for n in range(50):
        (one if n % 2 else other).put(Result(str(n), {"n": n}, ()))
    assert [row["n"] for _, row in one.rows(map(str, range(50)))] == list(range(50))


def test_nobody_is_there_for_what_a_server_asks_in_a_replayed_turn() -> None:
    """Its request is refused with the reason, though somebody sits before the session."""
    asks = Call(
        name="s__raw_form", args={"schema": {"type": "object", "properties": {"name": {"type": "string"}}}}, id="f1"
    )
    model = Scripted(replies=[Reply(calls=(asks,)), Reply(text="It is.")])
    with Session(model, on_request=lambda request: {"name": "Ann"}) as wb:
        wb.connect("s", command=asking(), env={"PYTHONPATH": str(ROOT)})
        found = wb.replay([Case(id="x", question="?")], "catalog", approve="all")
        (asked,) = [span for span in wb.spans if span.kind == "request"]
    assert asked.status == "refused" and "the turn is replayed" in asked.detail["reason"] and asked.turn is None
    assert found.rows[0]["error"] is None


# -- what a person sees


def test_hostile_text_is_text_in_the_page(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    with Session(Scripted(replies=[Reply(text=evil), Reply(text=evil)])) as wb:
        wb.connect("s", server=server())
        cases = [Case(id=evil, question=evil, relevant=("x://a",)), Case(id="gone", question=evil, relevant=(evil,))]
        found = wb.replay(cases, "catalog,attach(x://a)", concurrency=1)
        page = found.save(tmp_path / "report.html").read_text()
    bundle = (
        found._repr_mimebundle_()["text/html"]
        + found.differing("catalog", "attach(x://a)")._repr_mimebundle_()["text/html"]
    )
    for text in (page, bundle):
        assert "<script" not in text and "<img src=x" not in text and "&lt;script&gt;" in text
    assert "default-src 'none'" in page and "http" not in page.split("</head>")[0].replace("http-equiv", "")


def test_figures_go_on_as_a_frame_and_as_parquet(wb: Session, tmp_path: Path) -> None:
    found = wb.replay(turns()[:3], "catalog,attach", MISSING)
    frame = found.frame()
    assert len(frame) == 6 and {"case", "outcome", "hit", "input_tokens", "input_tokens_estimated", "counter"} <= set(
        frame
    )
    assert frame["input_tokens"].isna().all(), "the demo model reports nothing"
    back = pd.read_parquet(found.to_parquet(tmp_path / "r.parquet"))
    assert back["seconds"].tolist() == frame["seconds"].tolist() and back["answer"].tolist() == frame["answer"].tolist()
    summary = found.summary()
    assert summary["hit_of"].tolist() == [3, 3] and summary["input_tokens_median"].isna().all()
    assert len(found.charts()) == 4 and all(chart.png().startswith(b"\x89PNG") for chart in found.charts())


def test_progress_says_rate_failures_and_what_is_left() -> None:
    from workbench.view.replayed import progress

    found = replaying.Progress(total=100, kept=10, done=45, failed=2, retried=3, began=time.monotonic() - 9)
    assert progress(found) == (
        "█████████████░░░░░░░░░░░ 55 of 100, 10 from the store, 5 turns a second, 9 s left, 2 failed, 3 asked again"
    )
    assert json.dumps(progress(replaying.Progress(total=0)))


def test_a_budget_is_no_matter_of_other_spans() -> None:
    budget = replaying.Budget(10)
    budget("a piece of text")
    made_of = {"composition": [{"tokens": 11}]}
    with pytest.raises(Stopped):
        budget(Span(id="1", parent=None, turn=1, kind="model", name="m", actor="host", started=0.0, detail=made_of))
