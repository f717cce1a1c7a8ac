"""A server's schema becomes a form, or a refusal in words; and what is typed becomes what the schema wants."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench import UsageError
from workbench.forms import MOST_FIELDS, Field, Refusal, checked, elicitation

COLOURS = [{"const": "#f00", "title": "Red"}, {"const": "#0f0", "title": "Green"}]


def form(required: tuple[str, ...] = (), **properties: Any) -> tuple[Field, ...]:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    fields: tuple[Field, ...] = elicitation({"message": "?", "requestedSchema": schema})["fields"]
    return fields


def test_every_kind_of_field_of_the_specification_becomes_one_of_the_form() -> None:
    fields = form(
        ("name",),
        name={"type": "string", "title": "Your name", "description": "in full", "minLength": 2, "default": "Ada"},
        age={"type": "integer", "minimum": 0, "maximum": 130},
        score={"type": "number"},
        news={"type": "boolean", "default": False},
        plain={"type": "string", "enum": ["a", "b"]},
        named={"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
        titled={"type": "string", "oneOf": COLOURS, "default": "#0f0"},
        several={"type": "array", "items": {"anyOf": COLOURS}, "maxItems": 1, "default": ["#f00"]},
        tags={"type": "array", "items": {"type": "string"}},
        maybe={"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None, "title": "Perhaps"},
    )
    by_name = {field.name: field for field in fields}
    assert list(by_name) == ["name", "age", "score", "news", "plain", "named", "titled", "several", "tags", "maybe"]
    name = by_name["name"]
    assert (name.label, name.required, name.default, name.description) == ("Your name", True, "Ada", "in full")
    assert "at least 2 characters" in name.hint
    assert by_name["age"].hint == "a whole number, at least 0, at most 130"
    assert by_name["named"].choices == (("a", "A"), ("b", "B"))
    assert by_name["titled"].choices == by_name["several"].choices == (("#f00", "Red"), ("#0f0", "Green"))
    assert (by_name["several"].default, by_name["news"].default, by_name["maybe"].default) == (["#f00"], False, None)
    assert (by_name["maybe"].type, by_name["maybe"].label) == ("integer", "Perhaps")


@pytest.mark.parametrize(
    ("schema", "typed", "sent"),
    [
        ({"type": "integer"}, " 3 ", 3), ({"type": "number"}, "2.50", 2.5), ({"type": "number"}, "-7", -7),
        ({"type": "integer"}, 3, 3), ({"type": "boolean"}, "Yes", True), ({"type": "boolean"}, "0", False),
        ({"type": "boolean"}, False, False), ({"type": "string"}, "  x ", "  x "),
        ({"type": "string", "oneOf": COLOURS}, "Red", "#f00"), ({"type": "string", "oneOf": COLOURS}, "#f00", "#f00"),
        ({"type": "array", "items": {"anyOf": COLOURS}}, "Green, #f00", ["#0f0", "#f00"]),
        ({"type": "array", "items": {"type": "string"}}, ["a,b"], ["a,b"]),
        ({"type": "string", "format": "email"}, "ada@example.org", "ada@example.org"),
        ({"type": "string", "format": "uri"}, "urn:isbn:123", "urn:isbn:123"),
        ({"type": "string", "format": "date"}, "2024-02-29", "2024-02-29"),
        ({"type": "string", "format": "date-time"}, "2025-11-25T09:30:00Z", "2025-11-25T09:30:00Z"),
        ({"type": "string", "format": "of our own"}, "anything", "anything"),
        ({"type": "string", "pattern": "(a+)+$"}, "a" * 60 + "b", "a" * 60 + "b"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_typed_becomes_what_the_schema_wants(schema: dict[str, Any], typed: Any, sent: Any) -> None:
    assert checked(form(x=schema), {"x": typed}) == {"x": sent}
    assert type(checked(form(x=schema), {"x": typed})["x"]) is type(sent)


@pytest.mark.parametrize(
    ("schema", "typed", "says"),
    [
        ({"type": "integer"}, "three", "not a whole number"), ({"type": "integer"}, "1_0", "not a whole number"),
        ({"type": "integer"}, "3.5", "3.5 is not of type 'integer'"), ({"type": "integer"}, True, "not of type"),
        ({"type": "integer", "minimum": 1}, "0", "less than the minimum of 1"), ({"type": "number"}, "1e999", "finite"),
        ({"type": "number"}, float("nan"), "finite"), ({"type": "boolean"}, "maybe", "neither yes nor no"),
        ({"type": "string", "minLength": 3}, "ab", "too short"), ({"type": "string"}, 5, "not of type 'string'"),
        ({"type": "string", "enum": ["a"]}, "b", "not one of"), ({"type": "string", "format": "email"}, "ada", "e-mail"),
        ({"type": "string", "format": "date"}, "2025-02-30", "YYYY-MM-DD"),
        ({"type": "string", "format": "uri"}, "x", "scheme"),
        ({"type": "string", "format": "date-time"}, "2025-11-25T09:30:00", "with its zone"),
        ({"type": "array", "items": {"enum": ["a"]}}, "b", "not one of"),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 1}, "a, b", "too long"),
    ],
    ids=str,
)  # fmt: skip
def test_what_the_schema_does_not_take_is_told_with_the_fields_name(
    schema: dict[str, Any], typed: Any, says: str
) -> None:
    with pytest.raises(UsageError, match=says) as error:
        checked(form(x={**schema, "title": "The X"}), {"x": typed})
    assert str(error.value).startswith("The X: ")


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(UsageError) as error:
        checked(form(("a", "b"), a={"type": "string"}, b={"type": "integer"}), {"b": "x", "c": "1"})
    assert (
        str(error.value)
        == "c: there is no such field; there are: a, b; a: it is required; b: 'x' is not a whole number"
    )


def test_what_is_not_named_has_its_default_and_what_is_left_empty_is_left_out() -> None:
    fields = form(a={"type": "string", "default": "x"}, b={"type": "integer", "default": 2}, c={"type": "string"})
    assert checked(fields, {}) == {"a": "x", "b": 2}
    assert checked(fields, {"a": "", "2": "5"}) == {"b": 5}


def test_a_default_that_the_form_itself_would_refuse_is_none() -> None:
    (field,) = form(a={"type": "integer", "default": "many"})
    assert field.default is None


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "array"}, "schema of an object"), ("x", "schema of an object"), (None, "schema of an object"),
        ({"properties": []}, "properties as an object"), ({"required": "a"}, "required as a list"),
        ({"properties": {f"f{n}": {"type": "string"} for n in range(10_000)}}, f"10,000 fields; a form takes {MOST_FIELDS}"),
        ({"properties": {"a": {"type": "object", "properties": {}}}}, "a form is flat"),
        ({"properties": {"a": {"type": "array", "items": {"type": "object"}}}}, "a form is flat"),
        ({"properties": {"a": {"$ref": "http://127.0.0.1:9/secret"}}}, "a form is flat"),
        ({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}, "a form is flat"),
        ({"properties": {"a": True}}, "a form is flat"),
        ({"properties": {"a": {"type": "string", "enum": []}}}, "1 to 1,000 choices"),
        ({"properties": {"a": {"type": "string", "enum": [1]}}}, "each a string"),
        ({"properties": {"a": {"type": "string", "description": "x" * 300_000}}}, "characters; a form takes 200,000"),
    ],
)  # fmt: skip
def test_a_schema_that_is_no_form_is_refused_in_words(schema: Any, says: str) -> None:
    with pytest.raises(Refusal, match=says) as error:
        elicitation({"message": "?", "requestedSchema": schema})
    assert error.value.code == -32602
    assert len(str(error.value)) < 300


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["string", "array", "integer"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["type", "enum", "oneOf", "anyOf", "items", "const", "default", "minimum", "minLength", "format"]),
            inner, max_size=5,
        )
    ),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=3), JSON)
def test_no_schema_and_no_answer_raises_anything_but_our_words(properties: dict[str, Any], value: Any) -> None:
    try:
        fields = elicitation({"message": "", "requestedSchema": {"properties": properties}})["fields"]
        checked(fields, dict.fromkeys(properties, value))
    except (Refusal, UsageError):
        pass


def test_names_that_are_no_names_stay_whole() -> None:
    names = ["__proto__", "a\u202eb", "", "constructor", "<b>", "1"]
    fields = elicitation(
        {"message": "?", "requestedSchema": {"properties": {name: {"type": "string"} for name in names}}}
    )["fields"]
    assert checked(fields, dict.fromkeys(names, "v")) == dict.fromkeys(names, "v")


@pytest.mark.parametrize(
    "url",
    [
        "https://pay.example/cart?id=7#top",
        "http://127.0.0.1:8080",
        "https://[::1]:8080/x",
        "https://xn--mnchen-3ya.example/ä",
    ],
)
def test_an_address_of_the_web_can_be_shown(url: str) -> None:
    assert elicitation({"message": "?", "mode": "url", "url": url})["url"] == url


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "https://bank.example@evil.example/",
        "https:evil.example",
        "https://evil.example\\@bank.example/", "https://evil.example\\.bank.example/", "https://bank.exаmple/", "https:///x",
        "https://a.example/ x", "https://a.example/\n", "https://a.example/\u202e", "https://a.example/" + "x" * 30_000,
        7, None,
    ],
)  # fmt: skip
def test_an_address_whose_host_could_be_misread_is_refused(url: Any) -> None:
    with pytest.raises(Refusal, match="a host in ASCII"):
        elicitation({"message": "?", "mode": "url", "url": url})
