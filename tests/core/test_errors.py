"""The error tree: every error copies and pickles, and says what to do."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import sys
import traceback
from typing import Any

import pytest
import trio

import trio_acp._errors as tree
from trio_acp._core import _errors as core_errors
from trio_acp._core import decode
from trio_acp._errors import (
    AcpError,
    AgentExited,
    AgentStartError,
    AuthenticationFailed,
    AuthRequired,
    CapabilityError,
    ConnectionClosed,
    ConnectionLost,
    InternalError,
    InvalidParams,
    InvalidRequest,
    InvalidResponse,
    LocalProtocolError,
    MessageTooLarge,
    MethodNotFound,
    ParseError,
    PermissionTimeout,
    ProtocolError,
    RemoteProtocolError,
    RequestCancelled,
    RequestError,
    ResourceNotFound,
    SchemaError,
    SessionBusy,
    SlowConsumer,
    TurnCancelled,
    UnsupportedProtocolVersion,
)

# One of each, and a word of its text that tells what happened or what to do about it.
EXAMPLES: list[tuple[AcpError, str]] = [
    (AcpError("something"), "something"),
    (AgentExited("the agent exited", returncode=-9, phase="running", stderr="boom\n"), "boom"),
    (
        AgentStartError(
            "cannot start", phase="spawn", reason="not-found", command=("x", "y"), returncode=1, stderr="why"
        ),
        "why",
    ),
    (AuthenticationFailed("key", 3), "ended with status 3"),
    (AuthRequired("log in first", {"methods": ["a"]}), "log in first"),
    (CapabilityError("loadSession"), "check its capabilities"),
    (CapabilityError("loadSession", "own words"), "own words"),
    (ConnectionClosed("closed; open a new one"), "open a new one"),
    (ConnectionLost("lost; open a new one"), "open a new one"),
    (InternalError("internal error"), "-32603"),
    (InvalidParams("cwd: expected a string"), "cwd"),
    (InvalidRequest("no"), "-32600"),
    (InvalidResponse("the answer has neither"), "neither"),
    (LocalProtocolError("do not"), "do not"),
    (MessageTooLarge(1000), "raise max_message_bytes"),
    (MethodNotFound("x/y"), "-32601"),
    (ParseError("not JSON"), "-32700"),
    (PermissionTimeout("Delete it", 30.0), "permission_timeout"),
    (PermissionTimeout(None, 0.5), "0.5 s"),
    (ProtocolError("rule"), "rule"),
    (RemoteProtocolError("they did"), "they did"),
    (RequestCancelled("cancelled"), "-32800"),
    (RequestError(-1, "odd", [1]), "code -1"),
    (ResourceNotFound("no such file"), "-32002"),
    (SchemaError(("options", 2, "kind"), "expected a string, got 5", "x params"), "options[2].kind"),
    (SessionBusy("s1"), "wait for its end"),
    (SessionBusy("s1", "own words"), "own words"),
    (SlowConsumer("s1", items=3, size=99), "iterate the turn faster"),
    (TurnCancelled("half a rep"), "the session can go on"),
    (UnsupportedProtocolVersion(offered=1, answered=7), "version 7"),
]
IDS = [type(error).__name__ for error, _ in EXAMPLES]


def test_there_is_an_example_of_every_public_error() -> None:
    public = {getattr(tree, name) for name in tree.__all__}
    assert {type(error) for error, _ in EXAMPLES} == public
    assert {name for name, value in vars(tree).items() if inspect.isclass(value)} == set(tree.__all__)
    assert set(core_errors.__all__) <= set(tree.__all__)


@pytest.mark.parametrize(("error", "text"), EXAMPLES, ids=IDS)
def test_the_message_says_what_happened_and_what_to_do(error: AcpError, text: str) -> None:
    assert text in str(error)


@pytest.mark.parametrize("error", [error for error, _ in EXAMPLES], ids=IDS)
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_every_error_copies_and_pickles(error: AcpError, again: Any) -> None:
    error.add_note("a note")
    twin = again(error)
    assert type(twin) is type(error)
    assert twin is not error
    assert str(twin) == str(error)
    assert twin.args == error.args
    assert vars(twin) == vars(error)


def test_the_tree_uses_trios_words() -> None:
    assert issubclass(ConnectionClosed, trio.ClosedResourceError)
    assert issubclass(ConnectionLost, trio.BrokenResourceError)
    assert issubclass(AgentExited, ConnectionLost)
    assert not issubclass(ConnectionLost, trio.ClosedResourceError)
    for local in (CapabilityError, SessionBusy):
        assert issubclass(local, LocalProtocolError)
    for remote in (InvalidResponse, MessageTooLarge):
        assert issubclass(remote, RemoteProtocolError)


def test_an_errors_text_quotes_the_end_of_stderr_and_keeps_all_of_it() -> None:
    error = AgentExited("gone", returncode=1, phase="running", stderr="a" * 5000 + "the end\n")
    assert str(error).endswith("the end")
    assert len(str(error)) < 2200
    assert len(error.stderr) > 5000
    assert str(AgentExited("gone", returncode=1, phase="running", stderr=" \n")) == "gone"


NAMED = {
    -32700: ParseError,
    -32600: InvalidRequest,
    -32601: MethodNotFound,
    -32602: InvalidParams,
    -32603: InternalError,
    -32800: RequestCancelled,
    -32000: AuthRequired,
    -32002: ResourceNotFound,
}


@pytest.mark.parametrize("code", NAMED)
def test_w10_a_code_with_a_name_has_a_class(code: int) -> None:
    error = RequestError.from_wire(code, "text", {"k": [1]})
    assert type(error) is NAMED[code]
    assert error.to_wire() == {"code": code, "message": "text", "data": {"k": [1]}}
    assert type(error.to_wire()["code"]) is int


@pytest.mark.parametrize("code", [0, 1, -1, -32001, -32099, 2**63 - 1, 2**64 - 1, -(2**63)])
def test_w10_other_codes_are_kept(code: int) -> None:
    error = RequestError.from_wire(code, "text")
    assert type(error) is RequestError
    assert error.code == code
    assert error.to_wire() == {"code": code, "message": "text"}


@pytest.mark.parametrize("code", [1.5, "1", None, 2**64, -(2**63) - 1])
def test_w10_what_cannot_be_a_code_is_refused_where_it_is_written(code: Any) -> None:
    with pytest.raises(ValueError, match="integer"):
        RequestError(code, "text")


def test_a_subclass_of_a_named_error_does_not_take_its_code_over() -> None:
    class NeedsKey(AuthRequired):
        pass

    assert type(RequestError.from_wire(-32000, "text")) is AuthRequired
    assert NeedsKey("text").code == -32000


def test_hostile_data_of_an_error_answer_can_be_shown() -> None:
    data = decode(b"[" * 1000 + b"]" * 1000)
    assert len(str(RequestError(-1, "m", data))) < 400
    assert "'a': 1" in str(RequestError(-1, "m", {"a": 1}))


def _subclasses(cls: type[AcpError]) -> list[type[AcpError]]:
    return [cls, *(deeper for sub in cls.__subclasses__() for deeper in _subclasses(sub))]


def test_a_traceback_names_an_error_as_an_application_imports_it() -> None:
    """Pickles do too, so that they outlive a private module."""
    for package in ("trio_acp.agent", "trio_acp.model"):
        importlib.import_module(package)
    ours = [cls for cls in _subclasses(AcpError) if cls.__module__.startswith("trio_acp")]
    homeless = [cls for cls in ours if getattr(sys.modules[cls.__module__], cls.__name__, None) is not cls]
    assert homeless == [core_errors.NamedRequestError]  # the root of others: nobody raises it
    assert traceback.format_exception_only(CapabilityError("x", "y")) == ["trio_acp.CapabilityError: y\n"]


def test_an_error_of_an_application_keeps_its_own_module() -> None:
    class Ours(AcpError):
        pass

    assert Ours.__module__ == __name__
