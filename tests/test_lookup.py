"""What the model may read, use and write as arguments, and what it is told when it may not."""

from __future__ import annotations

import difflib
from typing import Any

import pytest

from workbench import catalog, lookup, tools
from workbench.content import Argument, Link, Offer, Part, Prompt, Resource, Template, ToolResult, clean
from workbench.errors import NotOffered


def offer(*uris: str, templates: tuple[str, ...] = (), prompts: tuple[str, ...] = (), server: str = "s") -> Offer:
    return Offer(
        resources=tuple(Resource(server=server, uri=uri, name="n") for uri in uris),
        templates=tuple(Template(server=server, uri=uri, name="t") for uri in templates),
        prompts=tuple(Prompt(server=server, name=name) for name in prompts),
    )


def readable(uri: str, offered: Offer, links: dict[tuple[str, str], str] | None = None) -> tuple[str, str]:
    allowed = lookup.find_readable(uri, None, offered, links or {})
    return allowed.uri, allowed.rule


# -- which entry a URI means


def test_the_exact_spelling_goes_before_a_template_and_a_template_before_an_equivalent_spelling() -> None:
    offered = offer("x://a%2Fb", templates=("x://a/{n}",))
    assert readable("x://a/b", offered) == ("x://a/b", "template x://a/{n}")
    assert readable("x://a%2Fb", offered) == ("x://a%2Fb", "listed")
    assert readable("x://a/b", offer("x://a%2Fb")) == ("x://a%2Fb", "listed")
    assert readable("x://a%2Fb", offer("x://a/b")) == ("x://a/b", "listed")


def test_an_equivalent_spelling_is_taken_only_where_it_means_one_resource() -> None:
    with pytest.raises(NotOffered, match="nobody offers"):
        readable("x://a b/c", offer("x://a%20b/c", "x://a b%2Fc"))
    with pytest.raises(NotOffered, match="nobody offers"):
        readable("x://%fe", offer("x://%ff"))


def test_blanks_around_a_uri_count_where_the_server_lists_them() -> None:
    assert readable(" x://a ", offer(" x://a ", "x://a")) == (" x://a ", "listed")
    assert readable("x://a\n", offer(" x://a ", "x://a")) == ("x://a", "listed")
    assert readable("x://a\n", offer("x://a", templates=("x://{n}",))) == ("x://a", "listed")
    assert readable("urn:1 ", offer(), {("s", "urn:1"): "c"}) == ("urn:1", "linked")


def test_what_the_catalog_shows_on_one_line_can_be_read_and_used() -> None:
    offered = offer("x://a  b", "x://\ud800", prompts=("sp  ace", "other"))
    assert readable("x://a b", offered) == ("x://a  b", "listed")
    assert readable("x://\ufffd", offered) == ("x://\ud800", "listed")
    assert lookup.find_prompt("sp ace", None, offered).name == "sp  ace"
    assert lookup.find_prompt("sp  ace", None, offered).name == "sp  ace"


def test_of_two_that_look_the_same_on_one_line_only_the_exact_one_is_taken() -> None:
    offered = offer("x://a  b", "x://a   b", prompts=("p  q", "p   q"))
    assert readable("x://a   b", offered) == ("x://a   b", "listed")
    assert lookup.find_prompt("p   q", None, offered).name == "p   q"
    with pytest.raises(NotOffered, match="nobody offers"):
        readable("x://a b", offered)
    with pytest.raises(NotOffered, match="nobody offers a prompt"):
        lookup.find_prompt("p q", None, offered)


def test_what_two_servers_offer_alike_needs_the_server() -> None:
    both = offer("x://a  b", prompts=("p  q",)) + offer("x://a  b", prompts=("p  q",), server="t")
    with pytest.raises(NotOffered, match="offered by s and t"):
        readable("x://a b", both)
    with pytest.raises(NotOffered, match="offered by s and t"):
        lookup.find_prompt("p q", None, both)
    assert lookup.find_readable("x://a b", "t", both, {}).server == "t"
    assert lookup.find_prompt("p q", "t", both).server == "t"


def test_a_uri_with_placeholders_names_what_to_fill_in() -> None:
    offered = offer(templates=("x://{id}/{+path}",))
    for uri in ("x://{id}/{+path}", "x://1/{path}"):
        with pytest.raises(NotOffered, match="fill in id, path of the template"):
            readable(uri, offered)


# -- refusals


