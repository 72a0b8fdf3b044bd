"""The root of the error tree: errors that can be copied, pickled and shown to a peer."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

from trio_acp.schema import AcpError, NewSessionRequest, SchemaError, structure
from trio_acp.schema._errors import format_path


class WithKeywords(AcpError):
    def __init__(self, *, reason: str) -> None:
        super().__init__(f"because of {reason}")
        self.reason = reason


def through_pickle(error: AcpError) -> AcpError:
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, AcpError)
    return again


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, through_pickle])
def test_errors_survive_copying_and_pickling(duplicate: Callable[[AcpError], AcpError]) -> None:
    for error in (SchemaError(("a", 0), "bad", "x params"), SchemaError((), "bad"), WithKeywords(reason="r")):
        again = duplicate(error)
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)


def test_an_error_says_where_why_and_about_what() -> None:
    with pytest.raises(SchemaError) as caught:
        structure(NewSessionRequest, {"cwd": "/", "mcpServers": [{"name": 5}]})
    error = caught.value
    assert error.path == ("mcpServers", 0, "name")
    assert error.reason == "expected a string, got 5"
    assert error.subject == "session/new params"
    assert str(error) == "session/new params: mcpServers[0].name: expected a string, got 5"
    assert isinstance(error, AcpError)
    assert isinstance(error, ValueError)
    # Nothing of how the library found out belongs into the user's traceback.
    assert error.__suppress_context__


@pytest.mark.parametrize(
    ("path", "text"),
    [((), ""), (("a",), "a"), (("a", "b"), "a.b"), (("a", 1, "b"), "a[1].b"), ((0, 1), "[0][1]")],
)
def test_paths_read_as_people_write_them(path: tuple[str | int, ...], text: str) -> None:
    assert format_path(path) == text
