"""Tools of the host for a model: async functions, and the JSON schema of what they take."""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, TypeGuard, cast, overload

import attrs

from trio_acp import AcpError

__all__ = ["Tool", "ToolError", "ToolFunction", "problem_with", "tool"]

ToolFunction: TypeAlias = Callable[..., Awaitable[Any]]
"""An async function; what it returns is given to the model: a text, or JSON values."""

_SIMPLE: Final[dict[Any, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    list: "array",
    dict: "object",
}


class ToolError(AcpError):
    """A tool raises this to tell the model that the call failed, and why: the model goes on with it.

    Every other exception of a tool leaves `InProcessClient.run` as itself.
    """


def _check_async(tool: Tool, attribute: attrs.Attribute[Any], value: object) -> None:
    if not (inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(_call_of(value))):
        raise TypeError(
            f"the tool {tool.name!r} must be an async function; "
            "wrap a blocking one with trio.to_thread.run_sync"
        )


def _call_of(value: object) -> object:
    return getattr(value, "__call__", None)  # noqa: B004 - it is the method that may be async


@attrs.frozen
class Tool:
    """A tool of the host. `tool` makes one of an async function.

    Attributes:
        name: what the model calls it.
        description: what the model is told about it.
        parameters: the JSON schema of its arguments, an object's.
        function: the async function; it is called with the arguments by name.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    function: ToolFunction = attrs.field(validator=_check_async)

    def arguments(self, given: object) -> dict[str, Any]:
        """Return a call's arguments, checked.

        Args:
            given: an object, or one as JSON text.

        Raises:
            ToolError: they do not fit ``parameters``.
        """
        value = given
        if isinstance(value, str):
            try:
                value = json.loads(value or "{}")
            except ValueError as error:
                raise ToolError(f"the arguments are no JSON: {error}") from None
        problem = problem_with({**self.parameters, "type": "object"}, value)
        if problem is not None:
            raise ToolError(f"the arguments do not fit: {problem}")
        return cast("dict[str, Any]", value)


@overload
def tool(
    function: ToolFunction,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: dict[str, Any] | None = None,
) -> Tool: ...


@overload
def tool(
    *, name: str | None = None, description: str | None = None, parameters: dict[str, Any] | None = None
) -> Callable[[ToolFunction], Tool]: ...


def tool(
    function: ToolFunction | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: dict[str, Any] | None = None,
) -> Tool | Callable[[ToolFunction], Tool]:
    """Make a tool of an async function; a decorator, with or without arguments.

    The schema is derived from the signature: ``str``, ``int``, ``float``, ``bool``, ``None``, ``Any``,
    ``Literal``, unions, ``list``, ``dict`` with text keys, ``TypedDict``. ``Annotated[T, "text"]`` describes
    a parameter. Parameters with a default need not be given.

    Args:
        function: the function.
        name: by default the function's name.
        description: by default the first paragraph of its docstring.
        parameters: the JSON schema of its arguments, instead of one derived from the signature.

    Raises:
        TypeError: it is not async, or its signature cannot be written as a schema.
    """
    if function is None:
        return lambda function: tool(function, name=name, description=description, parameters=parameters)
    called: str = getattr(function, "__name__", type(function).__name__) if name is None else name
    if description is None:
        description = " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())
    schema = _parameters(called, function) if parameters is None else parameters
    return Tool(called, description, schema, function)


def _parameters(name: str, function: ToolFunction) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required: list[str] = []
    hints = typing.get_type_hints(
        function if inspect.isroutine(function) else _call_of(function), include_extras=True
    )
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(
                f"the tool {name!r} has the parameter {parameter}, which has no schema; give parameters=..."
            )
        properties[parameter.name] = _schema(hints.get(parameter.name, Any), f"{name}({parameter.name})")
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _schema(hint: Any, where: str) -> dict[str, Any]:
    if hint is Any or hint is object:
        return {}
    if hint in _SIMPLE:
        return {"type": _SIMPLE[hint]}
    if typing.is_typeddict(hint):
        return _schema_of_typed_dict(hint, where)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        schema = _schema(args[0], where)
        texts = [extra for extra in args[1:] if isinstance(extra, str)]
        return {**schema, "description": texts[0]} if texts else schema
    if origin is Literal:
        return {"enum": list(args)}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_schema(arg, where) for arg in args]}
    if origin in (list, Sequence):
        return {"type": "array", "items": _schema(args[0], where)}
    if origin in (dict, Mapping) and args[0] is str:
        return {"type": "object", "additionalProperties": _schema(args[1], where)}
    raise TypeError(f"{where}: {hint!r} has no JSON schema here; give the tool's parameters=...")


def _schema_of_typed_dict(hint: Any, where: str) -> dict[str, Any]:
    hints = typing.get_type_hints(hint, include_extras=True)
    required: list[str] = []
    properties: dict[str, Any] = {}
    for key, inner in hints.items():
        origin = typing.get_origin(inner)
        marked = origin in (typing.Required, typing.NotRequired)
        # The class itself cannot tell where annotations are texts.
        if origin is typing.Required or (not marked and key in hint.__required_keys__):
            required.append(key)
        properties[key] = _schema(typing.get_args(inner)[0] if marked else inner, f"{where}.{key}")
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


# Checking ---------------------------------------------------------------------------------------------

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}


def problem_with(schema: Mapping[str, Any], value: Any, where: str = "arguments") -> str | None:
    """Return what is wrong with a JSON value, None if nothing is; keywords that are unknown here are ignored.

    Args:
        schema: a JSON schema.
        value: the value.
        where: what to call the value.
    """
    if "enum" in schema and value not in schema["enum"]:
        return f"{where} must be one of {schema['enum']}, not {value!r:.60}"
    if "anyOf" in schema:
        problems = [problem_with(inner, value, where) for inner in schema["anyOf"]]
        if None not in problems:
            return "; or ".join(problem for problem in problems if problem is not None)
    kinds = schema.get("type")
    names: list[str] = [] if kinds is None else [kinds] if isinstance(kinds, str) else list(kinds)
    if names and not any(_is(name, value) for name in names):
        return f"{where} must be of type {' or '.join(names)}, not {value!r:.60}"
    if _is_object(value):
        return _problem_inside(schema, value, where)
    rule = schema.get("items")
    if isinstance(value, list) and _is_object(rule):
        checked = (problem_with(rule, item, f"{where}[{n}]") for n, item in enumerate(_items(value)))
        return next((problem for problem in checked if problem is not None), None)
    return None


def _is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _items(value: Any) -> list[Any]:
    items: list[Any] = value
    return items


def _is(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES.get(name, (object,)))


def _problem_inside(schema: Mapping[str, Any], value: dict[str, Any], where: str) -> str | None:
    properties: dict[str, Any] = schema.get("properties") or {}
    missing = [key for key in schema.get("required") or () if key not in value]
    if missing:
        return f"{where} lacks {', '.join(missing)}"
    others: Any = schema.get("additionalProperties")
    for key, inner in value.items():
        rule = properties.get(key, others)
        if rule is False:
            return f"{where} has no {key!r}; it has {', '.join(properties) or 'nothing'}"
        if _is_object(rule):
            problem = problem_with(rule, inner, f"{where}.{key}")
            if problem is not None:
                return problem
    return None
