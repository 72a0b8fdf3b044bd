"""Arrays, maps, values that may be null or of one of several types; and the wording of errors and reports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ._base import Leniency
from ._errors import SchemaError, WirePath, format_path
from ._leaves import Node, Put, Report, describe
from ._source import Misfit, Source

__all__ = [
    "MAX_LENIENCIES",
    "MISSING",
    "ChoiceNode",
    "ListNode",
    "MapNode",
    "OptionalNode",
    "attempt",
    "below",
    "failure",
    "located",
    "record",
]

MAX_LENIENCIES = 100
"""How many leniencies one report holds: enough to see what is wrong, whatever a peer sends."""

MISSING = "required field is missing"


class OptionalNode(Node):
    """A value, or ``null``."""

    def __init__(self, inner: Node) -> None:
        self.inner = inner
        self.expected = f"{inner.expected} or null"

    def write(self, source: Source, level: int) -> None:
        with source.block(f"if v{level} is not None:"):
            self.inner.write(source, level)

    def _make_put(self) -> Put:
        put_inner = self.inner.put

        def put(value: Any) -> Any:
            return None if value is None else put_inner(value)

        return put

    def read(self, value: Any, path: WirePath, report: Report) -> Any:
        return None if value is None else self.inner.read(value, path, report)


class ListNode(Node):
    """An array of values of one type."""

    expected = "an array"

    def __init__(self, item: Node, skip_invalid: bool) -> None:
        self.item = item
        self.skip_invalid = skip_invalid

    def write(self, source: Source, level: int) -> None:
        value, item, items = f"v{level}", f"v{level + 1}", f"r{level}"
        source.line(f"if {value}.__class__ is not list: raise Misfit")
        source.line(f"{items} = []")
        with source.block(f"for {item} in {value}:"):
            self.item.write(source, level + 1)
            source.line(f"{items}.append({item})")
        source.line(f"{value} = {items}")

    def _make_put(self) -> Put:
        put_item = self.item.put

        def put(value: Any) -> Any:
            values: list[Any] | tuple[Any, ...] = value
            if not isinstance(value, list | tuple):
                raise self.refuse(value)
            try:
                return [put_item(each) for each in values]
            except SchemaError as error:
                raise located(error, put_item, enumerate(values)) from None

        return put

    def read(self, value: Any, path: WirePath, report: Report) -> Any:
        values: list[Any] = value
        if not isinstance(value, list):
            raise SchemaError(path, f"expected an array, got {describe(value)}")
        items: list[Any] = []
        for index, each in enumerate(values):
            here = (*path, index)
            try:
                items.append(self.item.read(each, here, report))
            except SchemaError as error:
                if not self.skip_invalid:
                    raise
                record(report, here, f"{below(here, error)}; the item is left out", each)
        return items


class MapNode(Node):
    """An object whose keys are free."""

    expected = "an object"

    def __init__(self, item: Node) -> None:
        self.item = item

    def write(self, source: Source, level: int) -> None:
        value, item, items, key = f"v{level}", f"v{level + 1}", f"r{level}", f"k{level}"
        source.line(f"if {value}.__class__ is not dict: raise Misfit")
        source.line(f"{items} = {{}}")
        with source.block(f"for {key}, {item} in {value}.items():"):
            self.item.write(source, level + 1)
            source.line(f"{items}[{key}] = {item}")
        source.line(f"{value} = {items}")

    def _make_put(self) -> Put:
        put_item = self.item.put

        def put(value: Any) -> Any:
            values: dict[Any, Any] = value
            if not isinstance(value, dict):
                raise self.refuse(value)
            for key in values:
                if not isinstance(key, str):
                    raise SchemaError((), f"expected keys that are strings, got {describe(key)}")
            try:
                return {key: put_item(each) for key, each in values.items()}
            except SchemaError as error:
                raise located(error, put_item, values.items()) from None

        return put

    def read(self, value: Any, path: WirePath, report: Report) -> Any:
        values: dict[str, Any] = value
        if not isinstance(value, dict):
            raise SchemaError(path, f"expected an object, got {describe(value)}")
        return {key: self.item.read(each, (*path, key), report) for key, each in values.items()}


class ChoiceNode(Node):
    """A union whose members are told apart by trying them in order."""

    def __init__(self, choices: list[Node]) -> None:
        self.choices = choices
        self.expected = " or ".join(dict.fromkeys(choice.expected for choice in choices))

    def write(self, source: Source, level: int) -> None:
        takes = [choice.take for choice in self.choices]

        def take(value: Any) -> Any:
            for take_choice in takes:
                try:
                    return take_choice(value)
                except Exception:
                    continue
            raise Misfit

        source.line(f"v{level} = {source.bind(take)}(v{level})")

    def _make_put(self) -> Put:
        puts = [choice.put for choice in self.choices]

        def put(value: Any) -> Any:
            for put_choice in puts:
                try:
                    return put_choice(value)
                except SchemaError:
                    continue
            raise self.refuse(value)

        return put

    def read(self, value: Any, path: WirePath, report: Report) -> Any:
        errors: list[SchemaError] = []
        for choice in self.choices:
            try:
                return attempt(choice, value, path, report)
            except SchemaError as error:
                errors.append(error)
        # Whoever got furthest is the likeliest to be what was meant.
        best = max(errors, key=lambda error: (len(error.path), error.reason != MISSING))
        if best.path == path:
            raise SchemaError(path, f"expected {self.expected}, got {describe(value)}")
        raise best


def record(report: Report, path: WirePath, reason: str, value: Any) -> None:
    if report is not None and len(report) < MAX_LENIENCIES:
        report.append(Leniency(path, reason, value))


def attempt(node: Node, value: Any, path: WirePath, report: Report) -> Any:
    """Decode, and note leniencies only if the value fits in the end."""
    notes: list[Leniency] = []
    result = node.read(value, path, notes)
    for note in notes:
        record(report, note.path, note.reason, note.value)
    return result


def located(error: SchemaError, put: Put, parts: Iterable[tuple[str | int, Any]]) -> SchemaError:
    """The error of the part that cannot be encoded, with the step to that part in its path.

    Keeping track of the place costs time for each part, so it is found out only once something is wrong.
    """
    return next(filter(None, (failure(put, step, each) for step, each in parts)), error)


def failure(put: Put, step: str | int, value: Any) -> SchemaError | None:
    try:
        put(value)
    except SchemaError as error:
        return SchemaError((step, *error.path), error.reason)
    return None


def below(path: WirePath, error: SchemaError) -> str:
    """An error's text, its path cut to what lies below ``path``."""
    where = format_path(error.path[len(path) :])
    return f"{where}: {error.reason}" if where else error.reason
