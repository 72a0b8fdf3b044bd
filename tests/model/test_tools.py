"""Tools of the host: their schema comes from the signature, and what a model gives is checked against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, Required, TypedDict

import pytest

from trio_acp.model import Tool, ToolError, tool
from trio_acp.model._tools import problem_with


class Point(TypedDict, total=False):
    x: int
    y: int | None


class Line(TypedDict):
    start: Annotated[Point, "where it begins"]
    end: NotRequired[int]
    width: Required[int]


async def everything(  # type: ignore[no-untyped-def]
    text: Annotated[str, "some text"],
    number: Annotated[int, 5],
    real: float,
    flag: bool,
    nothing: None,
    anything: Any,
    untyped,  # pyright: ignore
    word: Literal["a", "b"],
    some: list[str],
    others: Sequence[int],
    bare: list,  # type: ignore[type-arg]
    table: dict[str, float],
    mapping: Mapping[str, Any],
    point: Point,
    line: Line,
    *,
    maybe: int | None = None,
) -> str:
    """Take
    everything.

    And more.
    """
    return text


def test_the_schema_comes_from_the_signature() -> None:
    made = tool(everything)
    assert (made.name, made.description) == ("everything", "Take everything.")
    assert made.function is everything
    point = {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
        "required": [],
        "additionalProperties": False,
    }
    properties = {
        "text": {"type": "string", "description": "some text"},
        "number": {"type": "integer"},
        "real": {"type": "number"},
        "flag": {"type": "boolean"},
        "nothing": {"type": "null"},
        "anything": {},
        "untyped": {},
        "word": {"enum": ["a", "b"]},
        "some": {"type": "array", "items": {"type": "string"}},
        "others": {"type": "array", "items": {"type": "integer"}},
        "bare": {"type": "array"},
        "table": {"type": "object", "additionalProperties": {"type": "number"}},
        "mapping": {"type": "object", "additionalProperties": {}},
        "point": point,
        "line": {
            "type": "object",
            "properties": {
                "start": {**point, "description": "where it begins"},
                "end": {"type": "integer"},
                "width": {"type": "integer"},
            },
            "required": ["start", "width"],
            "additionalProperties": False,
        },
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    }
    assert made.parameters == {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name != "maybe"],
        "additionalProperties": False,
    }


def test_a_decorator_may_say_what_the_signature_does_not() -> None:
    @tool
    async def plain() -> None:
        pass

    @tool(name="other", description="does it", parameters={"type": "object"})
    async def named(**anything: Any) -> None:
        pass

    assert (plain.name, plain.description, plain.parameters["properties"]) == ("plain", "", {})
    assert (named.name, named.description, named.parameters) == ("other", "does it", {"type": "object"})


def test_objects_that_are_called_can_be_tools() -> None:
    class Adder:
        async def __call__(self, a: int) -> int:
            return a

        async def method(self, b: str) -> str:
            return b

    assert tool(Adder()).name == "Adder"
    assert tool(Adder()).parameters["properties"] == {"a": {"type": "integer"}}
    assert tool(Adder().method).parameters["properties"] == {"b": {"type": "string"}}


async def _rest(*rest: int) -> None: ...


async def _any(**rest: int) -> None: ...


async def _positional(a: int, /) -> None: ...


async def _strange(a: bytes) -> None: ...


async def _keys(a: dict[int, int]) -> None: ...


@pytest.mark.parametrize("function", [_rest, _any, _positional, _strange, _keys])
def test_a_signature_that_has_no_schema_is_refused(function: Any) -> None:
    with pytest.raises(TypeError, match=r"give .*parameters="):
        tool(function)


def test_what_is_not_async_is_no_tool() -> None:
    def blocking() -> None:
        raise AssertionError

    with pytest.raises(TypeError, match="to_thread"):
        tool(blocking)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="async function"):
        Tool("x", "", {}, 5)  # type: ignore[arg-type]


async def add(a: int, b: Literal[1, 2] = 1) -> int:
    return a + b


@pytest.mark.parametrize("given", [{"a": 1}, '{"a": 1}'])
def test_arguments_are_an_object_or_its_text(given: object) -> None:
    assert tool(add).arguments(given) == {"a": 1}


def test_no_text_is_an_empty_object() -> None:
    @tool
    async def plain() -> None:
        raise AssertionError

    assert plain.arguments("") == {}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("{", "no JSON"),
        ([], "of type object"),
        (None, "of type object"),
        ({}, "lacks a"),
        ({"a": "1"}, "arguments.a must be of type integer, not '1'"),
        ({"a": True}, "of type integer"),
        ({"a": 1, "b": 3}, r"one of \[1, 2\]"),
        ({"a": 1, "c": 3}, "has no 'c'; it has a, b"),
    ],
)
def test_arguments_that_do_not_fit_are_told_of(given: object, words: str) -> None:
    with pytest.raises(ToolError, match=words):
        tool(add).arguments(given)


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        ({}, object, None),
        ({"type": ["string", "null"]}, None, None),
        ({"type": ["string", "null"]}, 1, "it must be of type string or null, not 1"),
        ({"type": "number"}, 1, None),
        ({"type": "boolean"}, False, None),
        ({"type": "from the future"}, 1, None),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "a", None),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            1,
            "it must be of type string, not 1; or it must be of type null, not 1",
        ),
        ({"items": {"type": "string"}}, ["a", "b"], None),
        ({"items": {"type": "string"}}, ["a", 1], "it[1] must be of type string, not 1"),
        ({"items": [{}, {}]}, [1], None),
        ({"type": "array"}, [1], None),
        ({"additionalProperties": {"type": "string"}}, {"a": "b"}, None),
        ({"additionalProperties": {"type": "string"}}, {"a": 1}, "it.a must be of type string, not 1"),
        ({"additionalProperties": True}, {"a": 1}, None),
        ({"additionalProperties": False}, {"a": 1}, "it has no 'a'; it has nothing"),
        ({"properties": {"a": {"items": {"enum": [1]}}}}, {"a": [2]}, "it.a[0] must be one of [1], not 2"),
    ],
)
def test_values_are_checked_against_a_schema(schema: Any, value: Any, problem: str | None) -> None:
    assert problem_with(schema, value, "it") == problem
