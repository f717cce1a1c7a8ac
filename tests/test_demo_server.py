"""The bundled server, over the wires it is used on: stdio, streamable HTTP and legacy SSE."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zlib
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl

COMMAND = [sys.executable, "-m", "workbench.demo"]


def over_stdio(act: Callable[[ClientSession], Awaitable[None]], *options: str) -> None:
    async def run() -> None:
        parameters = StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:], *options])
        async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
            await session.initialize()
            await act(session)

    anyio.run(run)


async def text(session: ClientSession, uri: str) -> str:
    (content,) = (await session.read_resource(AnyUrl(uri))).contents
    assert isinstance(content, types.TextResourceContents)
    return content.text


async def blob(session: ClientSession, uri: str) -> tuple[str | None, bytes]:
    (content,) = (await session.read_resource(AnyUrl(uri))).contents
    assert isinstance(content, types.BlobResourceContents)
    return content.mimeType, b64decode(content.blob)


def test_every_entry_is_described_and_every_stated_size_is_the_size_read() -> None:
    """The catalog is all that a model sees before it decides, so it must say enough and be true."""

    async def act(session: ClientSession) -> None:
        resources = (await session.list_resources()).resources
        for entry in resources:
            assert entry.name and entry.title and entry.mimeType and len(entry.description or "") > 30
            (content,) = (await session.read_resource(entry.uri)).contents
            assert content.mimeType == entry.mimeType
            data = content.text.encode() if isinstance(content, types.TextResourceContents) else b64decode(content.blob)
            assert entry.size in (len(data), None)
        assert [str(entry.uri) for entry in resources if entry.size is None] == ["board://sprint/current"]
        assert not [entry for entry in resources if str(entry.uri).startswith("crm://")]
        (template,) = (await session.list_resource_templates()).resourceTemplates
        assert template.uriTemplate == "crm://customer/{id}/subscription"

    over_stdio(act)


def test_the_matrix_is_long_and_its_product_list_and_output_format_come_last() -> None:
    """The seed's case: a cut at 2,000 characters lost both."""

    async def act(session: ClientSession) -> None:
        matrix = await text(session, "sap-btp://sum-abap-v1")
        lines = [line for line in matrix.splitlines() if len(line) > 40]
        assert len(matrix) > 11_000
        assert len(set(lines)) == len(lines)  # a document, not filler
        headings = re.findall(r"^## (.*)$", matrix, re.MULTILINE)
        assert headings[-2:] == ["Products covered", "Output format"]
        assert matrix.index("S/4HANA 2023") > matrix.index("## Products covered") > 2000

    over_stdio(act)


def test_binary_resources_are_valid_files_and_latin1_comes_as_bytes() -> None:
    async def act(session: ClientSession) -> None:
        _, png = await blob(session, "file:///repo/architecture.png")
        start = png.index(b"IDAT")
        length = int.from_bytes(png[start - 4 : start])
        assert png.startswith(b"\x89PNG\r\n\x1a\n")
        assert zlib.crc32(png[start : start + 4 + length]) == int.from_bytes(
            png[start + 4 + length : start + 8 + length]
        )
        _, pdf = await blob(session, "file:///repo/sum-checklist.pdf")
        table = int(pdf.split(b"startxref\n")[1].split()[0])
        assert pdf.startswith(b"%PDF-") and pdf[table:].startswith(b"xref")
        mime, notes = await blob(session, "file:///repo/site-notes.txt")
        assert mime == "text/plain; charset=iso-8859-1" and "Köln" in notes.decode("latin-1")
        with pytest.raises(UnicodeDecodeError):
            notes.decode()

    over_stdio(act)


def test_a_customer_record_is_some_700_bytes_and_an_unknown_one_is_an_error() -> None:
    async def act(session: ClientSession) -> None:
        record = await text(session, "crm://customer/4471/subscription")
        assert 600 < len(record.encode()) < 900
        assert json.loads(record)["customer"]["name"] == "ACME"
        for unknown in ("crm://customer/1/subscription", "crm://customer/4471", "sap-btp://nothing"):
            with pytest.raises(McpError, match=f"Resource not found: {unknown}") as caught:
                await session.read_resource(AnyUrl(unknown))
            assert caught.value.error.code == -32002

    over_stdio(act)


