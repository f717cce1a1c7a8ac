"""Every kind of content by every way in which a server can send it, to a model that takes text only and to one that sees.

One server, one table: what stands in the model's request, whatever way the content took.
"""

from __future__ import annotations

import base64
import io
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import mcp.types as t
import pytest
from mcp.server.lowlevel import Server
from PIL import Image

import workbench.demo
from tests.servers.script import Call, Reply
from tests.servers.scripted import Scripted
from workbench import Session, media

PDF = (Path(workbench.demo.__file__).parent / "documents" / "sum-checklist.pdf").read_bytes()


def _png() -> bytes:
    Image.new("RGB", (60, 40), "teal").save(out := io.BytesIO(), "PNG")
    return out.getvalue()


def _wav() -> bytes:
    with wave.open(out := io.BytesIO(), "wb") as opened:
        opened.setparams((1, 1, 8000, 0, "NONE", ""))
        opened.writeframes(bytes(8000))
    return out.getvalue()


PNG, WAV = _png(), _wav()
SVG = '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><text>drawn words</text></svg>'
TAIL = "x" * 12_000 + " the last words"


class Kind(NamedTuple):
    data: str | bytes
    mime: str | None
    says: str
    """What every model is told."""
    block: str | None = None
    """What a model gets beside the text that takes it."""


KINDS = {
    "text": Kind(TAIL, "text/plain", "the last words"),
    "text without a type": Kind("bare words", None, "bare words"),
    "text as a blob": Kind("grüß gott".encode(), "text/plain", "grüß gott"),
    "text in Latin-1": Kind("grüß gott".encode("latin-1"), "text/plain; charset=latin-1", "grüß gott"),
    "text that is not UTF-8": Kind(b"gr\xfc\xdf", "text/plain", "not valid utf-8: 2 places could not be decoded"),
    "json": Kind('{"seats": 25}', "application/json", '{"seats": 25}'),
    "json by suffix": Kind(b'{"seats": 25}', "application/vnd.acme+json", '{"seats": 25}'),
    "csv": Kind("a,b\n1,2", "text/csv", "a,b\n1,2"),
    "markdown": Kind("# Plan\n\n**bold**", "text/markdown", "# Plan\n\n**bold**"),
    "svg": Kind(SVG.encode(), "image/svg+xml", "drawn words"),
    "pdf": Kind(PDF, "application/pdf", "[Page 1 of 1]"),
    "broken pdf": Kind(PDF[:300], "application/pdf", "could not be read as a PDF"),
    "image": Kind(PNG, "image/png", "60 x 40 pixels", "image"),
    "image that lies": Kind(PNG, "text/plain", "declared as text/plain, found to be image/png", "image"),
    "image without a type": Kind(PNG, None, "no type declared, found to be image/png", "image"),
    "truncated image": Kind(PNG[:60], "image/png", "image/png"),
    "no image at all": Kind(b"nothing", "image/png", "not an image that can be opened"),
    "sound": Kind(WAV, "audio/wav", "audio/wav", "audio"),
    "sound that nobody takes": Kind(b"OggS" + bytes(60), "audio/ogg", "audio/ogg"),
    "binary": Kind(bytes(range(256)), "application/octet-stream", "[Binary: application/octet-stream, 256 B."),
    "binary without a type": Kind(bytes(range(256)), None, "[Binary: application/octet-stream, 256 B."),
    "nothing": Kind("", "text/plain", ""),
}
UNDECODABLE = "its 9 characters are not valid base64"
NAMES = [*KINDS, "undecodable", "no parts"]
MODELS: dict[str, dict[str, Any] | None] = {"text": None, "vision": {"image_inputs": True, "audio_inputs": True}}


def contents(name: str, uri: str) -> list[dict[str, Any]]:
    if name == "no parts":
        return []
    if name == "undecodable":
        return [{"uri": uri, "mimeType": "image/png", "blob": "not!base64"[:9]}]
    kind = KINDS[name]
    body = {"text": kind.data} if isinstance(kind.data, str) else {"blob": base64.b64encode(kind.data).decode()}
    return [{"uri": uri, **({"mimeType": kind.mime} if kind.mime else {}), **body}]


def blocks(name: str) -> list[Any]:
    """As a tool or a prompt sends it by itself: a text, image or audio block; `[]` where there is no such block."""
    if name == "undecodable":
        return [t.ImageContent(type="image", data="not!base64"[:9], mimeType="image/png")]
    kind = KINDS.get(name)
    if kind is None:
        return []
    if isinstance(kind.data, str):
        return [t.TextContent(type="text", text=kind.data)]
    data, top = base64.b64encode(kind.data).decode(), (kind.mime or "").split("/")[0]
    if top == "image" and "svg" not in str(kind.mime):
        return [t.ImageContent(type="image", data=data, mimeType=str(kind.mime))]
    return [t.AudioContent(type="audio", data=data, mimeType=str(kind.mime))] if top == "audio" else []


def embedded(name: str) -> list[Any]:
    return [
        t.EmbeddedResource.model_validate({"type": "resource", "resource": each})
        for each in contents(name, f"e:///{name}")
    ]


