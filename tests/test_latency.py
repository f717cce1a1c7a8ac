"""Simulated latency and misses: the arithmetic of the seed "Application-controlled resources and model-controlled tools",
from spans. Where the clock is injected nothing waits."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import Runnable

from tests.test_demo_model import SEED, SUM, block, entry, read_resource, system
from workbench import ModelError, Session, ledger, models
from workbench.demo.model import DemoModel
from workbench.demo.server import build
from workbench.demo.simulated import Simulated, parse
from workbench.recorder import Clock
from workbench.turn import Turn

URI = "crm://customer/4471/subscription"
QUESTION = "is ACME (customer 4471) still on the annual plan?"
STAGING = Simulated(first=1.4, next=2.1)
READ = 0.038


class Hands:
    """A clock that stands still until somebody sleeps on it. Only the session's background loop sleeps; the reads from
    another thread are of one number that only grows."""

    def __init__(self) -> None:
        self.at = 1_700_000_000.0

    def __call__(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds
        await asyncio.sleep(0)


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def staging(hands: Hands) -> Iterator[Session]:
    """The seed's staging environment: 1.4 s, 38 ms and 2.1 s."""
    model = DemoModel(simulated=STAGING, sleep=hands.sleep)
    with Session(model, clock=Clock(hands, hands)) as wb:
        wb.connect("crm", server=build(READ, hands.sleep))
        yield wb


def intervals(turn: Turn) -> list[tuple[str, float]]:
    """Kind and seconds of the spans that took any time, in order; to a microsecond, as the clock's numbers are large."""
    timed = [(span.kind, round(span.seconds or 0.0, 6)) for span in turn.spans if span.kind != "turn"]
    return [(kind, seconds) for kind, seconds in timed if seconds]


def total(turn: Turn) -> float:
    assert turn.totals.seconds is not None
    return round(turn.totals.seconds, 6)


# -- the arithmetic


def test_on_demand_takes_two_calls_and_attached_takes_one_and_what_remains_is_the_first_call(staging: Session) -> None:
    """The seed: "38 ms and the 2.1 s appear on both sides, so subtracting leaves exactly one term standing"."""
    asked = staging.ask(QUESTION, pattern="catalog", new=True)
    attached = staging.ask(QUESTION, pattern=f"attach({URI})", new=True)
    assert intervals(asked) == [("model", 1.4), ("read", READ), ("model", 2.1)]
    assert intervals(attached) == [("read", READ), ("model", 2.1)]
    assert (total(asked), total(attached)) == (3.538, 2.138)
    assert round(total(asked) - total(attached), 6) == 1.4
    assert [span.actor for turn in (asked, attached) for span in turn.spans if span.kind == "read"] == ["model", "host"]
    assert asked.answer == attached.answer and "annual" in attached.answer


def test_what_was_attached_before_costs_the_turn_only_the_call_that_answers(staging: Session) -> None:
    staging.attach(URI)
    assert intervals(staging.ask(QUESTION)) == [("model", 2.1)]
    assert [round(span.seconds or 0, 6) for span in staging.spans if span.kind == "read"] == [READ]


def test_every_further_tool_call_costs_another_first(staging: Session) -> None:
    """A link is read in a step of its own, a search comes before the read; an embedded resource saves the step."""
    for pattern, calls in (("companion", 2), ("search", 2), ("companion(embedded)", 1)):
        turn = staging.ask(QUESTION, pattern=pattern, new=True)
        assert total(turn) == round(calls * 1.4 + READ + 2.1, 6), pattern
        assert "annual" in turn.answer


def test_the_traces_name_says_that_the_figures_are_simulated(staging: Session) -> None:
    turn = staging.ask(QUESTION, new=True)
    assert {span.name for span in turn.spans if span.kind == "model"} == {"demo?first=1.4&next=2.1"}
    assert turn.spans[0].detail["model"] == "demo?first=1.4&next=2.1"
    assert "demo?first=1.4&amp;next=2.1" in turn._repr_mimebundle_()["text/html"]


