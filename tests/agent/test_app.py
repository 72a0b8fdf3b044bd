"""What is registered, and what clients see of it."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import trio
import trio.testing

from tests.agent.scripted import WireError, agent, connected, raw_client
from trio_acp import _errors as errors
from trio_acp.agent import AgentApp, AgentSession, ConnectedClient, MemorySessionStore, PromptContext
from trio_acp.schema import (
    AuthMethodAgent,
    AuthMethodTerminal,
    InitializeRequest,
    InitializeResponse,
    McpCapabilities,
    PromptCapabilities,
)


async def nothing() -> None:
    await trio.lowlevel.checkpoint()


# Registration ------------------------------------------------------------------------------------------


async def test_a_handler_takes_what_it_names_by_annotation_or_name_in_any_order() -> None:
    seen: dict[str, Any] = {}
    app = AgentApp("a", "1")

    @app.on_prompt
    async def prompt(
        text: str,
        conversation: AgentSession[int],
        c: ConnectedClient,
        context: Any,
        /,
        whatever: PromptContext | None,
        *,
        extra: int = 7,
        **rest: Any,
    ) -> None:
        seen.update(locals())

    async with connected(app) as client:
        await client.prompt(await client.new_session(), "hello")
    assert seen["text"] == "hello"
    assert isinstance(seen["conversation"], AgentSession)
    assert seen["c"] is seen["context"].client
    assert isinstance(seen["whatever"], PromptContext)
    assert (seen["extra"], seen["rest"]) == (7, {})


async def test_annotations_may_name_what_is_not_imported_at_run_time() -> None:
    async def prompt(a: Any, b: Any, c: Any) -> str:
        return f"{a.text} {b.id == a.session.id} {c is a}"

    prompt.__annotations__ = {
        "a": "agent.PromptContext",
        "b": "AgentSession[State]",
        "c": PromptContext | None,
    }
    async with connected(agent(prompt)) as client:
        await client.prompt(await client.new_session(), "hello")
        assert client.said() == "hello True True"


async def test_a_handler_without_annotations_goes_by_names() -> None:
    async def prompt(context, text):  # type: ignore[no-untyped-def]
        return context.text + text

    async with connected(agent(prompt)) as client:
        await client.prompt(await client.new_session(), "hello")
        assert client.said() == "hellohello"


async def test_an_option_of_the_authors_own_keeps_its_default_also_when_it_goes_by_position() -> None:
    async def prompt(mine: int = 3, ctx: Any = None, /) -> str:
        return f"{mine} {ctx.text}"

    async with connected(agent(prompt)) as client:
        await client.prompt(await client.new_session(), "hello")
        assert client.said() == "3 hello"


async def test_partials_and_callable_objects_are_handlers_too() -> None:
    class Command:
        async def __call__(self, arguments: str) -> str:
            return f"<{arguments}>"

    async def prompt(ctx: PromptContext, greeting: str) -> str:
        return greeting + ctx.text

    app = agent(functools.partial(prompt, greeting="hi "))
    app.command("say", "says it")(Command())
    async with connected(app) as client:
        session = await client.new_session()
        await client.prompt(session, "you")
        await client.prompt(session, "/say  two words ")
        assert client.said() == "hi you<two words>"


def sync_handler(ctx: PromptContext) -> None: ...


async def generator_handler(ctx: PromptContext) -> Any:  # noqa: ASYNC900 - what is to be refused
    yield ctx


async def greedy_handler(ctx: PromptContext, model: str) -> None: ...


async def star_handler(*args: Any) -> None: ...


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        (sync_handler, "not an async function; write it with 'async def'"),
        (generator_handler, "async generator"),
        (greedy_handler, r"parameter 'model' that cannot be filled; it may take client, context, ctx"),
        (star_handler, r"parameter '\*args'"),
    ],
)
def test_what_cannot_be_a_handler_is_refused_when_it_is_registered(handler: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        AgentApp("a", "1").on_prompt(handler)


def test_one_handler_for_each_method_extension_and_command() -> None:
    app = agent(nothing)
    with pytest.raises(ValueError, match="there is an on_prompt handler already"):
        app.on_prompt(nothing)
    app.on_ext_request("_x")(nothing)
    with pytest.raises(ValueError, match="handler for _x already"):
        app.on_ext_request("_x")
    app.on_ext_notification("_x")(nothing)
    app.command("x", "does x")(nothing)
    with pytest.raises(ValueError, match="command 'x' already"):
        app.command("x", "does x again")


@pytest.mark.parametrize("name", ["", "/x", "two words", " x", "x\n"])
def test_a_command_is_one_word_without_its_slash(name: str) -> None:
    with pytest.raises(ValueError, match="one word, without the slash"):
        AgentApp("a", "1").command(name, "?")


def test_an_extension_is_warned_of_without_its_underscore_and_refused_with_a_name_of_the_protocol() -> None:
    """N1: as at the host, for names travel unchanged."""
    app = AgentApp("a", "1")
    for register in (app.on_ext_request, app.on_ext_notification):
        with pytest.warns(UserWarning, match="underscore") as warned:
            register("x")(nothing)
        assert warned[0].filename == __file__
        with pytest.raises(ValueError, match="left to the protocol"):
            register("session/prompt")
    with pytest.warns(UserWarning, match="underscore"):
        AgentApp("a", "1", extensions={"x": handler_of_mappings})
    with pytest.raises(ValueError, match="left to the protocol"):
        AgentApp("a", "1", extensions={"$/x": handler_of_mappings})


async def handler_of_mappings(params: dict[str, Any]) -> Any:
    raise AssertionError


@pytest.mark.parametrize(
    "options",
    [
        {"overlapping_prompts": "drop"},
        {"cancel_grace": -1},
        {"cancel_grace": float("nan")},
        {"max_message_bytes": 0},
        {"auth_methods": [AuthMethodAgent("x", "X"), AuthMethodAgent("x", "Y")]},
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"overlapping|cancel_grace|max_message|same id"):
        AgentApp("a", "1", **options)


async def test_an_app_that_is_not_whole_does_not_serve() -> None:
    stream: Any = None
    with pytest.raises(ValueError, match="needs an on_prompt handler"):
        await AgentApp("a", "1").serve(stream)
    with pytest.raises(ValueError, match="need an on_authenticate handler"):
        await agent(nothing, auth_methods=[AuthMethodAgent("x", "X")]).serve_stdio()
    app = agent(nothing)
    app.on_authenticate(nothing)
    with pytest.raises(ValueError, match="needs auth_methods"):
        await app.serve(stream)


async def test_nothing_can_be_registered_once_the_app_serves() -> None:
    app = agent(nothing)
    async with connected(app):
        with pytest.raises(RuntimeError, match="register handlers before"):
            app.on_logout(nothing)
        with pytest.raises(RuntimeError, match="register handlers before"):
            app.on_ext_request("_x")(nothing)
        with pytest.raises(RuntimeError, match="register handlers before"):
            app.command("x", "?")(nothing)
    assert repr(app) == "<AgentApp test-agent 1.0>"


async def test_the_methods_of_an_object_are_handlers() -> None:
    class Agent:
        def __init__(self) -> None:
            self.sessions = 0

        async def on_new_session(self, session: AgentSession[int]) -> None:
            self.sessions += 1
            session.state = self.sessions

        async def on_prompt(self, ctx: PromptContext) -> str:
            return f"session {ctx.session.state}, {self.helper()}"

        def helper(self) -> str:
            return "helped"

    async with connected(AgentApp.from_object(Agent(), "a", "1", "A title")) as client:
        await client.new_session()
        await client.prompt(await client.new_session())
        assert client.said() == "session 2, helped"


def test_an_unknown_handler_name_fails_when_the_app_is_made() -> None:
    class Typo:
        async def on_promt(self) -> None: ...

    class Other:
        async def on_fire(self) -> None: ...

    with pytest.raises(
        TypeError, match=r"Typo\.on_promt is the name of no handler; did you mean on_prompt\?"
    ):
        AgentApp.from_object(Typo(), "a", "1")
    with pytest.raises(TypeError, match=r"Other\.on_fire is the name of no handler$"):
        AgentApp.from_object(Other(), "a", "1")


# Initialize --------------------------------------------------------------------------------------------


async def test_an_app_with_a_prompt_handler_only_advertises_nothing() -> None:
    """I5"""
    async with raw_client(agent(nothing, title="T")) as client:
        assert await client.initialize() == {
            "protocolVersion": 1,
            "agentCapabilities": {},
            "authMethods": [],
            "agentInfo": {"name": "test-agent", "version": "1.0", "title": "T"},
        }


ADVERTISED = [
    ("on_load_session", "session/load", {"loadSession": True}),
    ("on_resume_session", "session/resume", {"sessionCapabilities": {"resume": {}}}),
    ("on_list_sessions", "session/list", {"sessionCapabilities": {"list": {}}}),
    ("on_close_session", "session/close", {"sessionCapabilities": {"close": {}}}),
    ("on_delete_session", "session/delete", {"sessionCapabilities": {"delete": {}}}),
    ("on_logout", "logout", {"auth": {"logout": {}}}),
]


@pytest.mark.parametrize(("handler", "method", "capabilities"), ADVERTISED)
async def test_a_handler_is_advertised_and_what_is_not_advertised_is_not_accepted(
    handler: str, method: str, capabilities: dict[str, Any]
) -> None:
    """I3, I5"""
    app = agent(nothing)
    getattr(app, handler)(nothing)
    async with raw_client(app) as client:
        assert (await client.initialize())["agentCapabilities"] == capabilities
    async with connected(agent(nothing)) as client:
        with pytest.raises(WireError) as caught:
            await client.call(method, sessionId="x", cwd="/", mcpServers=[])
        assert caught.value.code == -32601


@pytest.mark.parametrize("method", ["authenticate", "session/nonsense", "nonsense", "_x", "$/x"])
async def test_methods_without_a_handler_are_not_found(method: str) -> None:
    """W4, N1"""
    async with connected(agent(nothing)) as client:
        with pytest.raises(WireError) as caught:
            await client.call(method, methodId="x")
        assert caught.value.code == -32601
        assert method in caught.value.message


async def test_a_store_makes_all_of_the_session_methods_advertised() -> None:
    """I5"""
    app = agent(
        nothing,
        store=MemorySessionStore(),
        additional_directories=True,
        prompt_capabilities=PromptCapabilities(image=True, embedded_context=True),
        mcp_capabilities=McpCapabilities(http=True),
    )
    async with raw_client(app) as client:
        assert (await client.initialize())["agentCapabilities"] == {
            "loadSession": True,
            "promptCapabilities": {"image": True, "embeddedContext": True},
            "mcpCapabilities": {"http": True},
            "sessionCapabilities": {
                "list": {},
                "delete": {},
                "resume": {},
                "close": {},
                "additionalDirectories": {},
            },
        }


async def test_the_version_that_is_spoken_is_answered_whatever_was_asked_for() -> None:
    """I2"""
    async with raw_client(agent(nothing)) as client:
        result = await client.call("initialize", protocolVersion=7)
        assert result["protocolVersion"] == 1


async def test_requests_before_initialize_and_a_second_initialize_are_invalid() -> None:
    """I4"""
    async with raw_client(agent(nothing)) as client:
        with pytest.raises(WireError) as caught:
            await client.new_session()
        assert caught.value.code == -32600
        with pytest.raises(WireError) as caught:
            await client.call("initialize")
        assert caught.value.code == -32602
        assert "protocolVersion" in caught.value.message
        await client.notify("_x")
        await client.initialize()
        with pytest.raises(WireError) as caught:
            await client.initialize()
        assert caught.value.code == -32600
        await client.new_session()


async def test_an_initialize_handler_sees_the_client_and_may_change_the_answer() -> None:
    """I2"""
    app = agent(nothing)

    @app.on_initialize
    async def hello(
        client: ConnectedClient, request: InitializeRequest, response: InitializeResponse
    ) -> None:
        assert client.info is not None
        assert client.protocol_version == 1
        assert client.capabilities is request.client_capabilities
        response.meta = {"for": client.info.name}

    async with raw_client(app) as client:
        assert (await client.initialize())["_meta"] == {"for": "scripted"}
        await client.new_session()


async def test_an_initialize_handler_may_return_another_answer_or_refuse() -> None:
    answers: list[Any] = [errors.RequestError(-1, "not you"), 5, InitializeResponse(1, meta={"x": 1})]
    app = agent(nothing)

    @app.on_initialize
    async def hello() -> Any:
        await trio.lowlevel.checkpoint()
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with raw_client(app) as client:
        with pytest.raises(WireError, match="not you"):
            await client.initialize()
        with pytest.raises(WireError) as caught:
            await client.initialize()
        assert (caught.value.code, caught.value.message) == (-32603, "internal error")
        assert (await client.initialize())["_meta"] == {"x": 1}
        assert await client.new_session()


async def test_nothing_is_served_while_an_initialize_handler_runs() -> None:
    """I4"""
    app = agent(nothing)
    go = trio.Event()

    @app.on_initialize
    async def hello() -> None:
        await go.wait()

    async with raw_client(app) as client:
        id = await client.start("initialize", protocolVersion=1)
        with pytest.raises(WireError, match="initialize first"):
            await client.new_session()
        with pytest.raises(WireError, match="initialized already"):
            await client.initialize()
        go.set()
        await client.answer(id)
        await client.new_session()


# Authentication ----------------------------------------------------------------------------------------

METHODS = [
    AuthMethodAgent("key", "An API key"),
    AuthMethodTerminal("login", "Log in", args=["--login"]),
]


@pytest.mark.parametrize("terminal", [True, False])
async def test_terminal_logins_are_offered_only_to_clients_with_a_terminal(terminal: bool) -> None:
    """U2"""
    app = agent(nothing, auth_methods=METHODS)
    app.on_authenticate(nothing)
    async with raw_client(app) as client:
        methods = (await client.initialize({"auth": {"terminal": terminal}}))["authMethods"]
        assert [method["id"] for method in methods] == (["key", "login"] if terminal else ["key"])
        assert "type" not in methods[0]


async def test_authenticate_takes_ids_of_the_agents_own_methods_only() -> None:
    """U1"""
    seen: list[str] = []
    app = agent(nothing, auth_methods=METHODS)

    @app.on_authenticate
    async def authenticate(method_id: str) -> None:
        seen.append(method_id)

    @app.on_logout
    async def logout(client: ConnectedClient) -> None:
        seen.append("out")

    async with connected(app) as client:
        for method_id in ("login", "other"):
            with pytest.raises(WireError) as caught:
                await client.call("authenticate", methodId=method_id)
            assert caught.value.code == -32602
            assert "methodId" in caught.value.message
        assert await client.call("authenticate", methodId="key") == {}
        assert await client.call("logout") == {}
    assert seen == ["key", "out"]


async def test_auth_required_is_told_as_such_and_a_later_session_works() -> None:
    """U3"""
    app = agent(nothing, auth_methods=METHODS)
    logged_in: list[str] = []

    @app.on_authenticate
    async def authenticate(method_id: str) -> None:
        logged_in.append(method_id)

    @app.on_new_session
    async def new() -> None:
        if not logged_in:
            raise errors.AuthRequired("log in first")

    async with connected(app) as client:
        with pytest.raises(WireError) as caught:
            await client.new_session()
        assert caught.value.code == -32000
        await client.call("authenticate", methodId="key")
        assert await client.new_session()


# Extensions (N1) ---------------------------------------------------------------------------------------


async def test_extension_requests_get_their_parameters_and_the_session_they_name() -> None:
    """N1"""
    app = agent(nothing)

    @app.on_ext_request("_test/where")
    async def where(session: AgentSession[Any] | None, params: dict[str, Any], method: str) -> Any:
        return [method, session and session.cwd, params.get("x")]

    @app.on_ext_request("_test/null")
    async def null() -> None: ...

    async with connected(app) as client:
        session = await client.new_session()
        assert await client.call("_test/where", sessionId=session, x=1) == ["_test/where", "/proj", 1]
        assert await client.call("_test/where", sessionId="other") == ["_test/where", None, None]
        assert await client.call("_test/where", sessionId=5) == ["_test/where", None, None]
        assert await client.call("_test/null") is None


async def test_extension_notifications_run_and_their_failures_are_nobodys_answer() -> None:
    """N1, W5"""
    app = agent(nothing)
    seen: list[Any] = []

    @app.on_ext_notification("_test/note")
    async def note(session: AgentSession[Any] | None, params: dict[str, Any]) -> None:
        seen.append((session and session.cwd, params.get("x")))
        raise ValueError("not for the client")

    async with connected(app) as client:
        session = await client.new_session()
        before = len(client.log)
        await client.notify("_test/note", sessionId=session, x=1)
        await client.notify("_test/note", sessionId=3, x=2)
        await client.notify("_test/unknown")
        await client.notify("$/unknown")
        await client.notify("session/cancel", sessionId=5)
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(seen, key=str) == [("/proj", 1), (None, 2)]
        assert len(client.log) == before


async def test_extension_notifications_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trio_acp.agent._methods.MAX_NOTIFICATION_TASKS", 2)
    app = agent(nothing)
    go = trio.Event()
    seen: list[int] = []

    @app.on_ext_notification("_n")
    async def note(params: dict[str, Any]) -> None:
        seen.append(params["x"])
        await go.wait()

    async with connected(app) as client:
        for number in range(4):
            await client.notify("_n", x=number)
        await trio.testing.wait_all_tasks_blocked()
        assert seen == [0, 1]
        go.set()
        await trio.testing.wait_all_tasks_blocked()
        await client.notify("_n", x=4)
        await trio.testing.wait_all_tasks_blocked()
        assert seen == [0, 1, 4]


async def test_an_agent_calls_extensions_of_its_client() -> None:
    """N1"""

    async def prompt(client: ConnectedClient) -> str:
        for name in ("session/update", ""):
            with pytest.raises(errors.LocalProtocolError, match="underscore"):
                await client.ext_request(name)
            with pytest.raises(errors.LocalProtocolError, match="underscore"):
                await client.ext_notification(name)
        with pytest.warns(UserWarning, match="underscore") as told:
            await client.ext_notification("test/told")
        with pytest.warns(UserWarning, match="underscore") as asked:
            assert await client.ext_request("test/asked") == "anything"
        assert {each.filename for each in [*told, *asked]} == {__file__}
        await client.ext_notification("_test/told", {"a": 1})
        return str(await client.ext_request("_test/asked", {"b": 2}))

    async with connected(agent(prompt)) as client:
        client.on["test/asked"] = lambda params: "anything"
        client.on["_test/asked"] = lambda params: [params]
        await client.prompt(await client.new_session())
        assert client.params("_test/told") == [{"a": 1}]
        assert client.said() == "[{'b': 2}]"
