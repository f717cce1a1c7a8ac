"""Kinds of content: what the model gets of each, by its declared type, by its bytes, and when it is broken."""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path

import pytest

import workbench.demo
from tests.servers import awkward
from workbench import Session, media
from workbench.content import Content, Part

DOCUMENTS = Path(workbench.demo.__file__).parent / "documents"
PDF = (DOCUMENTS / "sum-checklist.pdf").read_bytes()
PNG = (DOCUMENTS / "architecture.png").read_bytes()


def part(data: str | bytes, mime: str | None = None) -> Part:
    return Part(uri="a:1", mime=mime, data=data)


def encrypted(password: str) -> bytes:
    from pypdf import PdfWriter

    writer = PdfWriter(clone_from=io.BytesIO(PDF))
    writer.encrypt(password, algorithm="RC4-128")
    writer.write(out := io.BytesIO())
    return out.getvalue()


def test_a_pdf_arrives_as_the_text_of_its_pages() -> None:
    text, note = media.shown(part(PDF, "application/pdf"))[:2]
    assert text.startswith("[Page 1 of 1]\n")
    assert len(text) > 100
    assert note and "text of a PDF" in note
    assert media.is_text_part(part(PDF, "application/pdf"))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (encrypted("secret"), "encrypted"),
        (PDF[: len(PDF) // 3], "could not be read as a PDF"),
        (b"%PDF-1.7\n" + bytes(range(256)) * 4, "could not be read as a PDF"),
        (b"", "could not be read as a PDF"),
    ],
    ids=["encrypted", "truncated", "garbage", "empty"],
)
def test_a_pdf_that_cannot_be_read_is_a_descriptor_that_says_why(data: bytes, says: str) -> None:
    text = media.shown(part(data, "application/pdf")).text
    assert text.startswith("[Binary: application/pdf, ")
    assert says in text


def test_a_pdf_that_anybody_may_open_is_read_though_it_is_encrypted() -> None:
    assert media.shown(part(encrypted(""), "application/pdf")).text.startswith("[Page 1 of 1]")


def test_without_the_extra_a_pdf_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    assert 'pip install "mcp-agent-workbench[media]"' in media.shown(part(PDF, "application/pdf")).text


def test_an_image_is_a_descriptor_with_its_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    assert " pixels, 16.6 KB." in media.shown(part(PNG, "image/png")).text
    assert "pixels" not in media.shown(part(PNG[:20], "image/png")).text
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert "[media]" in media.shown(part(PNG, "image/png")).text, "it names the extra"


@pytest.mark.parametrize(
    ("data", "declared", "found"),
    [
        (PNG, None, "image/png"),
        (PNG, "application/octet-stream", "image/png"),
        (PNG, "text/plain", "image/png"),
        (PNG, "image/jpeg", "image/png"),
        (PDF, "text/html", "application/pdf"),
        (PNG, "image/png", None),
        (PNG, "application/x-own", None),
        (b"plain words", "text/plain", None),
        ("text", "image/png", None),
    ],
)
def test_a_wrong_or_missing_type_is_told_by_the_bytes(
    data: str | bytes, declared: str | None, found: str | None
) -> None:
    given = part(data, declared)
    assert media.found_type(given) == found
    note = media.shown(given).note
    assert (found or "never") in (note or "") or found is None
    if found and declared:
        assert f"declared as {declared}" in (note or "")


def test_a_document_in_a_zip_is_believed() -> None:
    with zipfile.ZipFile(out := io.BytesIO(), "w") as archive:
        archive.writestr("x", "y")
    declared = "application/vnd.own-document"
    assert declared in media.shown(part(out.getvalue(), declared)).text


def test_a_handler_that_is_added_goes_before_and_can_be_taken_away() -> None:
    given = part(b'{"a": 1}', "application/ld+json")
    undo = media.add("+json", lambda part, kind: media.Shown(f"{kind} as a table"))
    exact = media.add("application/ld+json", lambda part, kind: None)
    assert media.shown(given).text == "application/ld+json as a table", "None lets the next one try"
    undo()
    exact()
    assert media.shown(given).text == '{"a": 1}'


def test_what_was_declared_and_what_was_found_are_both_in_the_span() -> None:
    with Session() as wb:
        wb.connect("awkward", command=awkward())
        wb.read("res://files/nomime")
        assert wb.spans[-1].detail["mime"] == "unknown"
        assert wb.spans[-1].detail["mime_found"] == "image/png"
        assert "no type declared, found to be image/png" in wb.spans[-1].detail["note"]


def test_a_pdf_of_a_server_reaches_the_model_as_text() -> None:
    with Session() as wb:
        wb.connect("demo")
        wb.attach("file:///repo/sum-checklist.pdf")
        attached = wb.ask("Who signs the run checklist?")
        assert attached.totals.reads == 0
        (span,) = [s for s in attached.spans if s.kind == "attach"]
        assert span.detail["tokens"] > 50


def test_the_parts_of_a_content_are_saved_byte_for_byte_and_overwrite_nothing(tmp_path: Path) -> None:
    one = Content(server="s", uri="u", parts=(part(PNG, "image/png"),))
    assert one.save(tmp_path / "a.png") == (tmp_path / "a.png",)
    assert (tmp_path / "a.png").read_bytes() == PNG
    many = Content(server="s", uri="u", parts=(part("é"), part(b"\xff")))
    (tmp_path / "b-2.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="nothing was written"):
        many.save(tmp_path / "b.txt")
    assert not (tmp_path / "b-1.txt").exists()
    assert [p.read_bytes() for p in many.save(str(tmp_path / "c.txt"))] == ["é".encode(), b"\xff"]


@pytest.mark.parametrize(
    ("declared", "found"), [("audio/wav", "audio/x-wav"), ("audio/mp3", "audio/mpeg"), ("image/jpg", "image/jpeg")]
)
def test_another_name_of_the_same_type_is_no_lie(declared: str, found: str) -> None:
    data = {"audio/x-wav": b"RIFF\0\0\0\0WAVEfmt ", "audio/mpeg": b"ID3\x04", "image/jpeg": b"\xff\xd8\xff\xe0"}[found]
    assert media.found_type(part(data + bytes(60), None)) == found
    assert media.found_type(part(data + bytes(60), declared)) is None
