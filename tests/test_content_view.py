"""What a person sees of a content: shown well, shortened with words, and never as markup of the server's."""

from __future__ import annotations

import json

import pytest

from workbench import media
from workbench.content import Content, Part
from workbench.view.content import PREVIEW, bundle, plain

EVIL = "<img src=x onerror=alert(1)>"


def content(*parts: tuple[str | None, str | bytes]) -> Content:
    made = tuple(Part(uri=f"a:{number}", mime=mime, data=data) for number, (mime, data) in enumerate(parts))
    return Content(server="s", uri="a:0", parts=made)


def test_json_is_indented_and_what_is_not_json_stays_as_it_is() -> None:
    assert plain(content(("application/json", '{"a":[1,2]}')))[0] == '{\n "a": [\n  1,\n  2\n ]\n}'
    assert plain(content(("application/vnd.x+json", b'{"a": "\xc3\xbc"}')))[0] == '{\n "a": "ü"\n}'
    assert plain(content(("application/json", "{'a': 1,}")))[0] == "{'a': 1,}"
    assert plain(content(("application/json", "[" * 100_000)))[0].startswith("[[[")


def test_a_table_is_a_table_with_its_markup_escaped() -> None:
    shown = bundle(content(("text/csv", f'id,name\n1,"a, b"\n2,{EVIL}\n3\n')))
    assert "<th" in shown["text/html"] and ">a, b</td>" in shown["text/html"]
    assert EVIL not in shown["text/html"] and "&lt;img" in shown["text/html"]
    assert shown["text/plain"].splitlines()[:2] == ["id  name", "1   a, b"]
    assert "<td" in bundle(content(("text/tab-separated-values", "a\tb\n1\t2")))["text/html"]


def test_a_long_table_says_how_long_and_a_wide_one_how_wide() -> None:
    shown = bundle(content(("text/csv", "a,b\n" + "1,2\n" * 500)))
    assert "100 of 500 rows are shown here" in shown["text/html"] and "100 of 500 rows" in shown["text/plain"]
    shown = bundle(content(("text/csv", (",".join("abcdefgh" * 10) + "\n") * 3)))
    assert "30 of 80 columns are shown here" in shown["text/html"]


@pytest.mark.parametrize("text", ["", "one", "a;b\n1;2", 'a,"b\n' + "x" * 200_000, "\n\n\n"])
def test_what_is_no_table_is_text(text: str) -> None:
    assert "<table" not in bundle(content(("text/csv", text)))["text/html"]


def test_markdown_is_rendered_without_the_servers_markup_and_images() -> None:
    shown = bundle(
        content(("text/markdown", f"# Plan\n\n- one\n\n{EVIL}\n\n![x](https://evil/p.png) [y](javascript:z)"))
    )
    assert "<h1>Plan</h1>" in shown["text/html"] and "<li>one</li>" in shown["text/html"]
    assert (
        EVIL not in shown["text/html"] and "<img" not in shown["text/html"] and "javascript:" not in shown["text/html"]
    )
    assert shown["text/plain"].startswith("# Plan")


def test_svg_and_html_are_text_for_a_person_too() -> None:
    for mime in ("image/svg+xml", "text/html"):
        for data in (f"<svg onload=x>{EVIL}</svg>", f"<svg onload=x>{EVIL}</svg>".encode()):
            shown = bundle(content((mime, data)))
            assert "<svg" not in shown["text/html"] and "&lt;svg onload=x&gt;" in shown["text/html"]


def test_several_parts_stay_apart_each_under_its_uri_and_what_is_long_says_so() -> None:
    shown = bundle(content(("text/plain", "x" * (PREVIEW + 5)), (None, b"\x00" * 9), ("application/json", "[1]")))
    for part in ("a:0", "a:1", "a:2"):
        assert part in shown["text/html"] and part in shown["text/plain"]
    assert (
        f"5 of {PREVIEW + 5:,} characters are not shown here; all of it: workbench.session().read"
        in shown["text/plain"]
    )
    assert "[Binary: application/octet-stream, 9 B." in shown["text/plain"]


def test_no_content_is_said() -> None:
    assert "no content" in bundle(content())["text/html"] and "no content" in bundle(content())["text/plain"]


def test_hidden_characters_are_shown() -> None:
    shown = bundle(content(("application/json", json.dumps({"a\u202eb": "\x1b[31m"}, ensure_ascii=False))))
    assert "\u202e" not in shown["text/html"] + shown["text/plain"] and "\x1b" not in shown["text/plain"]


@pytest.mark.parametrize(
    ("uri", "line"),
    [
        ("file:///a.png", "%mcp read file:///a.png --save FILE"),
        ("file:///my a.png", "%mcp read 'file:///my a.png' --save FILE"),
        ("x://a\u202eb", "workbench.session().read('x://a\\u202eb').save('FILE')"),
    ],
)
def test_a_binary_says_what_to_type_to_save_it(uri: str, line: str) -> None:
    binary = Content(server="s", uri=uri, parts=(Part(uri="other", mime=None, data=b"\x00" * 9),))
    said = f"[Binary: application/octet-stream, 9 B. Not text, so it is not shown here; save it to a file: {line}]"
    assert plain(binary)[0] == bundle(binary)["text/plain"] == said
    assert "a person can save it" in media.for_model(binary.parts, "s").text  # a model types no magic
