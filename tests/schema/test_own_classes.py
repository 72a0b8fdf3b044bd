"""Wire classes of an application's own that contain themselves (W3, W7)."""

from typing import Any, ClassVar, Optional

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


def shout(value: str) -> str:
    return value.upper()


@attrs.define(repr=False, eq=False)
class Loose(WireObject):
    anything: Any | None = None


@attrs.define(repr=False, eq=False)
class Converted(WireObject):
    name: str = attrs.field(converter=shout)


@attrs.define(repr=False, eq=False)
class Ruled(WireObject):
    name: str = attrs.field(validator=attrs.validators.max_len(3))


@attrs.define(repr=False, eq=False)
class Prepared(WireObject):
    name: str
    made: ClassVar[list[object]] = []

    def __attrs_pre_init__(self) -> None:
        self.made.append(self)


@attrs.define(repr=False, eq=False)
class Finished(WireObject):
    name: str

    def __attrs_post_init__(self) -> None:
        self.name += "!"


@attrs.define(repr=False, eq=False)
class Written(WireObject):
    name: str

    def __init__(self, name: str, meta: Any = None) -> None:
        self.__attrs_init__(f"written {name}", meta=meta)  # type: ignore[attr-defined]


@attrs.define(repr=False, eq=False, on_setattr=attrs.setters.NO_OP)
class Watched(WireObject):
    name: str
    seen: ClassVar[list[str]] = []

    def __setattr__(self, name: str, value: object) -> None:
        self.seen.append(name)
        super().__setattr__(name, value)


@attrs.define(repr=False, unsafe_hash=True, cache_hash=True)
class Hashed(WireObject):
    name: str


@attrs.define(repr=False, eq=False)
class Doubled(WireObject):
    name: str
    twice: str = attrs.field(default=attrs.Factory(lambda self: self.name * 2, takes_self=True))


@attrs.define(repr=False, eq=False)
class Fixed(WireObject):
    name: str
    number: int = attrs.field(init=False, default=3)


@attrs.define(repr=False, eq=False)
class Counted(WireObject):
    name: str
    made: ClassVar[list[object]] = []

    def __new__(cls, *_: Any, **__: Any) -> "Counted":
        made = super().__new__(cls)
        cls.made.append(made)
        return made


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


@pytest.mark.parametrize(("cls", "field"), [(Doubled, r"Doubled\.twice"), (Fixed, r"Fixed\.number")])
def test_a_class_that_cannot_be_made_of_its_fields_is_refused_at_once(cls: Any, field: str) -> None:
    with pytest.raises(TypeError, match=field):
        Extensions().method("_x/it", cls)
    with pytest.raises(TypeError, match=field):
        structure(cls, {"name": "bob"})


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        (Converted, "BOB"),
        (Ruled, "bob"),
        (Prepared, "bob"),
        (Finished, "bob!"),
        (Written, "written bob"),
        (Watched, "bob"),
        (Counted, "bob"),
    ],
)
def test_what_such_a_class_does_when_one_is_made_is_done(cls: Any, name: str) -> None:
    seen: list[object] = next((vars(cls)[each] for each in ("made", "seen") if each in vars(cls)), [])
    seen.clear()
    one = structure(cls, {"name": "bob", "mine": 1})
    assert (one.name, one.meta, one.extra) == (name, None, {"mine": 1})
    if cls is Watched:
        assert "name" in seen
    elif "made" in vars(cls):
        assert seen == [one]


def test_one_that_keeps_its_hash_can_be_hashed_after_it_was_received() -> None:
    assert hash(structure(Hashed, {"name": "bob"})) == hash(Hashed("bob"))


def test_the_rules_of_such_a_class_are_kept() -> None:
    assert "must be <= 3" in error_of(Ruled, {"name": "robert"})
    assert error_of(list[Ruled], [{"name": "robert"}]).startswith("list: [0]: Length of")


@pytest.mark.parametrize("value", [None, 1, [{"a": None}]])
def test_a_field_of_such_a_class_may_hold_any_json_or_null(value: object) -> None:
    assert structure(Loose, {"anything": value}).anything == value
