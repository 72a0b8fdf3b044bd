"""Wire classes of an application's own that contain themselves (W3, W7)."""

from typing import Any, Optional

import attrs
import pytest

from tests.schema._misfits import error_of
from trio_acp import Extensions
from trio_acp.schema import SchemaError, WireObject, structure, unstructure

# Annotations are not postponed here: texts stand alone, and within types.


@attrs.define(repr=False, eq=False)
class Task(WireObject):
    name: str
    steps: list["Task"] = attrs.field(factory=list["Task"])
    before: Optional["Task"] = None
    by_name: "dict[str, Task]" = attrs.field(factory=dict[str, "Task"])


@attrs.define(repr=False, eq=False)
class Broken(WireObject):
    again: Optional["Broken"] = None
    number: complex = 0j


TREE: dict[str, Any] = {
    "name": "a",
    "steps": [{"name": "b", "steps": [{"name": "c", "mine": 1}]}],
    "before": {"name": "d"},
    "byName": {"e": {"name": "e", "before": {"name": "f"}}},
}


def test_a_class_may_contain_itself_and_nothing_in_it_is_lost() -> None:
    task = structure(Task, TREE)
    assert isinstance(task, Task)
    assert task.before is not None
    assert task.steps[0].steps[0].extra == {"mine": 1}
    assert (task.before.name, task.by_name["e"].name) == ("d", "e")
    assert unstructure(task) == TREE


def test_what_is_wrong_deep_in_such_a_class_is_told_with_its_place() -> None:
    wrong = {"name": "a", "steps": [{"name": "b", "before": {"name": 5}}]}
    assert error_of(Task, wrong).endswith("steps[0].before.name: expected a string, got 5")
    bad: Any = Task("a", [Task("b", before=Task(5))])  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match=r"steps\[0\]\.before\.name: expected a string, got 5"):
        unstructure(bad)


def test_such_a_class_may_be_that_of_an_extension_method_and_what_cannot_travel_is_found_at_once() -> None:
    extensions = Extensions()

    @extensions.method("_x/task")
    async def handle(task: Task) -> Task:
        return task

    for _ in range(2):
        with pytest.raises(TypeError, match="complex"):
            extensions.method("_x/broken", Broken)
    assert [*extensions] == ["_x/task"]
