"""Patterns: what each puts into the context, what they add up to, and what is refused before anything is sent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from mcp.server.fastmcp import FastMCP
from mcp.server.fastmcp.resources import TextResource
from mcp.types import Annotations
from pydantic import AnyUrl

from tests.servers.script import Call, Reply
from tests.servers.scripted import Scripted
from workbench import Session, ledger, pattern, search, tokens
from workbench.content import Offer, Resource
from workbench.errors import NotOffered, UsageError
from workbench.pattern import Brief, attach, catalog, companion, dump, truncate

MATRIX = "sap-btp://sum-abap-v1"
OWN = ["demo__search_tickets", "demo__style_guide_tool"]


@pytest.fixture
def wb() -> Iterator[Session]:
    with Session(Scripted(replies=[Reply(text="It is.") for _ in range(9)])) as made:
        made.connect("demo")
        yield made


def sent(wb: Session) -> str:
    """The system prompt of the last request."""
    assert isinstance(wb.model, Scripted)
    return wb.model.seen[-1][0].text


def tool_names(wb: Session) -> list[str]:
    assert isinstance(wb.model, Scripted)
    return [tool["function"]["name"] for tool in wb.model.tools]


# -- names and sums


@pytest.mark.parametrize(
    "text",
    [
        "dump", "truncate(2000)", "catalog", "catalog(4000)", "search", "attach", "attach(a://b)", "attach(a://b,c://d)",
        "companion", "companion(embedded)", "attach(a://b)+catalog", "attach(x://a+b)+companion", "search+attach",
    ],
)  # fmt: skip
def test_a_pattern_displays_as_what_makes_it(text: str) -> None:
    assert pattern.name_of(pattern.resolve(text)) == text


def test_sums_are_made_in_python_as_in_a_line() -> None:
    made = attach("a://b") + catalog + companion
    assert repr(made) == "attach(a://b)+catalog+companion" and pattern.resolve(repr(made)) == made
    assert pattern.name_of(pattern.resolve("truncate")) == "truncate(2000)"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("wizard", r"there is no pattern 'wizard'; there are: dump, truncate"),
        ("catalog+wizard", r"there is no pattern 'wizard' in 'catalog\+wizard'"),
        ("dump+truncate", r"dump and truncate\(2000\) both put every resource into the system prompt: use one of them"),
        ("truncate(x)", r"'x' is no number; it is written as truncate\(2000\)"),
        ("truncate(0)", r"truncate\(0\) leaves nothing"),
        ("dump(3)", "dump takes nothing in parentheses"),
        ("companion(wide)", "companion takes nothing or embedded, not 'wide'"),
        ("catalog(", r"there is no pattern 'catalog\('"),
    ],
)
def test_what_is_no_pattern_is_one_clear_sentence_and_changes_nothing(wb: Session, text: str, why: str) -> None:
    wb.attach("docs://style-guide")
    before = (dict(wb.attachments), list(wb.turns), list(wb._thread.messages))
    with pytest.raises(UsageError, match=why):
        wb.ask("?", pattern=text)
    assert (dict(wb.attachments), list(wb.turns), list(wb._thread.messages)) == before


def test_no_callable_is_no_pattern(wb: Session) -> None:
    with pytest.raises(UsageError, match="3 is no pattern: it is not a callable"):
        wb.ask("?", pattern=3)  # type: ignore[arg-type]


# -- what each brings


def test_dump_and_truncate_put_content_into_the_prompt_and_say_what_is_lost(wb: Session) -> None:
    whole = wb.ask("?", pattern="dump")
    text = wb.read(MATRIX).parts[0].data
    assert (
        isinstance(text, str)
        and text.strip() in sent(wb)
        and tool_names(wb) == ["demo__search_tickets", "demo__style_guide_tool"]
    )
    assert ledger.lost(whole.spans) == 0
    cut = wb.ask("?", pattern="truncate(300)", new=True)
    assert text[:300] in sent(wb) and text[:301] not in sent(wb)
    (span,) = [x for x in cut.spans if x.kind == "attach" and x.name == MATRIX]
    assert span.detail["missing_tokens"] == tokens.count(text) - tokens.count(text[:300])
    assert (span.detail["end"], span.detail["whole"]) == (300, len(text))


def test_companions_answer_with_a_link_or_with_the_content() -> None:
    for text, results in (("companion", 1), ("companion(embedded)", 0)):
        door = Reply(calls=(Call(name="style_guide-tool", id="c1"),))
        with Session(Scripted(replies=[door, Reply(text="It is.")])) as wb:
            wb.connect("demo")
            turn = wb.ask("?", pattern=text)
            assert isinstance(wb.model, Scripted)
            answer = wb.model.seen[-1][-1].text
            assert ("Headings are in sentence case" in answer) is not bool(results)
            assert ("docs://style-guide" in answer) and ("read_resource" in tool_names(wb)) is bool(results)
            assert turn.totals.reads == 1 - results


def test_a_function_of_ones_own_does_as_well(wb: Session) -> None:
    async def mine(offer: Offer, read: Any) -> Brief:
        content = await read("docs://style-guide")
        return Brief(system=f"There are {len(offer.resources)}.", attached=(content,), synthetic=frozenset())

    turn = wb.ask("?", pattern=mine)
    assert sent(wb) == "There are 8." and tool_names(wb) == ["demo__search_tickets", "demo__style_guide_tool"]
    assert [(s.kind, s.actor) for s in turn.spans if s.detail.get("uri")] == [("read", "host"), ("attach", "host")]
    wb.ask("?", pattern=attach(MATRIX) + mine, new=True)
    assert wb.turns[-1].totals.reads == 2


def test_a_sum_says_once_what_both_say(wb: Session) -> None:
    wb.ask("?", pattern=f"attach({MATRIX})+catalog+search")
    assert sent(wb).count("You answer the questions of a person") == 1
    turn = wb.ask("?", pattern=f"attach({MATRIX})+dump", new=True)
    brought = [span.name for span in turn.spans if span.kind == "attach"]
    assert brought.count(MATRIX) == 1, "what is attached is not dumped, too"


def test_an_attachment_that_is_gone_fails_the_turn_with_near_misses(wb: Session) -> None:
    with pytest.raises(NotOffered, match="docs://style-guide"):
        wb.ask("?", pattern="attach(docs://style-guid)")
    assert wb.turns[-1].status == "error" and not wb._thread.messages
    assert wb.ask("?").status == "ok"


def test_a_dump_over_the_window_is_refused_before_it_is_sent() -> None:
    with Session(Scripted(replies=[Reply(text="It is.")], profile={"max_input_tokens": 5_000})) as wb:
        wb.connect("demo")
        with pytest.raises(
            UsageError,
            match=r"not sent: with the content of 8 resources the request has 20,\d\d\d tokens .* takes 5,000",
        ):
            wb.ask("?", pattern="dump")
        assert isinstance(wb.model, Scripted) and wb.model.seen == []
        assert wb.ask("?", pattern="catalog").answer == "It is."


# -- catalogs that do not fit


def large(number: int) -> FastMCP:
    made = FastMCP("big")
    for n in range(number):
        kind = ("invoice", "contract")[n % 2]
        made.add_resource(
            TextResource(
                uri=AnyUrl(f"crm://{kind}/{n}"),
                name=f"{kind} {n}",
                description=f"The {kind} of customer {n}",
                text=f"{kind} {n}",
                annotations=Annotations(priority=1.0) if n == number - 1 else None,
            )
        )
    return made


def test_over_its_budget_the_catalog_counts_lists_the_most_important_and_lets_the_model_search() -> None:
    find = Reply(calls=(Call(name="find_resources", args={"query": "invoice customer 124"}, id="f1"),))
    with Session(Scripted(replies=[find, Reply(text="It is.")])) as wb:
        wb.connect("big", server=large(400))
        turn = wb.ask("?", pattern="catalog")
        prompt = sent(wb)
        assert "find_resources" in tool_names(wb)
        (root,) = [span for span in turn.spans if span.kind == "turn"]
        assert root.detail["catalog_total"] == 400 > root.detail["catalog_listed"] > 0
        assert root.detail["catalog_tokens"] <= root.detail["catalog_budget"] == 2_000
        assert "400 entries are offered" in prompt and "200 resources at crm://invoice" in prompt
        assert "crm://contract/399" in prompt, "the one with the highest priority"
        assert isinstance(wb.model, Scripted) and "crm://invoice/124" in wb.model.seen[-1][-1].text
        assert len(turn.spans) == 4 and turn.spans[2].detail["rule"] == "synthetic"


def test_a_budget_smaller_than_one_entry_is_refused_with_what_it_takes() -> None:
    with Session(Scripted(replies=[Reply(text="It is.")])) as wb:
        wb.connect("big", server=large(40))
        with pytest.raises(
            UsageError, match=r"a catalog budget of 1 tokens is too small: .* take (\d+)\. Give"
        ) as error:
            wb.ask("?", pattern="catalog(1)")
        least = re.search(r"take (\d+)", str(error.value))
        turn = wb.ask("?", pattern=f"catalog({least[1] if least else 0})")
        assert turn.spans[0].detail["catalog_listed"] == 0 and "find_resources" in tool_names(wb)
        assert "40 entries are offered" in sent(wb)


def test_one_of_a_hundred_thousand_is_found() -> None:
    """How long it takes is measured by `make bench`."""
    names = ("north", "south", "east")
    offer = Offer(
        resources=tuple(
            Resource(server="s", uri=f"x://{n}", name=f"{names[n % 3]} {n}", description=f"Stock of warehouse {n}")
            for n in range(100_000)
        )
    )
    found = search.find(offer, "warehouse 77123", None)
    assert found.entries[0].uri == "x://77123"
    assert "x://77123" in found.text and len(found.entries) <= search.MOST


def test_descriptions_that_are_missing_or_the_same_are_counted() -> None:
    offer = Offer(resources=tuple(Resource(server="s", uri=f"x://{n}", name=str(n), description=d) for n, d in enumerate(
        [None, "", "Same", "Same", "Another"]
    )))  # fmt: skip
    assert pattern.listing.undescribed(offer) == (2, 2)


def test_patterns_are_values() -> None:
    assert truncate(5) == truncate(5) != truncate(6) and dump == pattern.resolve("dump")
    assert len({catalog, catalog, companion}) == 2
