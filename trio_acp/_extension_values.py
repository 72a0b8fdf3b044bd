"""How the values of extension methods travel: as classes of the caller's own, read strictly (N1, W4).

Classes made by attrs or `dataclasses` have camel case names on the wire, as the protocol's own have; the keys
of a `typing.TypedDict` travel as they are written.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from functools import cache, partial
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    NoReturn,
    NotRequired,
    Protocol,
    Required,
    TypeAlias,
    TypedDict,
    cast,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import attrs

from trio_acp._errors import InvalidResponse, LocalProtocolError, SchemaError
from trio_acp.schema import UnknownVariant, WireObject, camel_case, get_converter, structure, unstructure

if TYPE_CHECKING:
    from cattrs import Converter

__all__ = [
    "ExtensionParams",
    "annotated_type",
    "check_type",
    "decode",
    "decode_result",
    "encode",
    "encode_params",
    "encode_result",
]


class _Dataclass(Protocol):
    """An instance of a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


ExtensionParams: TypeAlias = Mapping[str, Any] | WireObject | attrs.AttrsInstance | _Dataclass | None
"""The parameters of a call of an extension method: a mapping, or an object of a class that is derived from
`WireObject`, or made by attrs or `dataclasses`; None for no parameters (N1)."""

MAX_REASON: Final = 200
"""Characters of what a class or cattrs says of a value: it may repeat the whole of it."""

PLAIN: Final = ("dict", "Mapping", "MutableMapping", "Any", "object")
"""Names of the types that mean JSON as it came."""


def decode(kind: Any, raw: Any, subject: str) -> Any:
    """Make a value of a type out of JSON.

    Args:
        kind: the type; None for the JSON itself.
        raw: the JSON value.
        subject: what it is, for the error.

    Raises:
        SchemaError: it does not fit.
        Exception: what the class itself raised that is neither a TypeError nor a ValueError.
    """
    if kind is None:
        return raw
    try:
        return _converter().structure(raw, kind)
    except Exception as error:
        raise _misfit(error, subject) from None


def decode_result(kind: Any, method: str, raw: Any) -> Any:
    """Make the result of a call out of JSON. Null is as good as an empty object (W6).

    Raises:
        InvalidResponse: it does not fit.
    """
    try:
        return decode(kind, {} if raw is None and _has_fields(kind) else raw, "")
    except SchemaError as error:
        raise InvalidResponse(f"the answer to {method} does not fit {_name(kind)}: {error}") from error


def encode(value: Any) -> Any:
    """Make JSON out of a value, whatever is in it.

    Raises:
        SchemaError: a field holds what its type does not allow.
    """
    if isinstance(value, (WireObject, UnknownVariant)):
        return unstructure(value)
    items: Any = value
    if isinstance(value, Mapping):
        return {key: encode(each) for key, each in items.items()}
    if isinstance(value, (list, tuple)):
        return [encode(each) for each in items]
    if isinstance(value, enum.Enum) or _has_fields(type(value)):
        try:
            return _converter().unstructure(value)
        except SchemaError as error:
            raise SchemaError(error.path, error.reason, type(value).__name__) from None
    return value


def encode_params(params: ExtensionParams) -> dict[str, Any]:
    """Make the parameters of a call.

    Raises:
        LocalProtocolError: they are no object, or one that cannot travel.
    """
    try:
        raw: Any = {} if params is None else encode(params)
    except (SchemaError, RecursionError) as error:
        raise LocalProtocolError(f"these parameters cannot be sent: {error}") from error
    if not isinstance(raw, dict):
        raise LocalProtocolError(
            f"the parameters of an extension method are an object with fields, not {type(params).__name__}"
        )
    return cast("dict[str, Any]", raw)


def encode_result(kind: Any, value: Any, name: str) -> Any:
    """Make JSON out of what the handler of a method returned.

    Raises:
        TypeError: it is not of the type that was registered, or cannot travel.
    """
    record = _is_record(kind)
    if record and not isinstance(value, kind):
        raise TypeError(f"the handler of {name} must return {_name(kind)}, not {type(value).__name__}")
    try:
        raw = encode(value)
        if not record:
            decode(kind, raw, "")
    except (SchemaError, RecursionError) as error:
        raise TypeError(f"the handler of {name} returned what does not fit: {error}") from error
    return raw