def test_the_board_changes_with_every_read() -> None:
    async def act(session: ClientSession) -> None:
        boards = [json.loads(await text(session, "board://sprint/current")) for _ in range(3)]
        assert [board["revision"] for board in boards] == [1, 2, 3]
        assert boards[0]["cards"] != boards[1]["cards"] != boards[2]["cards"]

    over_stdio(act)


def test_tools_search_tickets_and_link_to_the_style_guide() -> None:
    async def act(session: ClientSession) -> None:
        async def search(**arguments: str) -> list[str]:
            result = await session.call_tool("search_tickets", arguments)
            assert not result.isError and result.structuredContent
            return [ticket["id"] for ticket in result.structuredContent["tickets"]]

        assert await search(query="invoice OR billing", since="2024-11-01") == ["T-1115", "T-1067", "T-1058"]
        assert await search(query="acme invoice", status="open") == ["T-1058"]
        assert await search(query="zeppelin") == []
        wrong: list[dict[str, Any]] = [{}, {"query": "a", "status": "lost"}, {"query": "a", "since": "yesterday"}]
        for arguments in wrong:
            assert (await session.call_tool("search_tickets", arguments)).isError
        (link,) = (await session.call_tool("style_guide_tool", {})).content
        assert isinstance(link, types.ResourceLink) and str(link.uri) == "docs://style-guide"

    over_stdio(act)


def test_prompts_use_their_arguments_and_refuse_what_is_missing_or_unknown() -> None:
    async def act(session: ClientSession) -> None:
        async def prompt(name: str, **arguments: str) -> str:
            (message,) = (await session.get_prompt(name, arguments)).messages
            assert isinstance(message.content, types.TextContent)
            return message.content.text

        assert "lines 3-7 only" in await prompt("review", code="x = 1", lines="3-7")
        assert "x = 1" in await prompt("review", code="x = 1")
        assert "legal entities" in await prompt("summarize_ticket", ticket_id="T-1058")
        for name, arguments, said in [
            ("review", {}, "Missing required argument: code"),
            ("summarize_ticket", {"ticket_id": "T-1"}, "Unknown ticket: T-1"),
            ("nothing", {}, "Unknown prompt: nothing"),
        ]:
            with pytest.raises(McpError, match=said):
                await session.get_prompt(name, arguments)

    over_stdio(act)


def test_template_fields_and_prompt_arguments_are_completed() -> None:
    async def act(session: ClientSession) -> None:
        subscription = types.ResourceTemplateReference(type="ref/resource", uri="crm://customer/{id}/subscription")
        answer = await session.complete(subscription, {"name": "id", "value": "44"})
        assert answer.completion.values == ["4471", "4480"]

    over_stdio(act)


def test_the_server_does_not_pay_for_the_grammar_of_iris() -> None:
    """It would be two thirds of the time to start; where it is installed it must stay out."""
    program = "import runpy, sys; runpy.run_module('workbench.demo'); print('lark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@asynccontextmanager
async def listening(option: str) -> AsyncIterator[str]:
    async with await anyio.open_process([*COMMAND, option, "0", "--delay", "0.001"], stdout=None) as process:
        try:
            assert process.stderr is not None
            said = ""
            async for chunk in process.stderr:
                said += chunk.decode()
                if address := re.search(r"http://127\.0\.0\.1:\d+", said):
                    yield address[0]
                    break
        finally:
            process.terminate()


def test_the_same_server_answers_over_http_and_sse() -> None:
    async def ask(session: ClientSession) -> None:
        await session.initialize()
        assert len(await text(session, "docs://style-guide")) > 3_000

    async def run() -> None:
        async with (
            listening("--http") as base,
            streamable_http_client(f"{base}/mcp") as (reader, writer, _),
            ClientSession(reader, writer) as session,
        ):
            await ask(session)
        async with listening("--sse") as base, sse_client(f"{base}/sse") as streams, ClientSession(*streams) as session:
            await ask(session)

    anyio.run(run)
