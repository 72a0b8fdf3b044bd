"""Extension methods of the agent, with types: asked, told, and called at the client (N1, W4, W5, O4, O6)."""

from __future__ import annotations

import dataclasses
import enum
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, NotRequired, TypedDict

import attrs
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.scripted import WireError, agent, connected
from trio_acp import AcpOptions, InvalidResponse, LocalProtocolError, SessionScope, connect_acp
from trio_acp.agent import AgentApp, AgentSession, ConnectedClient, Extensions, PromptContext
from trio_acp.schema import TextContent, WireObject


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@attrs.define
class Point:
    x: int
    y: int = 0

    def __attrs_post_init__(self) -> None:
        if self.x == 13:
            error = ValueError("13 brings bad luck")
            error.add_note("seriously")
            raise error
        if self.x == 14:
            raise LookupError("a secret of the class")


@dataclasses.dataclass
class Shape:
    """Has something of everything."""

    points_in_order: list[Point]
    colour: Colour = Colour.RED
    by_name: dict[str, Point] = dataclasses.field(default_factory=dict[str, Point])
    style: Literal["thin", "thick"] = "thin"
    label: TextContent | None = None


class Where(TypedDict):
    of_what: str
    points: NotRequired[list[Point]]


@attrs.define(repr=False, eq=False)
class Named(WireObject):
    long_name: str


async def nothing() -> None: ...


SHAPE = {"pointsInOrder": [{"x": 1, "y": 2}, {"x": 3}], "colour": "blue", "byName": {"a": {"x": 5}}}


async def test_parameters_come_as_the_type_that_the_handler_names_and_results_go_as_theirs() -> None:
    """N1, O4"""
    app = agent(nothing)

    @app.on_ext_request("_test/dataclass")
    async def dataclass(params: Shape) -> Shape:
        assert params.points_in_order == [Point(1, 2), Point(3)]
        assert (params.colour, params.by_name) == (Colour.BLUE, {"a": Point(5)})
        return params

    @app.on_ext_request("_test/attrs", Point, Named)
    async def attrs_class(params: Any, session: AgentSession[Any] | None) -> Named:
        assert isinstance(params, Point)
        return Named(f"{params.x} of {session and session.cwd}")

    @app.on_ext_request("_test/typed_dict")
    async def typed_dict(params: Where, client: ConnectedClient, method: str) -> Any:
        return {method: [params, (Point(7), Colour.RED, None)], "text": TextContent("ä")}

    @app.on_ext_request("_test/wire")
    async def wire(params: Named) -> Any:
        return [params.long_name, params.extra]

    @app.on_ext_request("_test/json")
    async def json(params: Mapping[str, Any]) -> Any:
        return params

    async with connected(app) as client:
        session = await client.new_session()
        everything = {**SHAPE, "style": "thin", "label": None}
        everything["pointsInOrder"] = [{"x": 1, "y": 2}, {"x": 3, "y": 0}]
        everything["byName"] = {"a": {"x": 5, "y": 0}}
        assert await client.call("_test/dataclass", **SHAPE, unknown=5) == everything
        assert await client.call("_test/attrs", x=4, sessionId=session) == {"longName": "4 of /proj"}
        assert await client.call("_test/typed_dict", of_what="it", points=[{"x": 1}]) == {
            "_test/typed_dict": [
                {"of_what": "it", "points": [{"x": 1, "y": 0}]},
                [{"x": 7, "y": 0}, "red", None],
            ],
            "text": {"type": "text", "text": "ä"},
        }
        assert await client.call("_test/wire", longName="n", more=1) == ["n", {"more": 1}]
        assert await client.call("_test/json", long_name=[1.5]) == {"long_name": [1.5]}


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({}, "_test/shape params: pointsInOrder: required field is missing"),
        ({"pointsInOrder": {}}, "_test/shape params: pointsInOrder: expected an array, got an object"),
        ({"pointsInOrder": "ab"}, "pointsInOrder: expected an array, got 'ab'"),
        ({"pointsInOrder": [{"x": 1}, {"x": "2"}]}, "pointsInOrder[1].x: expected an integer"),
        ({"pointsInOrder": [{"x": True}]}, "pointsInOrder[0].x: expected an integer"),
        ({"pointsInOrder": [{"y": 1}]}, "pointsInOrder[0].x: required field is missing"),
        ({"pointsInOrder": [[]]}, "pointsInOrder[0]: expected an object, got an array"),
        ({"pointsInOrder": [{"x": 13}]}, "pointsInOrder[0]: 13 brings bad luck"),
        ({"pointsInOrder": [], "colour": "green"}, "colour: 'green' is not a valid Colour"),
        ({"pointsInOrder": [], "style": "none"}, "style: none not in literal"),
        ({"pointsInOrder": [], "byName": {"q": {}}}, "byName.q.x: required field is missing"),
        ({"pointsInOrder": [], "label": {"type": "text"}}, "label.text: required field is missing"),
    ],
)
async def test_parameters_that_do_not_fit_are_refused_with_the_field_that_is_wrong(
    params: dict[str, Any], told: str
) -> None:
    """N1, W4"""
    app = agent(nothing)

    @app.on_ext_request("_test/shape")
    async def shape(params: Shape) -> None:
        raise AssertionError

    async with connected(app) as client:
        with pytest.raises(WireError) as caught:
            await client.call("_test/shape", **params)
        assert caught.value.code == -32602
        assert told in str(caught.value)


