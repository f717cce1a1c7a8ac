"""For random offers, patterns and threads: what a call is made of sums to what is sent, and no pattern changes another's brief.

Asked for by issue 4, "Shown by".
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp.server.lowlevel import Server
from mcp.types import Annotations, Resource, TextResourceContents, Tool
from pydantic import AnyUrl

from tests.servers.script import Call, Reply
from tests.servers.scripted import Scripted
from workbench import Session, ledger, messages, pattern, tokens
from workbench.content import Content, Offer

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=400)
TYPES = st.sampled_from(["text/plain", "text/markdown", "application/json"])
ENTRY = st.tuples(TEXT, st.none() | TEXT, st.none() | st.floats(0, 1, width=16), TYPES)
PATTERNS = (
    "dump",
    "truncate(40)",
    "catalog",
    "catalog(300)",
    "search",
    "companion",
    "companion(embedded)",
    "attach(x://0)",
)


@st.composite
def chosen(draw: Any) -> str:
    parts = draw(st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=3, unique_by=lambda name: name.split("(")[0]))
    if "dump" in parts and "truncate(40)" in parts:  # these two clash
        parts.remove("truncate(40)")
    return "+".join(parts)


class Offered(Server[Any, Any]):
    """Resources with these contents and descriptions, and tools."""

    def __init__(self, entries: list[Any], tools: list[str]) -> None:
        super().__init__("s")

        @self.list_resources()  # type: ignore[no-untyped-call,untyped-decorator]
        async def _list() -> list[Resource]:
            return [
                Resource(
                    uri=AnyUrl(f"x://{n}"), name=f"r{n}", description=about, mimeType=mime,
                    annotations=None if priority is None else Annotations(priority=priority),
                )
                for n, (_, about, priority, mime) in enumerate(entries)
            ]  # fmt: skip

        @self.list_tools()  # type: ignore[no-untyped-call,untyped-decorator]
        async def _tools() -> list[Tool]:
            schema = {"type": "object", "properties": {"q": {"type": "string"}}}
            return [Tool(name=f"t{n}", description=about, inputSchema=schema) for n, about in enumerate(tools)]

    def read(self, entries: list[Any]) -> Offered:
        from mcp.types import ReadResourceRequest, ReadResourceResult, ServerResult

        async def _read(request: ReadResourceRequest) -> ServerResult:
            text, _, _, mime = entries[int(str(request.params.uri).rsplit("/", 1)[-1])]
            return ServerResult(
                ReadResourceResult(contents=[TextResourceContents(uri=request.params.uri, text=text, mimeType=mime)])
            )

        self.request_handlers[ReadResourceRequest] = _read
        return self


def reading(number: int) -> Reply:
    return Reply(calls=(Call(name="read_resource", args={"uri": f"x://{number}"}, id=f"r{number}"),))


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    entries=st.lists(ENTRY, min_size=1, max_size=6),
    tools=st.lists(TEXT, max_size=3),
    turns=st.lists(
        st.tuples(chosen(), TEXT.filter(str.strip), st.lists(st.integers(0, 5), max_size=2)), min_size=1, max_size=3
    ),
)
def test_what_a_call_is_made_of_sums_to_what_is_sent(entries: list[Any], tools: list[str], turns: list[Any]) -> None:
    replies = [reply for _, said, reads in turns for reply in [*map(reading, dict.fromkeys(reads)), Reply(text=said)]]
    model = Scripted(replies=list(replies))
    with Session(model) as wb:
        wb.connect("s", server=Offered(entries, tools).read(entries))
        at = 0
        for name, question, _ in turns:
            model.tools.clear()
            turn = wb.ask(question, pattern=name)
            rows = ledger.composition(turn.spans)
            requests, at = model.seen[at:], len(model.seen)
            assert len(rows) == len(requests)
            schemas = [json.dumps(tool, ensure_ascii=False) for tool in model.tools]
            for row, request in zip(rows, requests, strict=True):
                assert sum(row[kind] for kind in ledger.KINDS) == row["estimated"] == row["input_tokens"]
                # Counted in one go, without knowing what is what: only where two texts meet a token may be more or less.
                texts = [*(messages.request_text(message) for message in request), *schemas]
                whole = tokens.count("\n\n".join(texts))
                assert abs(whole - row["estimated"]) <= 8 + 4 * len(texts) + 3 * len(entries)


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(entries=st.lists(ENTRY, min_size=1, max_size=6), first=chosen(), second=chosen())
def test_no_pattern_changes_what_another_sees(entries: list[Any], first: str, second: str) -> None:
    with Session(Scripted(replies=[])) as wb:
        wb.connect("s", server=Offered(entries, []).read(entries))
        offer = wb.offer
        before = repr(offer), hash(offer.resources)

        async def read(uri: str, server: str | None = None) -> Content:
            return await wb.servers.read(uri, server, "host", {})

        async def both() -> list[Any]:
            alone = await pattern.resolve(second)(offer, read)
            await pattern.resolve(first)(offer, read)
            after = await pattern.resolve(second)(offer, read)
            beside = (await asyncio.gather(pattern.resolve(first)(offer, read), pattern.resolve(second)(offer, read)))[
                1
            ]
            return [alone, after, beside]

        alone, after, beside = wb.loop.run(both())
        assert alone == after == beside
        assert (repr(offer), hash(offer.resources)) == before and isinstance(offer, Offer)
