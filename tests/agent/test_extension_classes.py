"""Classes of the application in extension methods: what they may contain, themselves included (N1, W4)."""

import dataclasses
from typing import Any, Optional

import attrs
import pytest
import trio
import trio.testing

from tests.agent.scripted import WireError, agent, connected
from trio_acp import AcpOptions, Extensions, SessionScope, connect_acp

# Annotations are not postponed here: only the names in quotes are texts, so that types hold them.


@attrs.define
class Place:
    name: str
    inside: Optional["Place"] = None


@dataclasses.dataclass
class Tree:
    name: str
    branches: list["Tree"] = dataclasses.field(default_factory=list["Tree"])
    marks: frozenset[str] = frozenset()


@attrs.define
class Checked:
    number: int

    def __attrs_post_init__(self) -> None:
        raise LookupError("of the class")


async def nothing() -> None: ...


async def test_a_class_may_contain_itself_and_sets_travel_as_arrays() -> None:
    app = agent(nothing)

    @app.on_ext_request("_x/place")
    async def place(params: Place) -> Place:
        assert isinstance(params.inside, Place)
        return Place("around", params)

    @app.on_ext_request("_x/tree")
    async def tree(params: Tree) -> Tree:
        return Tree("root", [params, Tree("other", marks=frozenset({"new"}))])

    async with connected(app) as client:
        inner = {"name": "a", "inside": {"name": "b", "inside": None}}
        assert await client.call("_x/place", **inner) == {"name": "around", "inside": inner}
        leaf = {"name": "leaf", "branches": [], "marks": []}
        twig = {"name": "twig", "branches": [leaf], "marks": ["old"]}
        other = {"name": "other", "branches": [], "marks": ["new"]}
        result = {"name": "root", "branches": [twig, other], "marks": []}
        assert await client.call("_x/tree", **twig) == result
        with pytest.raises(WireError, match=r"branches\[0\]\.name: expected a string") as caught:
            await client.call("_x/tree", name="a", branches=[{"name": 5}])
        assert caught.value.code == -32602


async def test_what_is_nested_too_deeply_for_a_class_is_refused(
    autojump_clock: trio.testing.MockClock,
) -> None:
    app = agent(nothing)

    @app.on_ext_request("_x/place")
    async def place(params: Place) -> None:
        raise AssertionError

    deep: dict[str, Any] = {"name": "a"}
    for _ in range(900):
        deep = {"name": "a", "inside": deep}
    async with connected(app) as client:
        with pytest.raises(WireError, match="nested too deeply") as caught:
            await client.call("_x/place", **deep)
        assert caught.value.code == -32602


async def test_what_a_class_raises_reaches_the_caller_as_itself(
    autojump_clock: trio.testing.MockClock,
) -> None:
    app = agent(nothing)

    @app.on_ext_request("_x/number")
    async def number() -> dict[str, int]:
        return {"number": 1}

    async with trio.open_nursery() as nursery:
        host = await connect_acp(nursery, app.connect_in_memory(nursery), AcpOptions())
        with pytest.raises(LookupError, match="of the class"):
            await host.request("_x/number", result=Checked)
        nursery.cancel_scope.cancel()


def test_names_that_a_class_uses_and_nobody_finds_are_an_error_that_says_what_to_do() -> None:
    @attrs.define
    class Local:
        inside: Optional["Local"] = None

    with pytest.raises(TypeError, match=r"Local means nothing .* define the class at the top"):
        Extensions().method("_x", Local)


def test_a_plain_function_is_refused_when_it_is_registered() -> None:
    def plain(params: Any) -> Any:
        raise AssertionError

    with pytest.raises(TypeError, match=r"plain' is not an async function"):
        Extensions().method("_x")(plain)


async def test_types_may_be_named_with_and_without_a_parameter_for_the_session() -> None:
    """What type checkers make of it is the half of this test."""
    extensions = Extensions()

    @extensions.method("_x/one", params=Place)
    async def one(place: Place) -> Any:
        return place

    @extensions.method("_x/two", params=Place, result=Place)
    async def two(place: Place) -> Place:
        return place

    @extensions.method("_x/three", params=Place, result=Place)
    async def three(place: Place, session: SessionScope | None) -> Place:
        return place

    @extensions.method("_x/four", result=Place)
    async def four(place: Place) -> Place:
        return place

    async with connected(agent(nothing, extensions=extensions)) as client:
        for name in extensions:
            assert await client.call(name, name="a") == {"name": "a", "inside": None}
