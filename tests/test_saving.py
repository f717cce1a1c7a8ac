"""The names under which a page saves what a server sent: never out of the folder, never hidden, never endless."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.content import Content, Part
from workbench.saving import LARGEST, MOST, file_name, files

PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)


@pytest.mark.parametrize(
    "uri, mime, name",
    [
        ("docs://style-guide", "text/markdown", "style-guide.md"),
        ("file:///repo/My%20Docs/plan v2.md", "text/plain", "plan v2.md"),
        ("crm://customer/4471/subscription", "application/json", "subscription.json"),
        ("crm://tickets?query=a/b.exe#c/d.exe", "text/csv", "tickets.csv"),
        ("res://dir/", "", "dir"),
        ("urn:isbn:123", "text/plain", "urn_isbn_123.txt"),
        ("x://a/v1.2", "application/json", "v1.2.json"),
        ("x://a/clip.7z", "application/json", "clip.7z"),
        ("docs://münchen/straße", "text/plain", "straße.txt"),
        ("x://a/..%2F..%2Fetc%2Fpasswd", "", "_.._etc_passwd"),
        ("x://a/%2e%2e", "", "content"),
        ("x://a/C:\\Windows\\evil", "", "C__Windows_evil"),
        ("x://a/\u202egnp.exe\u200b\n", "", "_gnp.exe__"),
        ("x://a/%00\ud800", "image/png", "__.png"),
        ("", "image/png", "content.png"),
        ("///", "nonsense/type", "content"),
        ("x://a/.bashrc", "", "bashrc"),
    ],
)
def test_a_name_is_the_last_segment_and_does_no_harm(uri: str, mime: str, name: str) -> None:
    assert file_name(uri, mime) == name


@given(st.text(max_size=400), st.sampled_from(["", "text/plain", "application/vnd.ms-excel"]), st.integers(1, MOST))
def test_whatever_the_uri_the_name_is_one_plain_segment(uri: str, mime: str, number: int) -> None:
    name = file_name(uri, mime, number)
    assert name.isprintable() and not re.search(r'[\\/:*?"<>|]', name)
    assert 1 <= len(name) <= len(name.encode()) <= 100
    assert not name.startswith(".") and name not in ("", ".", "..")


def test_parts_of_one_name_get_numbers_and_the_bytes_tell_a_missing_type() -> None:
    parts = [
        Part(uri="x://A", mime="text/plain", data="1"), Part(uri="y://a", mime="text/plain", data="2"),
        Part(uri="x://picture", mime=None, data=PNG), Part(uri="x://liar", mime="text/plain", data=PNG),
    ]  # fmt: skip
    assert [file.name for file in files(parts)] == ["A.txt", "a-2.txt", "picture.png", "liar.png"]


def test_ten_thousand_parts_make_fifty_files() -> None:
    assert len(files([Part(uri="x://a", mime=None, data="")] * 10_000)) == MOST


@pytest.mark.parametrize("data", [bytes(LARGEST), "x" * LARGEST])
def test_what_is_too_large_for_a_page_says_so(data: str | bytes) -> None:
    more = "ü" if isinstance(data, str) else b"x"
    fits, over = files([Part(uri="x://a", mime=None, data=d) for d in (data, data + more)])  # type: ignore[operator]
    assert fits.refused is None
    assert over.refused == "is larger than the 20.0 MB that go to a page"


def test_a_number_never_makes_the_name_of_another_part() -> None:
    parts = [
        Part(uri=f"x://{name}", mime=None, data=b"") for name in ("a.txt", "a.txt", "a-2.txt", "a-2-2.txt", "A.txt")
    ]
    names = [file.name.lower() for file in files(parts)]
    assert len(set(names)) == len(parts)
    assert names[:2] == ["a.txt", "a-2.txt"]


@pytest.mark.parametrize("path", ["", ".", "/"])
@pytest.mark.parametrize("parts", [1, 2])
def test_a_folder_is_no_file_to_save_to(path: str, parts: int) -> None:
    content = Content(server="s", uri="x://a", parts=(Part(uri="x://a", mime=None, data=b"1"),) * parts)
    with pytest.raises(FileExistsError, match="nothing was written"):
        content.save(path)


def test_the_home_folder_is_where_a_shell_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    content = Content(server="s", uri="x://a", parts=(Part(uri="x://a", mime=None, data=b"1"),))
    assert content.save("~/a.bin") == (tmp_path / "a.bin",)
    assert (tmp_path / "a.bin").read_bytes() == b"1"