def test_the_nearest_are_found_among_a_hundred_thousand_by_comparing_few(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    closest = difflib.get_close_matches

    def count(word: str, among: list[str], **options: Any) -> list[str]:
        compared.append(len(among))
        return closest(word, among, **options)

    monkeypatch.setattr(difflib, "get_close_matches", count)
    many = offer(*(f"file:///repo/src/module{number:06d}/document.md" for number in range(100_000)))
    with pytest.raises(NotOffered, match=r"module098765/document\.md; .*; and 99,995 more in the catalog"):
        readable("file:///repo/src/modul098765/documents.md", many)
    assert max(compared) <= 2_000


def test_a_refusal_never_repeats_a_huge_or_hostile_name_whole() -> None:
    huge = "x\n" + "a" * 100_000
    offered = offer(huge + "1", templates=(huge + "{id}",), prompts=(huge + "1",))
    asked: list[Any] = [
        lambda: lookup.find_readable(huge, None, offered, {}),
        lambda: lookup.find_readable(huge + "{id}", None, offered, {}),
        lambda: lookup.find_readable("x", huge, offered, {}),
        lambda: lookup.find_readable(huge, None, offer(huge) + offer(huge, server="t"), {}),
        lambda: lookup.find_prompt(huge, None, offered),
        lambda: lookup.find_prompt(huge, None, offer(prompts=(huge,)) + offer(prompts=(huge,), server="t")),
        lambda: lookup.find_prompt("p", None, offer(prompts=tuple(f"{n}-{huge}" for n in range(1000)))),
    ]
    for ask in asked:
        with pytest.raises(NotOffered) as refused:
            ask()
        assert len(str(refused.value)) < 3_000
        assert "\n" not in str(refused.value)


def test_a_refusal_for_an_empty_catalog_says_so() -> None:
    with pytest.raises(NotOffered, match="nobody offers 'x://a': the catalog is empty"):
        readable("x://a", Offer())
    with pytest.raises(NotOffered, match="There are: none"):
        lookup.find_prompt("p", None, Offer())


# -- arguments


@pytest.mark.parametrize(
    ("value", "said"),
    [(None, "null"), (3, "a number"), (1.5, "a number"), (True, "a boolean"), (["x"], "a list"), ({}, "an object")],
)
def test_an_argument_that_is_no_string_is_refused_in_the_words_of_json(value: Any, said: str) -> None:
    with pytest.raises(NotOffered, match=f"uri must be a string; it was {said}"):
        lookup.string_argument({"uri": value}, "uri")
    if value is not None:
        with pytest.raises(NotOffered, match=f"server must be a string; it was {said}"):
            lookup.string_argument({"server": value}, "server", required=False)


def test_a_missing_argument_is_refused_only_where_it_is_required() -> None:
    with pytest.raises(NotOffered, match="uri must be a string; it was missing"):
        lookup.string_argument({}, "uri")
    assert lookup.string_argument({"uri": ""}, "uri") == ""
    assert [
        lookup.string_argument(args, "server", required=False) for args in ({}, {"server": None}, {"server": ""})
    ] == [None] * 3
    assert lookup.string_argument({"server": "s"}, "server", required=False) == "s"


@pytest.mark.parametrize(("given", "said"), [([1], "a list"), ("k=1", "a string"), (3, "a number")])
def test_arguments_of_a_prompt_that_are_no_object_are_refused(given: Any, said: str) -> None:
    prompt = Prompt(server="s", name="p", arguments=(Argument(name="a"), Argument(name="c")))
    with pytest.raises(NotOffered, match=f"arguments must be an object; it was {said}"):
        lookup.prompt_arguments(prompt, given)
    assert lookup.prompt_arguments(prompt, None) == {}
    assert lookup.prompt_arguments(prompt, {"a": {"b": 1}, "c": None}) == {"a": '{"b": 1}'}


# -- results


def test_a_tools_result_reaches_the_model_as_utf_8() -> None:
    items = (Part(uri="tool t", mime=None, data="\ud800"), Link(uri="x://\ud800", name="\ud800"))
    shown = [
        tools.result_rendered(ToolResult(server="s", tool="t", items=items), None).text,
        tools.result_rendered(ToolResult(server="s", tool="t", structured={"\ud800": "\ud83d\ude00"}), None).text,
    ]
    assert all(text.encode() and "\ufffd" in text for text in shown)
    assert "😀" in shown[1]


def text_part(text: str) -> Part:
    return Part(uri="tool t", mime="text/plain", data=text)


@pytest.mark.parametrize(
    ("structured", "texts"),
    [
        ({"id": 4471}, ['{\n  "id": 4471\n}']),
        ({"result": "sunny"}, ["sunny"]),
        ({"result": 5}, ["5"]),
        ({"result": [{"id": 1}, {"id": 2}]}, ['{"id": 1}', '{"id": 2}']),
        ({"result": ["a", "b"]}, ["a", "b"]),
        ({"result": [{"type": "text", "text": "a", "_meta": None}, {"type": "text", "text": "b"}]}, ["a", "b"]),
        (None, ["Found nothing"]),
    ],
)
def test_structured_content_that_the_text_holds_already_is_not_sent_twice(structured: Any, texts: list[str]) -> None:
    result = ToolResult(server="s", tool="t", items=tuple(map(text_part, texts)), structured=structured)
    assert tools.result_rendered(result, frozenset()).text == "\n\n".join(texts)


@pytest.mark.parametrize("text", ["Found 2 rows", "null", '{"rows": []}', "{" * 100_000, ""])
def test_structured_content_that_the_text_does_not_hold_reaches_the_model(text: str) -> None:
    structured = {"rows": [{"id": 4471}, {"id": 4480}]}
    result = ToolResult(server="s", tool="t", items=(text_part(text),), structured=structured)
    shown = tools.result_rendered(result, frozenset()).text
    assert shown.startswith(text) and shown.endswith('{"rows": [{"id": 4471}, {"id": 4480}]}')


def test_structured_content_with_a_type_of_its_own_is_no_content_block() -> None:
    structured = {"type": "image", "id": 3}
    result = ToolResult(server="s", tool="t", items=(text_part("Found one"),), structured=structured)
    assert '"id": 3' in tools.result_rendered(result, frozenset()).text


def test_a_picture_is_not_sent_again_as_base64() -> None:
    picture = Part(uri="tool t", mime="image/png", data=b"\x89PNG\r\n\x1a\n")
    structured = {"result": [{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}]}
    result = ToolResult(server="s", tool="t", items=(picture,), structured=structured)
    assert "iVBOR" not in tools.result_rendered(result, frozenset()).text


@pytest.mark.parametrize("structured", [{"pin": 1234}, {"other": {"pin": 1234}}])
def test_structured_content_is_not_the_way_round_a_text_for_people_only(structured: Any) -> None:
    item = Part(uri="tool t", mime="text/plain", data='{"pin": 1234}', audience=("user",))
    result = ToolResult(server="s", tool="t", items=(item, text_part("done")), structured=structured)
    assert "1234" in tools.result_rendered(result, None).text
    assert "1234" not in tools.result_rendered(result, frozenset()).text


def test_a_template_without_variables_is_read_as_it_stands() -> None:
    """FastMCP lists one where a resource's function takes the context."""
    offer = Offer(templates=(Template(server="a", uri="board://now", name="now"),))
    assert lookup.find_readable("board://now", None, offer, {}).uri == "board://now"


def test_what_two_servers_offer_is_refused_in_words_for_a_model_and_for_a_magic() -> None:
    offered = offer("x://1", prompts=("p",), server="my server") + offer("x://1", prompts=("p",), server="s")
    said = r"""is offered by my server and s: .* as in server="my server" \(in a magic --server 'my server'\)\."""
    with pytest.raises(NotOffered, match=said):
        lookup.find_readable("x://1", None, offered, {})
    with pytest.raises(NotOffered, match=said):
        lookup.find_prompt("p", None, offered)
    assert lookup.find_readable("x://1", "my server", offered, {}).server == "my server"


# -- the catalog's rows and URIs


def test_a_template_may_call_its_variables_what_it_likes() -> None:
    values = {"self": "a b", "cls": "c", "kwargs": "d"}
    assert catalog.fill("x://{self}/{cls}{?kwargs}", values) == "x://a%20b/c?kwargs=d"


def test_no_two_rows_have_one_key_whatever_the_servers_are_called() -> None:
    offered = offer("b x://1", server="a") + offer("x://1", server="a b") + offer("x://1", server="a%20b")
    unsent = offer("x:\ud800", "x:\ud801", "x:\ufffd", "x:%ED%A0%80")  # to a page the first three would be one
    assert len({clean(key) for key in catalog.rows(unsent, [], [], ["resource"])}) == 4
    rows = catalog.rows(offered, [("a b", "x://1")], [], ["resource"])
    assert [(row.server, row.uri, row.state) for row in rows.values()] == [
        ("a", "b x://1", ""), ("a b", "x://1", "attached"), ("a%20b", "x://1", ""),
    ]  # fmt: skip
    assert all(row.key == key for key, row in rows.items())