def server() -> Server[Any, Any]:
    made: Server[Any, Any] = Server("kinds")

    async def listed(_: Any) -> t.ServerResult:
        entries = [t.Resource(name=name, uri=f"r:///{number}") for number, name in enumerate(NAMES)]  # type: ignore[arg-type]
        return t.ServerResult(t.ListResourcesResult(resources=entries))

    async def templates(_: Any) -> t.ServerResult:
        entry = t.ResourceTemplate(name="kind", uriTemplate="t:///{number}")
        return t.ServerResult(t.ListResourceTemplatesResult(resourceTemplates=[entry]))

    async def read(request: t.ReadResourceRequest) -> t.ServerResult:
        uri = str(request.params.uri)
        return t.ServerResult(t.ReadResourceResult.model_validate({"contents": contents(NAMES[int(uri[5:])], uri)}))

    async def tools(_: Any) -> t.ServerResult:
        made = [t.Tool(name=name, inputSchema={"type": "object"}) for name in ("direct", "embedded")]
        return t.ServerResult(t.ListToolsResult(tools=made))

    async def call(request: t.CallToolRequest) -> t.ServerResult:
        name = NAMES[int((request.params.arguments or {})["number"])]
        found = blocks(name) if request.params.name == "direct" else embedded(name)
        return t.ServerResult(t.CallToolResult(content=found))

    async def prompts(_: Any) -> t.ServerResult:
        made = [t.Prompt(name=name, arguments=[t.PromptArgument(name="number")]) for name in ("direct", "embedded")]
        return t.ServerResult(t.ListPromptsResult(prompts=made))

    async def prompt(request: t.GetPromptRequest) -> t.ServerResult:
        name = NAMES[int((request.params.arguments or {})["number"])]
        found = blocks(name) if request.params.name == "direct" else embedded(name)
        turns = [t.PromptMessage(role="user", content=each) for each in found]
        return t.ServerResult(
            t.GetPromptResult(messages=[*turns, t.PromptMessage(role="assistant", content=_said("I see."))])
        )

    made.request_handlers |= {
        t.ListResourcesRequest: listed, t.ListResourceTemplatesRequest: templates, t.ReadResourceRequest: read,
        t.ListToolsRequest: tools, t.CallToolRequest: call, t.ListPromptsRequest: prompts, t.GetPromptRequest: prompt,
    }  # fmt: skip
    return made


def _said(text: str) -> t.TextContent:
    return t.TextContent(type="text", text=text)


WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "resource": ("read_resource", {"uri": "r:///{}"}),
    "template": ("read_resource", {"uri": "t:///{}"}),
    "prompt": ("invoke_prompt", {"name": "direct", "arguments": {"number": "{}"}}),
    "embedded in a prompt": ("invoke_prompt", {"name": "embedded", "arguments": {"number": "{}"}}),
    "tool": ("k__direct", {"number": "{}"}),
    "embedded in a tool result": ("k__embedded", {"number": "{}"}),
    "attachment": ("", {}),
}


@pytest.fixture(scope="module")
def wb() -> Iterator[Session]:
    with Session() as session:
        session.connect("k", server=server())
        yield session


def filled(value: Any, number: int) -> Any:
    return {k: filled(v, number) for k, v in value.items()} if isinstance(value, dict) else value.format(number)


def request(wb: Session, way: str, name: str, profile: dict[str, Any] | None) -> tuple[str, list[dict[str, Any]]]:
    """What the model's last request holds beyond system and question: all text, and the blocks that are no text."""
    number, (tool, args) = NAMES.index(name), WAYS[way]
    calls = (Call(id="c", name=tool, args=filled(args, number)),)
    if way == "attachment":
        wb.attach(f"r:///{number}")
    model = Scripted(replies=[*([Reply(calls=calls)] if tool else []), Reply(text="done")], profile=profile)
    try:
        turn = wb.ask("go", model=model, new=True, approve="all")
    finally:
        wb.attachments.clear()
    assert [span.status for span in turn.spans] == ["ok"] * len(turn.spans)
    assert model.seen[-1][-1].type in ("tool", "human", "ai"), "and a prompt may end with the assistant's turn"
    texts, others = [], []
    for message in model.seen[-1][1:]:
        for block in message.content if isinstance(message.content, list) else [message.content]:
            if isinstance(block, str):
                texts.append(block)
            elif block["type"] == "text":
                texts.append(block["text"])
            else:
                others.append(block)
    return "\n".join(texts), others


@pytest.mark.parametrize("sees", MODELS)
@pytest.mark.parametrize("way", WAYS)
def test_every_kind_arrives_whole_or_as_an_honest_note(wb: Session, way: str, sees: str) -> None:
    direct = way in ("prompt", "tool")
    for name, kind in KINDS.items():
        if direct and not blocks(name):
            continue
        text, others = request(wb, way, name, MODELS[sees])
        lied = direct and isinstance(kind.data, bytes) and name == "image that lies"
        assert kind.says in text or lied, (way, name)
        wanted = kind.block if sees == "vision" else None
        assert [block["type"] for block in others] == ([wanted] if wanted else []), (way, name)
        if wanted:
            assert base64.b64decode(others[0]["base64"]) == kind.data
            assert f"[{wanted} of {media.found_type(_part(kind)) or kind.mime}" in text, (way, name)
        elif kind.block:
            assert f"[Binary: {kind.block}/" in text and "not known to take any" in text, (way, name)
        assert not any(len(word) > 400 and word.isalnum() for word in text.split() if set(word) != {"x"}), "no base64"


def _part(kind: Kind) -> Any:
    from workbench.content import Part

    return Part(uri="a:1", mime=kind.mime, data=kind.data)


@pytest.mark.parametrize("sees", MODELS)
@pytest.mark.parametrize("way", WAYS)
def test_what_cannot_be_decoded_or_is_not_there_is_said(wb: Session, way: str, sees: str) -> None:
    text, others = request(wb, way, "undecodable", MODELS[sees])
    assert UNDECODABLE in text and not others
    if way in ("resource", "template", "attachment"):
        assert "[The server answered with no content.]" in request(wb, way, "no parts", MODELS[sees])[0]
    elif "tool" in way:
        assert "[The tool answered with no content.]" in request(wb, way, "no parts", MODELS[sees])[0]