def check_type(kind: Any) -> None:
    """Find now, and not at the first call, that values of a type cannot travel.

    Raises:
        TypeError: it cannot; the message says what to use.
    """
    if kind is None:
        return
    if isinstance(kind, type) and issubclass(kind, WireObject):
        try:
            structure(kind, {})
        except SchemaError:
            pass
        return
    _converter().get_structure_hook(kind)


def annotated_type(function: Callable[..., Any], parameter: inspect.Parameter | None) -> Any:
    """Return the type that a handler wants its parameters in, by its annotation; None for JSON as it came.

    Raises:
        TypeError: the annotation is a text, and its names are not to be found.
    """
    annotation = inspect.Parameter.empty if parameter is None else parameter.annotation
    if annotation is inspect.Parameter.empty:
        return None
    if isinstance(annotation, str):
        # Types that mean JSON are often imported for type checkers only.
        if annotation.strip("'\"").split("[")[0].split(".")[-1] in PLAIN:
            return None
        annotation = _evaluated(function, annotation)
    plain = getattr(get_origin(annotation) or annotation, "__name__", "") in PLAIN
    return None if plain else annotation


def _evaluated(function: Any, annotation: str) -> Any:
    function = inspect.unwrap(function)
    if not hasattr(function, "__globals__"):
        # An object that can be called; its own annotation was found by way of its class, too.
        function = type(function).__call__
    scope: dict[str, Any] = getattr(function, "__globals__", {})

    def holder() -> None: ...

    holder.__annotations__ = {"params": annotation.strip("'\"")}
    try:
        return get_type_hints(holder, scope, include_extras=True)["params"]
    except Exception as error:
        raise TypeError(
            f"the annotation {annotation!r} means nothing in {scope.get('__name__')}; define the class at the"
            " top of that module, or name it where the handler is registered (params=…)"
        ) from error


# Classes that are no types of the protocol -------------------------------------------------------------


@cache
def _converter() -> Converter:
    from cattrs import Converter
    from cattrs.cols import is_mapping

    converter = Converter(
        structure_fallback_factory=_cannot_travel,
        # JSON has no sets; what reads them takes arrays.
        unstruct_collection_overrides={AbstractSet: list},
    )
    converter.register_structure_hook_factory(is_mapping, partial(_take_map_of, converter))
    converter.register_structure_hook_factory(_is_list, partial(_take_list_of, converter))
    converter.register_structure_hook_factory(_has_own_fields, partial(_take_of, converter))
    converter.register_unstructure_hook_factory(_has_own_fields, partial(_put_of, converter))
    converter.register_structure_hook_factory(is_typeddict, partial(_take_keys_of, converter))
    for scalar in (str, int, float, bool):
        # By itself cattrs makes a text of anything, and a number of a text.
        converter.register_structure_hook(scalar, _take_scalar)
    # The types of the protocol are read as everywhere.
    return get_converter(converter)


def _take_scalar(raw: Any, kind: type[Any]) -> Any:
    base = next(each for each in (bool, int, float, str) if issubclass(kind, each))
    value: Any = structure(base, raw)
    # Enums and other classes that are derived from a scalar come here, too.
    return value if kind is base else kind(value)


def _cannot_travel(kind: Any) -> NoReturn:
    raise TypeError(
        f"{_name(kind)} cannot travel: use JSON's own types, TypedDicts, classes made by attrs or dataclasses"
        " or classes that are derived from trio_acp.schema.WireObject"
    )


def _field_names(kind: Any) -> list[str]:
    cls = get_origin(kind) or kind
    fields: Any = attrs.fields(cls) if attrs.has(cls) else dataclasses.fields(cls)
    return [field.name for field in fields]


def _has_fields(kind: Any) -> bool:
    return is_typeddict(kind) or _is_record(get_origin(kind) or kind)


def _has_own_fields(kind: Any) -> bool:
    cls = get_origin(kind) or kind
    return _is_record(cls) and not issubclass(cls, (WireObject, UnknownVariant))


def _is_record(cls: Any) -> bool:
    return isinstance(cls, type) and (attrs.has(cls) or dataclasses.is_dataclass(cls))


def _is_list(kind: Any) -> bool:
    return kind is list or get_origin(kind) is list