async def test_what_goes_wrong_in_the_agent_is_not_blamed_on_the_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """W4: -32603, and no word of what it was."""
    app = agent(nothing)

    @app.on_ext_request("_test/point")
    async def point(params: Point) -> None:
        raise AssertionError

    @app.on_ext_request("_test/wrong", result=Point)
    async def wrong() -> Any:
        return {"x": 1}

    @app.on_ext_request("_test/odd")
    async def odd() -> Any:
        return Named(5)  # type: ignore[arg-type]

    @app.on_ext_request("_test/where", result=Where)
    async def where() -> Any:
        return {"of_what": 5}

    @app.on_ext_request("_test/loop")
    async def loop() -> Any:
        endless: list[Any] = []
        endless.append(endless)
        return endless

    @app.on_ext_request("_test/map", result=dict[str, float])
    async def mapping() -> Any:
        return {"a": 1, "b": "2"}

    @app.on_ext_request("_test/inside")
    async def inside(client: ConnectedClient) -> Any:
        from trio_acp.schema import structure

        return structure(TextContent, {"secret": 1})

    reasons = {
        "_test/point": "a secret of the class",
        "_test/wrong": "must return Point, not dict",
        "_test/odd": "longName: expected a string",
        "_test/where": "of_what: expected a string",
        "_test/loop": "maximum recursion",
        "_test/map": "b: expected a number",
        "_test/inside": "made a value that does not fit",
    }
    async with connected(app) as client:
        for method, reason in reasons.items():
            caplog.clear()
            with pytest.raises(WireError) as caught:
                await client.call(method, x=14)
            assert str(caught.value) == "-32603: internal error None", method
            assert reason in caplog.text


async def test_typed_notifications_run_and_those_that_do_not_fit_are_dropped_with_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """N1, W5"""
    app = agent(nothing)
    seen: list[Any] = []

    @app.on_ext_notification("_test/note")
    async def note(params: Point, session: AgentSession[Any] | None) -> None:
        seen.append((params, session and session.id))

    @app.on_ext_notification("_test/other", Where)
    async def other(params: Any) -> None:
        seen.append(params)

    async with connected(app) as client:
        session = await client.new_session()
        await client.notify("_test/note", x=1, sessionId=session)
        await client.notify("_test/note", x="no number")
        await client.notify("_test/other", of_what="it")
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(seen, key=str) == [(Point(1), session), {"of_what": "it"}]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "dropped a _test/note notification: _test/note params: x: expected an integer" in record.message