def test_on_a_real_clock_the_total_is_more_than_its_parts_and_the_rest_is_shown() -> None:
    """The seed: "each quoted total carries a fraction of a second the trace does not itemise"."""
    with Session("demo?first=0.05&next=0.1") as wb:
        wb.connect("crm", server=build(0.03))
        found = wb.compare(QUESTION, patterns=["catalog", f"attach({URI})"])
        for run, (in_model, in_server) in zip(found.runs, ((0.15, 0.03), (0.1, 0.03)), strict=True):
            row, sums = run.row(), run.turn.totals
            assert row["model_seconds"] >= in_model and row["server_seconds"] >= in_server
            assert row["own_seconds"] == pytest.approx(row["seconds"] - row["model_seconds"] - row["server_seconds"])
            rest = (sums.seconds or 0) - sum(sums.seconds_by_kind.values())
            assert 0 < rest <= row["own_seconds"]  # a read's own decoding is the workbench's, too
            assert f"{row['own_seconds']:.3f}" in repr(found)
        assert ledger.seconds(found.runs[0].turn.spans)["own"] == found.runs[0].row()["own_seconds"]


# -- misses

TOPICS = ("roses", "tomatoes", "pumps", "mowers", "ponds", "ferns", "hedges", "lawns", "bulbs", "herbs")
QUESTIONS = [f"How are {topic} number {number} watered?" for topic in TOPICS for number in range(20)]
CATALOG = system(entry("g://care", "Care", "How to water " + ", ".join(TOPICS)))


def tooled(**settings: Any) -> Runnable[Any, AIMessage]:
    return DemoModel(simulated=Simulated(**settings)).bind_tools([read_resource])


def missed(**settings: Any) -> set[str]:
    model = tooled(**settings)
    return {text for text in QUESTIONS if not model.invoke([CATALOG, HumanMessage(text)]).tool_calls}


def test_over_many_questions_the_rate_is_the_stated_one_and_another_seed_misses_others() -> None:
    """The seed: the tool "fired on 71 % of the turns where the record was relevant"."""
    assert len(set(QUESTIONS)) == 200 and missed() == set() and missed(miss=1) == set(QUESTIONS)
    found = {seed: missed(miss=0.29, seed=seed) for seed in (7, 8, 9)}
    assert found[7] == missed(miss=0.29, seed=7)
    for each in found.values():
        assert 0.20 < len(each) / 200 < 0.38  # 0.29 and 2.8 standard deviations of 200 independent draws
    assert 0.24 < sum(map(len, found.values())) / 600 < 0.34
    for one, other in (
        (7, 8),
        (8, 9),
        (7, 9),
    ):  # two seeds have 0.29 squared in common, as if they knew nothing of each other
        assert 0.03 < len(found[one] & found[other]) / 200 < 0.15


def test_a_higher_rate_misses_more_questions_and_none_less() -> None:
    rising = [missed(miss=part / 10, seed=3) for part in range(0, 11, 2)]
    assert all(fewer < more for fewer, more in pairwise(rising))


def test_a_missing_turn_says_so_takes_one_call_and_counts_on_no_reads(staging: Session, hands: Hands) -> None:
    model = DemoModel(simulated=Simulated(first=1.4, next=2.1, miss=1), sleep=hands.sleep)
    turn = staging.ask(QUESTION, model=model, new=True)
    assert intervals(turn) == [("model", 2.1)] and turn.totals.reads == 0
    assert "matches best. I called no tool for this: I am set to call none on 100% of the turns" in turn.answer
    attached = staging.ask(QUESTION, model=model, new=True, pattern=f"attach({URI})")
    assert "annual" in attached.answer and "simulated" not in attached.answer  # no judgement call, so none to miss


def test_a_missing_turn_answers_from_what_the_transcript_holds(staging: Session) -> None:
    """The seed: such turns "produced answers reasoning from whatever the transcript had said about the account earlier"."""
    staging.ask(QUESTION, model=DemoModel(), new=True)
    turn = staging.ask(QUESTION, model=DemoModel(simulated=Simulated(miss=1)))
    assert turn.totals.reads == 0
    assert "annual" in turn.answer and "call none on 100%" in turn.answer


