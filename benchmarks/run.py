"""`make bench`: six comparisons with what one would use otherwise, each interleaved in one run (A B A B ...).

Machines are noisy, so a figure is a median and only ratios of neighbouring measurements count. Prints a table and writes
`build/bench.json` with every sample. What is compared, and what each side got for its time, is said in README.md.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import heapq
import json
import os
import platform
import sys
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from jupyter_client.manager import KernelManager
from langchain_core.tools import tool
from langchain_mcp_adapters.resources import load_mcp_resources
from langgraph.prebuilt import create_react_agent
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from pydantic import AnyUrl

from workbench import Session, pattern, search
from workbench.cases import Case
from workbench.connection import Connection
from workbench.content import Offer, Resource
from workbench.demo.model import DemoModel
from workbench.target import Target

HERE = Path(__file__).parent
BIG = "bench://big"
HEAVY = ("mcp", "langgraph", "pandas", "langchain_core")
"""What `%load_ext workbench` must not import."""


class Sample(NamedTuple):
    """One measurement, in seconds: by the clock, and of CPU in the client process (all threads, user and system)."""

    wall: float
    cpu: float
    got: int
    """Resources or bytes that it brought."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measure of one comparison. `ratios` are per pair of neighbouring runs, peer / ours, or for the kernel ours / peer."""

    name: str
    measure: str
    ours: tuple[float, ...]
    peer: tuple[float, ...]
    ratios: tuple[float, ...]
    aim: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float:
        return median(self.ratios)

    @property
    def verdict(self) -> str:
        """Empty where nothing was aimed at."""
        return "" if self.aim is None else f"{'met' if self.ratio >= self.aim else 'MISSED'} (aim {self.aim:g})"


def pair(name: str, measure: str, ours: Sequence[float], peer: Sequence[float], **more: Any) -> Row:
    """A row of the usual direction: how many times more the peer took."""
    ratios = tuple(b / a for a, b in zip(ours, peer, strict=True))
    return Row(name=name, measure=measure, ours=tuple(ours), peer=tuple(peer), ratios=ratios, **more)


# -- 1: the extension against a bare kernel

_PROBE = """
import sys, time
_w, _c = time.perf_counter(), time.process_time()
if {load}:
    get_ipython().run_line_magic("load_ext", "workbench")
_own = time.perf_counter() - _w, time.process_time() - _c
"""
_REPORT = (
    "[time.process_time(), *_own, 'workbench' in get_ipython().extension_manager.loaded,"
    " [x for x in {heavy} if x in sys.modules]]"
)


def start_kernel(load: bool) -> tuple[float, list[Any]]:
    """Seconds from spawning a kernel to the reply of its first cell, and `[cpu, own wall, own cpu, loaded, heavy]` from inside.

    Raises `RuntimeError` when the cell fails.
    """
    manager = KernelManager()
    started = time.perf_counter()
    manager.start_kernel(extra_arguments=["--log-level=ERROR"])  # else it warns of TCP at every start
    client = manager.client()
    client.start_channels()
    try:
        report = {"report": _REPORT.format(heavy=HEAVY)}
        reply = client.execute(_PROBE.format(load=load), user_expressions=report, reply=True, timeout=120)["content"]
        wall = time.perf_counter() - started
        if reply["status"] != "ok" or reply["user_expressions"]["report"]["status"] != "ok":
            raise RuntimeError(f"the kernel's first cell failed: {reply}")
        return wall, ast.literal_eval(reply["user_expressions"]["report"]["data"]["text/plain"])
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def kernel(rounds: int) -> list[Row]:
    """Start-up with `%load_ext workbench` against without. Here a ratio is with / without, so 1.0 is for free."""
    start_kernel(True)  # not counted: the file cache, and missing .pyc files
    runs = [(start_kernel(True), start_kernel(False)) for _ in range(rounds)]
    heavy = sorted({name for (_, report), _ in runs for name in report[4]})
    if not all(report[3] and not bare[3] for (_, report), (_, bare) in runs):
        raise RuntimeError("the extension is not loaded where it should be, or loaded where it should not")
    rows = []
    for measure, index in (("wall s", 0), ("CPU s", 1)):
        ours = tuple((wall, report[0])[index] for (wall, report), _ in runs)
        bare = tuple((wall, report[0])[index] for _, (wall, report) in runs)
        own = median(report[1 + index] for (_, report), _ in runs)
        note = f"%load_ext itself {own * 1000:.0f} ms; of {', '.join(HEAVY)} it imported {', '.join(heavy) or 'none'}"
        ratios = tuple(a / b for a, b in zip(ours, bare, strict=True))
        rows.append(Row(name="load_ext / bare kernel", measure=measure, ours=ours, peer=bare, ratios=ratios, note=note))
    return rows