async def test_a_registry_serves_an_agent_as_it_serves_a_host() -> None:
    """N1"""
    extensions = Extensions()
    seen: list[Any] = []

    @extensions.method("_test/ask")
    async def ask(point: Point, session: AgentSession[Any] | None) -> Point:
        return Point(point.y, 0 if session is None else 1)

    @extensions.method("_test/tell", Point)
    async def tell(point: Point, session: AgentSession[Any] | None) -> None:
        seen.append((point, session and session.cwd))

    async def plain(params: dict[str, Any]) -> Any:
        return list(params)

    app = AgentApp("a", "1", extensions={**extensions, "_test/plain": plain})
    app.on_prompt(nothing)
    async with connected(app) as client:
        session = await client.new_session()
        with pytest.raises(WireError) as caught:
            await client.call("_test/ask", x="1")
        assert caught.value.code == -32602
        assert await client.call("_test/ask", x=1, y=2, sessionId=session) == {"x": 2, "y": 1}
        assert await client.call("_test/plain", b=1) == ["b"]
        await client.notify("_test/tell", x=3, sessionId=session)
        await trio.testing.wait_all_tasks_blocked()
        assert seen == [(Point(3), "/proj")]

    app = AgentApp("a", "1", extensions=extensions)
    app.on_prompt(nothing)
    app.on_ext_notification("_test/ask")(nothing)
    with pytest.raises(ValueError, match="two handlers for _test/ask"):
        await app.serve(trio.testing.memory_stream_pair()[0])


async def test_both_sides_call_each_other_with_objects() -> None:
    """N1, O6"""
    of_host, of_agent = Extensions(), Extensions()

    @of_host.method("_host/grow")
    async def grow(point: Point, session: SessionScope | None) -> Shape:
        return Shape([point, Point(point.x + 1)])

    @of_agent.method("_agent/grow")
    async def grown(named: Named) -> Where:
        return {"of_what": named.long_name}

    app = AgentApp("a", "1", extensions=of_agent)

    @app.on_prompt
    async def prompt(ctx: PromptContext) -> str:
        shape = await ctx.client.ext_request("_host/grow", Point(3), result=Shape)
        assert shape == Shape([Point(3), Point(4)])
        with pytest.raises(InvalidResponse, match=r"answer to _host/grow does not fit Point: x: required"):
            await ctx.client.ext_request("_host/grow", Point(3), result=Point)
        with pytest.raises(LocalProtocolError, match=r"object with fields, not list"):
            await ctx.client.ext_request("_host/grow", [5])  # type: ignore[call-overload]
        with pytest.raises(LocalProtocolError, match=r"cannot be sent: Shape: expected an integer"):
            await ctx.client.ext_notification("_host/grow", Shape([Point("5")]))  # type: ignore[arg-type]
        loop: list[Any] = []
        loop.append(loop)
        with pytest.raises(LocalProtocolError, match="cannot be sent: maximum recursion"):
            await ctx.client.ext_notification("_host/grow", {"points": loop})
        await ctx.client.ext_notification("_host/grow", shape)
        return "done"

    async with trio.open_nursery() as nursery:
        stream = app.connect_in_memory(nursery)
        host = await connect_acp(nursery, stream, AcpOptions(extensions=of_host))
        assert await host.generate("go") == "done"
        assert await host.request("_agent/grow", Named("n"), result=Where) == {"of_what": "n"}
        told: Where = {"of_what": "x"}
        await host.notify("_agent/grow", told)
        nursery.cancel_scope.cancel()


numbers = st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | st.text()
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)
points = st.builds(Point, st.integers(-9, 9), st.integers(-(2**63), 2**63))
shapes = st.builds(
    Shape,
    st.lists(points, max_size=3),
    st.sampled_from(Colour),
    st.dictionaries(st.text(), points, max_size=3),
    st.sampled_from(["thin", "thick"]),
    st.none() | st.builds(TextContent, st.text()),
)
wheres = st.fixed_dictionaries({"of_what": st.text()}, optional={"points": st.lists(points, max_size=2)})
named = st.builds(Named, st.text())


