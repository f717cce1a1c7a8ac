"""The server that both sides of a benchmark talk to: many small paged resources and one large one, over stdio.

On the SDK's own low-level server, so that neither side meets a server made for it. `--delay` is what a read waits before
it answers, in seconds; the benchmarks leave it at 0, which favours whoever reads most.
"""

from __future__ import annotations

import argparse
import asyncio

import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.stdio import stdio_server
from pydantic import AnyUrl

BIG = "bench://big"
_LINE = 'The system decides what a model may read; a quoted "word" and a line\'s end are escaped on the way.\n'


def entry(number: int) -> types.Resource:
    """One entry of the list: what a well-described resource has, about 250 bytes on the wire."""
    return types.Resource(
        uri=AnyUrl(f"bench://item/{number}"), name=f"item-{number}", title=f"Item {number}", mimeType="text/plain",
        description=f"Number {number} of many: what stands in it, whom it concerns and when it was last changed.",
    )  # fmt: skip


def build(*, resources: int, page: int, size: int, delay: float) -> Server[object, object]:
    """A server with `resources` entries in pages of `page`, and `bench://big` (not listed) of `size` bytes of ASCII text."""
    server: Server[object, object] = Server("bench")
    entries = [entry(number) for number in range(resources)]
    big = (_LINE * (size // len(_LINE) + 1))[:size]

    @server.list_resources()
    async def listing(request: types.ListResourcesRequest) -> types.ListResourcesResult:
        start = int(request.params.cursor) if request.params and request.params.cursor else 0
        end = start + page
        return types.ListResourcesResult(resources=entries[start:end], nextCursor=str(end) if end < resources else None)

    @server.read_resource()
    async def read(uri: AnyUrl) -> list[ReadResourceContents]:
        if delay:
            await asyncio.sleep(delay)
        text = big if str(uri) == BIG else f"{uri} " + 4 * _LINE
        return [ReadResourceContents(content=text, mime_type="text/plain")]

    return server


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--resources", type=int, default=1000, help="entries in all")
    parser.add_argument("--page", type=int, default=100, help="entries a page")
    parser.add_argument("--size", type=int, default=20_000_000, help="bytes of bench://big")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds a read waits")
    server = build(**vars(parser.parse_args()))

    async def serve() -> None:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(serve)


if __name__ == "__main__":
    main()
