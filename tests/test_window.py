"""What a model takes beside text, and what fits into its window: sent whole, or with words about what is missing."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.server.fastmcp import FastMCP, Image
from mcp.server.fastmcp.prompts.base import UserMessage
from mcp.types import Annotations, EmbeddedResource, ImageContent, ResourceLink, TextContent, TextResourceContents
from PIL import Image as Pillow
from pydantic import AnyUrl

from tests.servers.script import Call, Reply
from tests.servers.scripted import Scripted
from workbench import Session, Turn, catalog, media, pictures, portion, tokens
from workbench.content import Part

TEXT = "\n".join(f"line {number:05d}: nothing of note" for number in range(4_000)) + "\nTHE LAST LINE"
HEADED = "\n\n".join(f"## Chapter {number}\n" + "words and words " * 200 for number in range(20))
PEOPLE = Annotations(audience=["user"])


def picture(width: int = 800, height: int = 600, form: str = "PNG", **options: Any) -> bytes:
    Pillow.new("RGB", (width, height), "teal").save(out := io.BytesIO(), form, **options)
    return out.getvalue()


def server() -> FastMCP:
    made = FastMCP("s")
    made.resource("text:///long", name="text:///long", mime_type="text/plain")(lambda: TEXT)
    made.resource("text:///headed", name="text:///headed", mime_type="text/markdown")(lambda: HEADED)
    made.resource("img:///small", name="img:///small", mime_type="image/png")(lambda: picture())
    made.resource("img:///large", name="img:///large", mime_type="image/png")(lambda: picture(4000, 1000))
    made.resource("img:///cut", name="img:///cut", mime_type="image/png")(lambda: picture(640, 480)[:200])
    made.resource("people:///only", name="people:///only", mime_type="text/plain", annotations=PEOPLE)(
        lambda: "for people"
    )

    @made.tool()
    def snap() -> Image:
        return Image(data=picture(100, 100), format="png")

    @made.tool()
    def flood() -> str:
        return TEXT

    @made.tool()
    def both() -> list[Any]:
        return [
            TextContent(type="text", text="for the model"),
            TextContent(type="text", text="<b>for people</b>", annotations=PEOPLE),
            EmbeddedResource(
                type="resource", annotations=PEOPLE, resource=TextResourceContents(uri="x:///y", text="also for people")
            ),
        ]

    @made.prompt()
    def look() -> list[Any]:
        data = base64.b64encode(picture(100, 100)).decode()
        return [{"role": "user", "content": ImageContent(type="image", data=data, mimeType="image/png")}]

    @made.prompt()
    def lengthy() -> list[Any]:
        link = ResourceLink(type="resource_link", name="l", uri=AnyUrl("link:///first"))
        last = ResourceLink(type="resource_link", name="l", uri=AnyUrl("link:///last"))
        return [UserMessage(TEXT), UserMessage(link), UserMessage("short"), UserMessage(TEXT), UserMessage(last)]

    return made


@pytest.fixture(scope="module")
def wb() -> Iterator[Session]:
    with Session() as session:
        session.connect("s", server=server())
        yield session


def ask(wb: Session, *calls: tuple[str, dict[str, Any]], **profile: Any) -> tuple[Turn, Scripted]:
    """A turn of a model with this profile that makes the calls one after the other, and then answers."""
    replies = [Reply(calls=(Call(id=f"c{n}", name=name, args=args),)) for n, (name, args) in enumerate(calls)]
    model = Scripted(replies=[*replies, Reply(text="done")], profile=profile or None)
    return wb.ask("go", model=model, new=True, approve="all"), model


def read(uri: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "read_resource", {"uri": uri, **more}


# -- size


def test_what_fits_is_sent_whole_and_where_no_window_is_known_everything_fits(wb: Session) -> None:
    for profile in ({}, {"max_input_tokens": 1_000_000}):
        _, model = ask(wb, read("text:///long"), **profile)
        assert "THE LAST LINE" in str(model.seen[-1][-1].content)
        assert "Characters" not in str(model.seen[-1][-1].content)


def test_what_does_not_fit_comes_with_what_is_missing_and_how_to_go_on(wb: Session) -> None:
    """P21: never cut silently."""
    turn, model = ask(wb, read("text:///long"), max_input_tokens=20_000)
    said = str(model.seen[-1][-1].content)
    assert "line 00000" in said and "THE LAST LINE" not in said
    found = re.search(r"\[Characters 0 to ([\d,]+) of ([\d,]+)\.\n([\d,]+) tokens that follow are not here", said)
    assert found
    end, whole, missing = (int(number.replace(",", "")) for number in found.groups())
    assert whole == len(TEXT)
    assert missing == tokens.count(TEXT) - tokens.count(TEXT[:end])
    assert f'Go on with read_resource(uri="text:///long", server="s", offset={end}).' in said
    row = turn.reads().iloc[0]
    assert row.tokens == tokens.count(said), "the row tells what was sent"
    assert row.bytes == len(TEXT), "and what was read"
    assert f"{missing:,} tokens did not fit" in repr(turn)
    assert turn.composition.input_tokens.max() < 20_000


def test_what_is_missing_of_two_messages_of_a_prompt_adds_up(wb: Session) -> None:
    turn, model = ask(wb, ("invoke_prompt", {"name": "lengthy"}), max_input_tokens=20_000)
    span = next(span for span in turn.spans if span.kind == "prompt")
    sent = "\n".join(str(message.content) for message in model.seen[-1])
    missing = [int(number.replace(",", "")) for number in re.findall(r"([\d,]+) tokens that follow are not here", sent)]
    assert len(missing) == 2 and span.detail["missing_tokens"] == sum(missing) > max(missing)
    ends = [int(number.replace(",", "")) for number in re.findall(r"Characters 0 to ([\d,]+) of", sent)]
    assert (span.detail["start"], span.detail["end"], span.detail["whole"]) == (0, sum(ends), 2 * len(TEXT))
    assert span.detail["links"] == ["link:///first", "link:///last"]


def test_much_for_a_model_whose_window_nobody_knows_is_noted(wb: Session) -> None:
    wb.attach("text:///long", server="s")
    try:
        noted, _ = ask(wb, read("text:///long"), ("s__flood", {}))
        dumped = wb.ask("go", model=Scripted(replies=[Reply(text="done")]), new=True, pattern="dump")
        known, _ = ask(wb, read("text:///long"), max_input_tokens=1_000_000)
    finally:
        wb.detach("text:///long")
    large = [span for turn in (noted, dumped) for span in turn.spans if (span.detail.get("tokens") or 0) > 20_000]
    large = [span for span in large if (span.kind, span.actor) != ("read", "host")]  # which an attachment follows
    assert [span.kind for span in large] == ["attach", "read", "tool", "attach"]
    for span in large:
        said = f"{span.detail['tokens']:,} tokens were sent, and how many this model takes is not known: nothing could check"
        assert str(span.detail["note"]).count(said) == 1
    small = [*known.spans, *(span for span in dumped.spans if span not in large)]
    assert "nothing could check" not in str(small)


def test_reading_on_brings_every_character_once(wb: Session) -> None:
    asked, got = 0, ""
    for _ in range(40):
        _, model = ask(wb, read("text:///long", offset=asked), max_input_tokens=12_000)
        said = str(model.seen[-1][-1].content)
        got += said.split(">\n", 1)[1].rsplit("\n</resource", 1)[0] if "<resource" in said else ""
        if not (more := re.search(r"offset=(\d+)\)", said)):
            break
        asked = int(more[1])
    assert got == TEXT


def test_two_reads_of_one_step_share_the_room(wb: Session) -> None:
    replies = [Reply(calls=(Call(id="a", name="read_resource", args={"uri": "text:///long"}),) * 1 + (
        Call(id="b", name="read_resource", args={"uri": "text:///headed"}),)), Reply(text="done")]  # fmt: skip
    model = Scripted(replies=list(replies), profile={"max_input_tokens": 50_000})
    turn = wb.ask("go", model=model, new=True)
    assert turn.composition.estimated.max() <= 50_000


def test_an_outline_comes_with_the_first_portion_only(wb: Session) -> None:
    _, model = ask(wb, read("text:///headed"), max_input_tokens=6_000)
    said = str(model.seen[-1][-1].content)
    at = HEADED.index("## Chapter 19")
    assert f"- ## Chapter 19 (offset {at})" in said
    _, model = ask(wb, read("text:///headed", offset=at), max_input_tokens=60_000)
    assert HEADED[at:] in str(model.seen[-1][-1].content)
    assert "Outline" not in str(model.seen[-1][-1].content)


def test_an_attachment_that_does_not_fit_is_no_exception(wb: Session) -> None:
    wb.attach("text:///long")
    try:
        turn, model = ask(wb, max_input_tokens=20_000)
        assert "tokens that follow are not here" in str(model.seen[0][-1].content)
        assert 0 < turn.composition.attachments[0] < 20_000
    finally:
        wb.detach("text:///long")


def test_a_tools_answer_that_does_not_fit_says_that_it_cannot_be_read_on(wb: Session) -> None:
    turn, model = ask(wb, ("s__flood", {}), max_input_tokens=20_000)
    said = str(model.seen[-1][-1].content)
    assert "tokens that follow are not here" in said and "Ask for less of it." in said and "offset=" not in said
    assert turn.composition.input_tokens.max() < 20_000


@pytest.mark.parametrize("offset", [-1, "x", 1.5, True, [], "9" * 30])
def test_an_offset_that_is_none_is_refused_in_words(wb: Session, offset: Any) -> None:
    turn, model = ask(wb, read("text:///long", offset=offset))
    assert "offset must be a whole number from 0 on" in str(model.seen[-1][-1].content)
    assert [s.status for s in turn.spans if s.kind == "read"] == ["refused"]


def test_an_offset_behind_the_end_says_how_long_the_text_is(wb: Session) -> None:
    _, model = ask(wb, read("text:///long", offset="999999999"))
    assert f"the text has {len(TEXT):,} characters" in str(model.seen[-1][-1].content)


def test_content_that_changed_between_two_portions_is_told() -> None:
    versions = iter(["a " * 9_000, "b " * 9_000])
    made = FastMCP("s")
    made.resource("text:///it", name="text:///it")(lambda: next(versions))
    with Session() as wb:
        wb.connect("s", server=made)
        _, model = ask(wb, read("text:///it"), read("text:///it", offset=100), max_input_tokens=9_000)
    assert "The content has changed since" in str(model.seen[-1][-1].content)


@settings(deadline=None)  # the first count loads the vocabulary
@given(st.text(max_size=300), st.integers(0, 400), st.none() | st.integers(-5, 60))
def test_a_portion_is_a_stretch_of_the_text_within_the_room(text: str, offset: int, room: int | None) -> None:
    found = portion.cut(text, room, offset)
    assert found.text == text[offset : found.end]
    assert found.tokens == tokens.count(found.text)
    assert room is None or found.tokens <= max(0, room)
    assert (found.missing == 0) or room is not None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (json.dumps({"a": [1, 2], "b c": {"d": "}"}}, indent=1), ["a (offset 3)", "b c (offset 24)"]),
        (json.dumps([1, 2, 3]), ["a JSON array of 3 items"]),
        ("[Page 1 of 2]\none\n\n[Page 2 of 2]\ntwo", ["[Page 1 of 2] (offset 0)", "[Page 2 of 2] (offset 19)"]),
        ("a,b\n" + "1,2\n" * 50, ["a table of 51 lines with the columns a, b"]),
        ("just words", []),
        ('{"broken": ', []),
        ("[" * 100_000, []),
        ('a,"b\n' + "x" * 200_000, []),
    ],
)
def test_an_outline(text: str, says: list[str]) -> None:
    assert portion.outline(text) == says


def test_a_long_outline_is_thinned_and_says_so() -> None:
    entries = portion.outline("\n".join(f"# {number}" for number in range(1000)))
    assert entries[0] == "every 17th of 1,000 entries:" and len(entries) <= 61


# -- images


def images(message: Any) -> list[dict[str, Any]]:
    return (
        [b for b in message.content if isinstance(b, dict) and b["type"] == "image"]
        if isinstance(message.content, list)
        else []
    )


def test_an_image_reaches_a_model_that_takes_it_after_the_results_and_is_counted_by_a_named_rule(wb: Session) -> None:
    turn, model = ask(wb, read("img:///small"), image_inputs=True)
    result, after = model.seen[-1][-2:]
    assert "[image of image/png, 800 x 600 pixels: it follows below, as it is.]" in str(result.content)
    assert after.type == "human"
    assert base64.b64decode(images(after)[0]["base64"]) == picture()
    row = turn.reads().iloc[0]
    assert row.tokens == tokens.count(str(result.content)) + 800 * 600 // 750
    assert "pixels / 750" in row.counter
    last = turn.composition.iloc[-1]
    assert last.reads >= 640 and "pixels / 750" in last.counter


def test_an_image_for_a_model_that_is_not_known_to_take_any_is_a_descriptor(wb: Session) -> None:
    turn, model = ask(wb, read("img:///small"))
    said = str(model.seen[-1][-1].content)
    assert "[Binary: image/png, 800 x 600 pixels" in said
    assert "not sent as image: this model is not known to take any" in said
    assert not any(images(message) for message in model.seen[-1])
    assert turn.reads().iloc[0].tokens == tokens.count(said)


def test_a_large_image_is_scaled_by_the_stated_rule(wb: Session) -> None:
    turn, model = ask(wb, read("img:///large"), image_inputs=True)
    sent = base64.b64decode(images(model.seen[-1][-1])[0]["base64"])
    assert pictures.pixels(sent) == (1568, 392)
    assert "an image of 4000 x 1000 pixels, sent as image/png of 1568 x 392 pixels" in repr(turn)


def test_a_truncated_image_is_a_descriptor_that_says_why(wb: Session) -> None:
    """A provider would refuse the whole request."""
    _, model = ask(wb, read("img:///cut"), image_inputs=True)
    assert "not sent as image: cannot be decoded" in str(model.seen[-1][-1].content)


def test_images_of_tools_prompts_and_attachments_go_the_same_way(wb: Session) -> None:
    """P25."""
    for call in (("s__snap", {}), ("invoke_prompt", {"name": "look"})):
        _, model = ask(wb, call, image_inputs=True)
        assert images(model.seen[-1][-1]), call
        _, model = ask(wb, call)
        assert "[Binary: image/png, 100 x 100 pixels" in str(model.seen[-1][-1].content), call
    wb.attach("img:///small")
    try:
        turn, model = ask(wb, image_inputs=True)
        assert images(model.seen[0][-1]) and turn.composition.attachments[0] >= 640
    finally:
        wb.detach("img:///small")


def test_a_later_model_that_takes_no_images_gets_words_in_their_place(wb: Session) -> None:
    ask(wb, read("img:///small"), image_inputs=True)
    model = Scripted(replies=[Reply(text="done")])
    wb.ask("and now?", model=model)
    assert not any(images(message) for message in model.seen[0])
    assert "[image, not sent: this model is not known to take any]" in str(model.seen[0])


@pytest.mark.parametrize(
    ("provider", "model", "size", "tokens"),
    [
        ("openai", "gpt-4o", (1024, 1024), 85 + 170 * 4),  # the example of OpenAI's own page
        ("openai", "gpt-4o", (2048, 4096), 85 + 170 * 6),  # and its second one
        ("openai", "gpt-4o-mini", (512, 512), 2833 + 5667),
        ("anthropic", "claude-sonnet-4-5", (1092, 1092), 1590),
        ("elsewhere", "x", (750, 1), 1),
    ],
)
def test_an_image_costs_what_its_provider_publishes(
    provider: str, model: str, size: tuple[int, int], tokens: int
) -> None:
    """P40."""
    assert pictures.cost(pictures.Size("image", *size), pictures.rule(provider, model)) == tokens


def test_a_photo_too_large_as_png_is_sent_as_jpeg_upright_and_an_odd_format_as_png() -> None:
    noise = Pillow.effect_noise((1568, 1568), 90).convert("RGB")
    noise.save(out := io.BytesIO(), "BMP")
    assert pictures.image(out.getvalue()).mime == "image/jpeg"
    assert pictures.image(picture(form="BMP")).mime == "image/png"
    exif = Pillow.Exif()
    exif[0x0112] = 6  # turned by a quarter
    turned = pictures.image(picture(2000, 100, "JPEG", exif=exif))
    assert turned.size[1:3] == (78, 1568)


def test_a_sound_goes_to_a_model_that_takes_it_and_costs_what_is_known() -> None:
    import wave

    out = io.BytesIO()
    with wave.open(out, "wb") as opened:
        opened.setnchannels(1), opened.setsampwidth(1), opened.setframerate(8000), opened.writeframes(bytes(16_000))
    part = Part(uri="a:1", mime="audio/wav", data=out.getvalue())
    made = media.for_model([part], "s", frozenset({"audio"}))
    assert made.blocks[0].size == pictures.Size("audio", seconds=2.0)
    assert pictures.cost(made.blocks[0].size, pictures.rule("openai", "gpt-4o-audio-preview")) == 20
    assert pictures.cost(made.blocks[0].size, pictures.rule("anthropic", "x")) is None
    assert "models take WAV and MP3 only" in media.for_model(
        [Part(uri="a:1", mime="audio/ogg", data=b"OggS")], "s", frozenset({"audio"})
    ).text  # fmt: skip


def test_a_sound_that_nobody_can_count_leaves_the_estimate_unknown_and_not_smaller() -> None:
    made = FastMCP("s")
    made.resource("snd:///x", name="snd:///x", mime_type="audio/mpeg")(lambda: b"ID3\x04" + bytes(400))
    with Session() as wb:
        wb.connect("s", server=made)
        turn, _ = ask(wb, read("snd:///x"), audio_inputs=True)
    assert turn.composition.estimated.isna().tolist() == [False, True]
    assert "– tokens estimated" in repr(turn)
    assert turn._repr_mimebundle_()["text/html"]


# -- for people only


def test_what_is_for_people_only_is_never_sent_to_a_model(wb: Session) -> None:
    turn, model = ask(wb, read("people:///only"))
    assert "is for people only" in str(model.seen[-1][-1].content)
    assert [s.status for s in turn.spans if s.kind == "read"] == ["refused"]
    assert wb.read("people:///only").parts[0].data == "for people"
    with pytest.raises(Exception, match="is for people only"):
        wb.attach("people:///only")
    assert not wb.attachments


def test_a_tools_items_for_people_go_to_people(wb: Session) -> None:
    turn, model = ask(wb, ("s__both", {}))
    said = str(model.seen[-1][-1].content)
    assert "for the model" in said and "for people</b>" not in said and "also for people" not in said
    assert "[Not shown to you: 2 of 3 items, which are for people only.]" in said
    assert [item.data for _, _, item in turn.for_people if isinstance(item, Part)] == [
        "<b>for people</b>",
        "also for people",
    ]
    bundle = turn._repr_mimebundle_()
    assert "For you, from tool both of s" in bundle["text/html"] and "&lt;b&gt;for people" in bundle["text/html"]
    assert "<b>for people</b>" in bundle["text/plain"]


def test_priority_orders_the_catalog_and_what_is_for_people_is_not_in_the_models() -> None:
    made = FastMCP("s")
    for name, notes in {
        "low": Annotations(priority=0.1, lastModified="2026-01-12T15:00:58Z"),
        "plain": None,
        "high": Annotations(priority=1.0),
        "people": Annotations(priority=1.0, audience=["user"]),
    }.items():
        made.resource(f"x:///{name}", name=name, annotations=notes)(lambda: "")
    with Session() as wb:
        wb.connect("s", server=made)
        _, model = ask(wb)
        rows = list(catalog.rows(wb.offer, [], [], ["resource"]).values())
    system = str(model.seen[0][0].content)
    assert re.findall(r"URI: x:///(\w+)", system) == ["high", "plain", "low"]
    assert "Last modified: 2026-01-12T15:00:58Z" in system
    assert [row.label for row in rows] == ["high", "people", "plain", "low"]


def test_what_a_server_says_of_an_entry_is_in_its_row_and_only_a_safe_icon(wb: Session) -> None:
    from workbench.content import Offer, Resource

    png = "data:image/png;base64,iVBORw0KGgo="
    odd = [
        "https://evil/i.png",
        "data:image/svg+xml;base64,PHN2Zz4=",
        'data:image/png;base64,AA" onerror="x',
        png + "A" * 30_000,
    ]
    entry = Resource(
        server="s", uri="x:1", name="x", audience=("user",), priority=0.9, modified="2026-01-12", icons=(*odd, png)
    )
    (row,) = catalog.rows(Offer(resources=(entry,)), [], [], ["resource"]).values()
    assert row.icon == png
    assert row.facts == "modified 2026-01-12 · priority 0.9 · icon, not fetched: https://evil/i.png · for people only"
