"""Every public name is explained, with all of its parameters."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import itertools
import pathlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

import trio_acp
import trio_acp.agent
from trio_acp.schema import WireObject

MODULES = [
    "trio_acp",
    "trio_acp.client",
    "trio_acp.agent",
    "trio_acp.model",
    "trio_acp.schema",
    "trio_acp.testing",
    "trio_acp.testing.conformance",
    "trio_acp.testing.strategies",
    "trio_acp.transports",
    "trio_acp.workspace",
]

SELF_EXPLAINING = {"self", "cls", "exc_type", "exc", "traceback", "task_status"}
"""Parameters that mean the same everywhere in Trio and Python."""


def public_names() -> list[tuple[str, str]]:
    return [(module, name) for module in MODULES for name in importlib.import_module(module).__all__]


def documented_constants() -> set[str]:
    """Names that are assigned in a module and have a docstring below."""
    names = set[str]()
    for info in pkgutil.walk_packages(trio_acp.__path__, "trio_acp."):
        if info.name.endswith("__main__"):
            continue
        spec = importlib.util.find_spec(info.name)
        assert spec is not None
        assert spec.origin is not None
        body = ast.parse(pathlib.Path(spec.origin).read_text(encoding="utf-8")).body
        for statement, below in itertools.pairwise(body):
            if not (isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)):
                continue
            targets = (
                [statement.target]
                if isinstance(statement, ast.AnnAssign)
                else statement.targets
                if isinstance(statement, ast.Assign)
                else []
            )
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


CONSTANTS = documented_constants()


@pytest.mark.parametrize(("module", "name"), public_names())
def test_a_public_name_is_explained(module: str, name: str) -> None:
    thing = getattr(importlib.import_module(module), name)
    if name == "__version__":
        return
    if inspect.isclass(thing) or inspect.isfunction(thing):
        if inspect.isclass(thing) and thing.__name__ != name:
            assert name in CONSTANTS
        else:
            assert "__doc__" in vars(thing) or inspect.isfunction(thing)
            assert (thing.__doc__ or "").strip(), f"{module}.{name} has no docstring"
    else:
        assert name in CONSTANTS, f"{module}.{name} has no docstring below its assignment"


def members_of(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """Public members that are written in this library, those of private bases included."""
    for name, member in inspect.getmembers_static(kind):
        if name.startswith("_"):
            continue
        owner = next(base for base in kind.__mro__ if name in vars(base))
        if owner.__module__.startswith("trio_acp"):
            yield name, member


def callables() -> list[tuple[str, Any, str]]:
    """Public functions and methods, each with the text in which its parameters have to be explained."""
    found: dict[str, tuple[str, Any, str]] = {}
    for module, name in public_names():
        thing = getattr(importlib.import_module(module), name)
        if inspect.isfunction(thing):
            found[thing.__qualname__] = (thing.__qualname__, thing, thing.__doc__ or "")
        elif inspect.isclass(thing) and thing.__module__.startswith("trio_acp"):
            for method, member in members_of(thing):
                function = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
                if inspect.isfunction(function):
                    where = f"{thing.__name__}.{method}"
                    found[where] = (where, function, function.__doc__ or "")
            constructor = vars(thing).get("__init__")
            text = f"{thing.__doc__}{getattr(constructor, '__doc__', '')}"
            if attrs.has(thing) and not issubclass(thing, WireObject):
                found[thing.__name__] = (thing.__name__, thing, text)
            elif constructor is not None and not attrs.has(thing) and is_constructed_by_users(thing, text):
                found[thing.__name__] = (thing.__name__, constructor, text)
    return list(found.values())


def is_constructed_by_users(kind: type[Any], text: str) -> bool:
    """Exceptions are made by the library, as a rule; so are classes that say who makes them."""
    made_here = issubclass(kind, BaseException) or kind in MADE_HERE or getattr(kind, "_is_protocol", False)
    return "Args:" in text or not ("made by" in text or made_here)


MADE_HERE = {
    trio_acp.client.ConnectedAgent,
    trio_acp.client.OpenAcp,
    trio_acp.client.Message,
    trio_acp.client.UpdateStream,
    trio_acp.agent.AgentSession,
    trio_acp.agent.ConnectedClient,
    trio_acp.agent.PromptContext,
    trio_acp.agent.TerminalHandle,
    trio_acp.agent.TerminalOutputStream,
    trio_acp.transports.MemoryStream,
    trio_acp.transports.StreamPair,
}


@pytest.mark.parametrize(("name", "function", "text"), callables(), ids=[entry[0] for entry in callables()])
def test_the_parameters_of_a_public_callable_are_explained(name: str, function: Any, text: str) -> None:
    parameters = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name not in SELF_EXPLAINING and not parameter.name.startswith("_")
    ]
    assert text.strip(), f"{name} has no docstring"
    if len(parameters) >= 2 and "The arguments and errors are those of" not in text and "see `" not in text:
        missing = [each for each in parameters if not re.search(rf"^\s*{each}: ", text, re.MULTILINE)]
        assert missing == [], f"{name} does not explain these parameters"


@pytest.mark.parametrize(("module", "name"), public_names())
def test_the_public_members_of_a_class_are_explained(module: str, name: str) -> None:
    kind = getattr(importlib.import_module(module), name)
    if not inspect.isclass(kind) or issubclass(kind, WireObject):
        return
    bare = [
        member_name
        for member_name, member in members_of(kind)
        if (isinstance(member, property) or inspect.isfunction(member)) and not (member.__doc__ or "").strip()
    ]
    assert bare == []