# -- 2 and 3: our connection against the SDK's session, both held open to servers of the same command


@asynccontextmanager
async def held(*options: str) -> AsyncIterator[tuple[Connection, ClientSession]]:
    """Our connection and the SDK's session, each with a server process of its own."""
    command = (sys.executable, str(HERE / "server.py"), *options)
    connection = Connection(Target(name="bench", command=command))
    await connection.open()
    try:
        parameters = StdioServerParameters(command=command[0], args=list(command[1:]))
        async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
            await session.initialize()
            yield connection, session
    finally:
        await connection.close()


async def timed(act: Callable[[], Awaitable[int]]) -> Sample:
    wall, cpu = time.perf_counter(), time.process_time()
    got = await act()
    return Sample(time.perf_counter() - wall, time.process_time() - cpu, got)


async def interleaved(
    rounds: int, ours: Callable[[], Awaitable[int]], peer: Callable[[], Awaitable[int]]
) -> tuple[list[Sample], list[Sample]]:
    """A B A B ..., after one uncounted turn of each."""
    await ours()
    await peer()
    pairs = [(await timed(ours), await timed(peer)) for _ in range(rounds)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def catalog(rounds: int, resources: int = 1000, page: int = 100) -> list[Row]:
    """Time to the catalog: all pages listed, against `load_mcp_resources`, which reads all that the first page lists."""

    async def run() -> tuple[list[Sample], list[Sample]]:
        async with held("--resources", str(resources), "--page", str(page)) as (connection, session):

            async def ours() -> int:
                return len((await connection.offer()).resources)

            async def peer() -> int:
                return len(await load_mcp_resources(session))

            return await interleaved(rounds, ours, peer)

    ours, peer = asyncio.run(run())
    name = f"catalog, {resources:,} in pages of {page:,}"
    note = f"ours listed {ours[0].got:,} of {resources:,}; load_mcp_resources read {peer[0].got:,}"
    per_ours, per_peer = ([1000 * x.wall / x.got for x in side] for side in (ours, peer))
    return [
        pair(name, "wall s", [x.wall for x in ours], [x.wall for x in peer], note=note),
        pair(name, "wall ms a resource", per_ours, per_peer, aim=50),
        pair(name, "CPU s", [x.cpu for x in ours], [x.cpu for x in peer]),
    ]


def big_read(rounds: int, size: int = 20_000_000) -> list[Row]:
    """One read of `size` bytes of text over stdio, on both held sessions."""

    async def run() -> tuple[list[Sample], list[Sample]]:
        async with held("--size", str(size)) as (connection, session):

            async def ours() -> int:
                return len((await connection.read(BIG)).value.parts[0].data)

            async def peer() -> int:
                (content,) = (await session.read_resource(AnyUrl(BIG))).contents
                return len(getattr(content, "text", ""))

            return await interleaved(rounds, ours, peer)

    ours, peer = asyncio.run(run())
    name, note = f"read of {size / 1e6:g} MB", f"both got all {size:,} bytes"
    if {x.got for x in (*ours, *peer)} != {size}:
        raise RuntimeError(f"a read came back incomplete: {[x.got for x in (*ours, *peer)]} of {size} bytes")
    return [
        pair(name, "CPU s", [x.cpu for x in ours], [x.cpu for x in peer], aim=20, note=note),
        pair(name, "wall s", [x.wall for x in ours], [x.wall for x in peer]),
    ]


# -- 4: a search of the catalog against reading through it


SEARCHED = "invoices of the customer Meyer in the region north"


def entries(number: int) -> Offer:
    """So many resources with descriptions in which the words of `SEARCHED` are rarer or less rare."""
    names, regions = (
        ("Meyer", "Tanaka", "Okafor", "Lind", "Rossi", "Haddad", "Novak"),
        ("north", "south", "east", "west"),
    )
    kinds = ("invoice", "contract", "subscription", "ticket", "delivery note", "reminder")

    def one(at: int) -> Resource:
        kind = kinds[at % 6]
        about = f"{kind} of the customer {names[at % 7]}, region {regions[at % 4]}, number {at}"
        uri = f"crm://{kind.replace(' ', '-')}/{at}"
        return Resource(server="bench", uri=uri, name=f"{kind} {at}", description=about)

    return Offer(resources=tuple(map(one, range(number))))


def searching(rounds: int, number: int = 100_000) -> list[Row]:
    """One query of `find_resources`, its answer as text included, against what one would write: count the query's words in
    every entry's lowercased text, and take the ten that hold the most."""
    offer = entries(number)
    texts = [f"{r.name} {r.uri} {r.description}".lower() for r in offer.resources]
    started = time.perf_counter()
    search.prepare(offer)
    prepared = time.perf_counter() - started

    async def ours() -> int:
        found = search.find(offer, SEARCHED)
        return len(found.text and found.entries)

    async def peer() -> int:
        wanted = SEARCHED.lower().split()
        return len(heapq.nlargest(search.MOST, texts, key=lambda text: sum(word in text for word in wanted)))

    ours_, peer_ = asyncio.run(interleaved(rounds, ours, peer))
    slowest = 1000 * max(x.wall for x in ours_)
    note = (
        f"the slowest of ours took {slowest:.1f} ms (the aim is under 50); the index was made once, in {prepared:.1f} s"
    )
    return [pair(f"search of {number:,}", "wall s", [x.wall for x in ours_], [x.wall for x in peer_], note=note)]


# -- 5 and 6: a replay against one turn at a time, and a turn of it against LangGraph alone

PATTERNS = "dump,truncate,catalog,attach,companion"
SUBJECTS = ("renewal date", "seat count", "billing status", "billing cycle", "account manager", "plan name")
ASKED = (
    "What is the {} of customer {}?", "Customer {1}: tell me the {0}", "Look up the {} for customer {}",
    "Which {} has customer {}?", "The {} of customer {}, please", "I need the {} of customer {}",
    "Do you know the {} of customer {}?", "Customer {1} asks for the {0}", "Please give me the {} of customer {}",
    "Find the {} for customer {}",
)  # fmt: skip


def turns() -> list[Case]:
    """240 questions about the demo server's four customers, each of which needs one record."""
    found = []
    for words in ASKED:
        for subject in SUBJECTS:
            for number in (4471, 4480, 4502, 4519):
                uri = f"crm://customer/{number}/subscription"
                question = words.format(subject, number)
                found.append(Case(id=question, question=question, relevant=(uri,), attach=(uri,)))
    return found


def side_by_side(
    cases: int = 240, alone: int = 4, model: str = "demo?first=0.5&next=0.7", at_once: int = 32
) -> list[Row]:
    """Turns of a replay at 32 at a time, against the same at one at a time (some of them: all would take 20 minutes)."""
    with Session(model) as wb:
        wb.connect("demo")

        def seconds(number: int, concurrency: int) -> float:
            began = time.perf_counter()
            done = len(wb.replay(turns()[:number], PATTERNS, concurrency=concurrency, seed=concurrency).rows)
            return (time.perf_counter() - began) / done

        seconds(1, 1)
        ours, peer = seconds(cases, at_once), seconds(alone, 1)
    note = (
        f"ours ran {5 * cases:,} turns with {at_once} at a time, the peer {5 * alone} of them one by one, with {model}"
    )
    return [pair("replay", "wall s a turn", [ours], [peer], aim=15, note=note)]


def own_cost(rounds: int, cases: int = 40) -> list[Row]:
    """CPU of a replayed turn under `catalog`, beside LangGraph's own agent with the same model, prompt and read over the same
    connection: what spans, counting, gate, checks and store add."""
    with Session("demo") as wb:
        wb.connect("demo")
        asked = turns()[:cases]

        async def ours() -> int:
            return len((await asyncio.to_thread(wb.replay, asked, "catalog", concurrency=8)).rows)

        async def peer() -> int:
            return await asyncio.to_thread(lambda: wb.loop.run(_bare(wb, asked)))

        ours_, peer_ = asyncio.run(interleaved(rounds, ours, peer))
    row = pair("turn", "CPU s a turn", [x.cpu / cases for x in ours_], [x.cpu / cases for x in peer_], aim=0.5)
    return [replace(row, note=f"{cases} turns of two provider calls and one read each, 8 at a time")]


async def _bare(wb: Session, asked: Sequence[Case]) -> int:
    brief = await pattern.catalog(wb.offer, wb.servers.read)

    @tool
    async def read_resource(uri: str, server: str = "demo", offset: int = 0) -> str:
        """Read a resource."""
        return str((await wb.connections["demo"].read(uri)).value.parts[0].data)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has moved to another package, which is the same
        graph: Any = create_react_agent(DemoModel(), [read_resource], prompt=f"{brief.system}\n\n{brief.catalog}")
    left, done = iter(asked), list[str]()

    async def work() -> None:
        for case in left:
            done.append((await graph.ainvoke({"messages": [("user", case.question)]}))["messages"][-1].text)

    await asyncio.gather(*(work() for _ in range(8)))
    return sum("customer" in answer for answer in done)


# -- what is shown and kept


def table(rows: Sequence[Row]) -> str:
    """One line a row, and below them what each side got."""
    lines = [("comparison", "measure", "ours", "peer", "ratio", "lowest - highest", "")]
    for row in rows:
        figures = f"{median(row.ours):.4f}", f"{median(row.peer):.4f}", f"{row.ratio:.2f}"
        spread = f"{min(row.ratios):.2f} - {max(row.ratios):.2f}"
        lines.append((row.name, row.measure, *figures, spread, row.verdict))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    notes = [f"{row.name} ({row.measure}): {row.note}" for row in rows if row.note]
    return "\n".join([text[0], "-" * max(map(len, text)), *text[1:], "", *notes])


def save(rows: Sequence[Row], path: Path) -> None:
    """Every sample, in seconds unless `measure` says otherwise, and what it was measured with."""
    packages = ("mcp", "langchain-mcp-adapters", "langgraph", "ipykernel", "pydantic")
    found = {
        "python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}", "cpus": os.cpu_count(),
        "packages": {name: version(name) for name in packages},
        "rows": [{**asdict(row), "ratio": row.ratio, "verdict": row.verdict} for row in rows],
    }  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure against the peers, side by side.")
    parser.add_argument("--rounds", type=int, default=7, help="pairs of each comparison")
    rounds = parser.parse_args().rounds
    # Three times as many of the shortest one, which a noisy neighbour disturbs most.
    rows = [
        *kernel(rounds), *catalog(3 * rounds), *catalog(rounds, page=1000), *big_read(rounds), *searching(rounds),
        *own_cost(rounds), *side_by_side(),
    ]  # fmt: skip
    path = HERE.parent / "build" / "bench.json"
    save(rows, path)
    print(
        table(rows),
        f"\nWritten to {path.relative_to(HERE.parent)}. Ratios count, seconds are this machine's.",
        sep="\n",
    )


if __name__ == "__main__":
    main()