@given(
    cases=st.lists(
        st.tuples(st.just(Point), points)
        | st.tuples(st.just(Shape), shapes)
        | st.tuples(st.just(Where), wheres)
        | st.tuples(st.just(Named), named)
        | st.tuples(st.just(dict), st.dictionaries(st.text(), json_values, max_size=3)),
        min_size=1,
        max_size=5,
    )
)
def test_whatever_its_types_hold_comes_back_from_the_other_side(cases: list[tuple[Any, Any]]) -> None:
    """N1: out as parameters, back as a result, in both directions."""
    mirrors = Extensions()
    for kind in (Point, Shape, Where, Named, dict):

        @mirrors.method(f"_mirror/{kind.__name__}", kind, kind)
        async def mirror(params: Any, session: Any) -> Any:
            return params

    app = AgentApp("a", "1", extensions=mirrors)

    @app.on_prompt
    async def prompt(client: ConnectedClient) -> None:
        for kind, value in cases:
            answer: Any = await client.ext_request(f"_mirror/{kind.__name__}", value, result=kind)
            assert answer == value

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            stream = app.connect_in_memory(nursery)
            host = await connect_acp(nursery, stream, AcpOptions(extensions=mirrors))
            for kind, value in cases:
                answer: Any = await host.request(f"_mirror/{kind.__name__}", value, result=kind)
                assert answer == value
            await host.generate("now you")
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def test_null_is_a_good_answer_where_nothing_is_required() -> None:
    """W6"""

    @attrs.define
    class Nothing:
        there: bool = False

    async def prompt(client: ConnectedClient) -> str:
        answers = [
            await client.ext_request("_null", result=Nothing),
            await client.ext_request("_null"),
        ]
        with pytest.raises(InvalidResponse, match="_null does not fit Point: x: required field"):
            await client.ext_request("_null", result=Point)
        for kind, expected in ((dict, "an object"), (dict[str, int], "an object"), (list[Point], "an array")):
            with pytest.raises(InvalidResponse, match=f"expected {expected}, got null"):
                await client.ext_request("_null", result=kind)
        with pytest.raises(TypeError, match="complex cannot travel"):
            await client.ext_request("_null", result=complex)
        return repr([answers[0].there, answers[1]])

    async with connected(agent(prompt)) as client:
        client.on["_null"] = lambda params: None
        await client.prompt(await client.new_session())
        assert client.said() == "[False, None]"


class Callables:
    async def __call__(self, params: Point) -> int:
        return params.x

    async def method(self, params: Point) -> int:
        return params.y


async def test_every_kind_of_callable_may_say_what_it_takes() -> None:
    app = agent(nothing)

    async def evaluated(params: Any, method: Any) -> int:
        return int(params.x)

    # As in a module without postponed annotations.
    evaluated.__annotations__.update(params=Point, method=Any)
    app.on_ext_request("_test/evaluated")(evaluated)
    app.on_ext_request("_test/object")(Callables())
    app.on_ext_request("_test/method")(Callables().method)
    async with connected(app) as client:
        assert await client.call("_test/evaluated", x=1, y=2) == 1
        assert await client.call("_test/object", x=1, y=2) == 1
        assert await client.call("_test/method", x=1, y=2) == 2


def test_annotations_that_nobody_can_look_up_are_an_error_that_says_what_to_do() -> None:
    class Local:
        pass

    async def handler(params: Local) -> None: ...

    async def quoted(params: "Local") -> None: ...  # noqa: UP037 - quoted twice, as some write it

    for each in (handler, quoted):
        with pytest.raises(TypeError, match=r"'Local'.* means nothing in tests\.agent.*params="):
            AgentApp("a", "1").on_ext_request("_x")(each)
    with pytest.raises(TypeError, match="Local cannot travel"):
        AgentApp("a", "1").on_ext_request("_x", Local)
    with pytest.raises(TypeError, match="complex"):
        AgentApp("a", "1").on_ext_request("_x", result=list[complex])
    with pytest.raises(TypeError, match="means nothing in None"):
        AgentApp("a", "1").on_ext_request("_x")(partial(handler))