def _forward_types(kind: Any) -> dict[str, Any]:
    """Return the types of the fields that name a class within a type, such as ``list["Node"]``.

    cattrs by itself finds classes only by annotations that are texts as a whole.

    Raises:
        TypeError: a name is not to be found.
    """
    cls: Any = get_origin(kind) or kind
    fields: Any = attrs.fields(cls) if attrs.has(cls) else dataclasses.fields(cls)
    try:
        hints = get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"an annotation of {_name(kind)} means nothing in {cls.__module__}: {error}; "
            "define the class at the top of that module"
        ) from error
    return {
        field.name: hints[field.name]
        for field in fields
        if field.name in hints and not isinstance(field.type, str) and hints[field.name] != field.type
    }


def _take_of(converter: Converter, kind: Any) -> Callable[[Any, Any], Any]:
    from cattrs.gen import make_dict_structure_fn, override

    def take_later(hint: Any) -> Callable[[Any, Any], Any]:
        # Looked up when there is a value: a class may contain itself.
        return lambda raw, _: converter.structure(raw, hint)

    names: dict[str, Any] = {name: override(rename=camel_case(name)) for name in _field_names(kind)}
    for name, hint in _forward_types(kind).items():
        names[name] = override(rename=camel_case(name), struct_hook=take_later(hint))
    generated: Callable[[Any, Any], Any] = make_dict_structure_fn(kind, converter, **names)
    return lambda raw, _: generated(structure(dict[str, Any], raw), kind)


def _take_keys_of(converter: Converter, kind: Any) -> Callable[[Any, Any], Any]:
    from cattrs.gen import typeddicts

    # Python itself does not see which keys are required where annotations are postponed.
    keys: dict[str, Any] = {}
    for key, hint in get_type_hints(kind, include_extras=True).items():
        marked = get_origin(hint) in (Required, NotRequired)
        required = key in kind.__required_keys__
        keys[key] = hint if marked else Required[hint] if required else NotRequired[hint]
    generated: Callable[[Any, Any], Any] = cast(Any, typeddicts).make_dict_structure_fn(
        TypedDict(kind.__name__, keys),  # type: ignore[operator]
        converter,
    )
    return lambda raw, _: generated(structure(dict[str, Any], raw), kind)


def _put_of(converter: Converter, kind: Any) -> Callable[[Any], Any]:
    from cattrs.gen import make_dict_unstructure_fn, override

    def put_later(hint: Any) -> Callable[[Any], Any]:
        return lambda value: converter.unstructure(value, unstructure_as=hint)

    names: dict[str, Any] = {name: override(rename=camel_case(name)) for name in _field_names(kind)}
    for name, hint in _forward_types(kind).items():
        names[name] = override(rename=camel_case(name), unstruct_hook=put_later(hint))
    generated: Callable[[Any], Any] = make_dict_unstructure_fn(kind, converter, **names)
    return generated


def _take_list_of(converter: Converter, kind: Any) -> Callable[[Any, Any], Any]:
    from cattrs.cols import list_structure_factory

    # By itself cattrs takes whatever can be iterated over, an object of JSON or a text included.
    generated = list_structure_factory(kind, converter)
    return lambda raw, _: generated(structure(list[Any], raw), kind)


def _take_map_of(converter: Converter, kind: Any) -> Callable[[Any, Any], Any]:
    from cattrs import cols

    generated: Callable[[Any, Any], Any] = cast(Any, cols).mapping_structure_factory(kind, converter)
    return lambda raw, _: generated(structure(dict[str, Any], raw), kind)


def _misfit(error: Exception, subject: str) -> Exception:
    """Say where a value does not fit, in wire names; what is not about the value comes back as itself."""
    from cattrs import AttributeValidationNote, BaseValidationError, IterableValidationNote

    path: list[str | int] = []
    while isinstance(error, BaseValidationError):
        cls: Any = getattr(error, "cl", None)
        error = error.exceptions[0]
        for note in getattr(error, "__notes__", ()):
            if isinstance(note, AttributeValidationNote):
                path.append(camel_case(note.name) if _has_own_fields(cls) else note.name)
            elif isinstance(note, IterableValidationNote):
                path.append(note.index)
    if isinstance(error, SchemaError):
        return SchemaError((*path, *error.path), error.reason, subject)
    if isinstance(error, KeyError):
        return SchemaError(tuple(path), "required field is missing", subject)
    if isinstance(error, RecursionError):
        return SchemaError(tuple(path), "nested too deeply", subject)
    own = type(error) is Exception or type(error).__module__.startswith("cattrs")
    if own or isinstance(error, (TypeError, ValueError)):
        # What cattrs says of literals and unions, and the rules of the class itself.
        return SchemaError(tuple(path), str(error)[:MAX_REASON], subject)
    return error


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)