def test_a_turn_that_began_to_call_goes_on_and_patterns_meet_the_same_draw() -> None:
    """Drawn from the questions alone: neither catalog nor content comes into it."""
    calls = [seed for seed in range(20) if not Simulated(miss=0.5, seed=seed).misses([SEED])]
    assert 0 < len(calls) < 20
    model = tooled(miss=0.5, seed=calls[0])
    for catalog in (system(SUM), SystemMessage("Another.\n\n" + str(system(SUM).content))):
        asked = model.invoke([catalog, HumanMessage(SEED)])
        (call,) = asked.tool_calls
        result = ToolMessage(block("sap-btp://sum-abap-v1", "ABAP products"), tool_call_id=call["id"])
        assert "ABAP products" in model.invoke([catalog, HumanMessage(SEED), asked, result]).content


# -- settings


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("demo", "demo"), ("demo?", "demo"), ("demo?first=0", "demo"), ("demo?next=2.1&first=1.4", "demo?first=1.4&next=2.1"),
        ("demo?first=1.4&next=2.1&miss=0.29&seed=7", "demo?first=1.4&next=2.1&miss=0.29&seed=7"),
        ("demo?first=1e-3&seed=-4", "demo?first=0.001&seed=-4"), ("demo?miss=1", "demo?miss=1"), ("demo?next=2", "demo?next=2"),
    ],
)  # fmt: skip
def test_a_models_name_carries_its_settings_and_is_read_back_the_same(given: str, name: str) -> None:
    assert models.model_name(models.resolve(given)) == name
    assert models.model_name(models.resolve(name)) == name


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("speed=2", "no setting 'speed'"), ("first", "first= is no number"), ("first=fast", "first=fast is no number"),
        ("first=-1", "first=-1 is no number of seconds"), ("next=nan", "next=nan is no number of seconds"),
        ("next=inf", "next=inf is no number of seconds"), ("miss=29", "miss=29 is no part"), ("miss=-0.1", "miss=-0.1 is"),
        ("miss=nan", "miss=nan is no part"), ("seed=7.5", "seed=7.5 is no whole number"), ("first=1&first=2", "given twice"),
        ("FIRST=1", "no setting 'FIRST'"),
    ],
)  # fmt: skip
def test_wrong_settings_are_told_with_what_is_known_and_an_example(settings: str, said: str) -> None:
    with pytest.raises(ModelError) as caught:
        models.resolve(f"demo?{settings}")
    for part in (
        said,
        "first (seconds of a call that ends in a tool call)",
        "demo?first=1.4&next=2.1&miss=0.29&seed=7",
    ):
        assert part in str(caught.value)


def test_a_session_with_wrong_settings_is_left_as_it_was(staging: Session) -> None:
    with pytest.raises(ModelError, match="no setting 'fist'"):
        staging.ask(QUESTION, model="demo?fist=1")
    assert staging.turns == []


def test_without_an_event_loop_and_without_streaming_it_takes_its_time_too() -> None:
    model = DemoModel(simulated=parse("next=0.05"))
    for run in (lambda: model.invoke("hello"), lambda: list(model.stream("hello"))):
        started = time.perf_counter()
        run()
        assert time.perf_counter() - started >= 0.05
    hands = Hands()
    before, held = hands.at, DemoModel(simulated=parse("next=5"), sleep=hands.sleep, disable_streaming=True)
    asyncio.run(held.ainvoke("hello"))
    assert hands.at - before == 5


# -- the server


def test_the_server_waits_before_each_read_only(hands: Hands) -> None:
    with Session(clock=Clock(hands, hands)) as wb:
        wb.connect("slow", server=build(delay=2, sleep=hands.sleep))
        before = hands.at
        wb.prompt("summarize_ticket", {"ticket_id": "T-1058"})
        assert hands.at == before
        wb.read("docs://style-guide")
        wb.read(URI)
        assert hands.at - before == 4


def test_the_command_line_takes_a_delay_and_refuses_what_is_none() -> None:
    command = [sys.executable, "-m", "workbench.demo", "--delay"]
    with Session() as wb:
        wb.connect("slow", command=[*command, "0.2"])
        wb.read(URI)
        (read,) = (span for span in wb.spans if span.kind == "read")
        assert read.seconds is not None and 0.2 <= read.seconds < 2
    for text in ("-1", "nan", "soon"):
        ended = subprocess.run([*command[:-1], f"--delay={text}"], capture_output=True, text=True, check=False)
        assert ended.returncode == 2 and "--delay" in ended.stderr and text in ended.stderr
