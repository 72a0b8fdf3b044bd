"""Swaps between the look and the opening: nothing outside of the roots is read, written or made (K2)."""

from __future__ import annotations

import functools
import os
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.workspace.house import House
from tests.workspace.scopes import reading, scope, writing
from trio_acp import RequestError
from trio_acp.workspace import Workspace

RACE_ROUNDS = 200
"""Reads, and writes, under each race."""


@pytest.fixture
def house(tmp_path: pathlib.Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    assert house.world() == house.before


def exchange(a: pathlib.Path, b: pathlib.Path, spare: pathlib.Path) -> Callable[[], None]:
    """Swap two names by renaming."""

    def swap() -> None:
        os.rename(a, spare)
        os.rename(b, a)
        os.rename(spare, b)

    return swap


RACES: dict[str, tuple[str, Callable[[House], Callable[[], None]]]] = {}


def race(name: str, path: str) -> Callable[..., Callable[[House], Callable[[], None]]]:
    def register(arrange: Callable[[House], Callable[[], None]]) -> Callable[[House], Callable[[], None]]:
        RACES[name] = path, arrange
        return arrange

    return register


@race("the file itself", "target")
def _file(house: House) -> Callable[[], None]:
    (house.root / "target").write_text("inside")
    (house.root / "evil").symlink_to(house.outside / "secret")
    return exchange(house.root / "target", house.root / "evil", house.root / "spare")


@race("a dangling link in place of the file", "target")
def _dangling(house: House) -> Callable[[], None]:
    (house.root / "target").write_text("inside")
    (house.root / "evil").symlink_to(house.outside / "made")
    return exchange(house.root / "target", house.root / "evil", house.root / "spare")


@race("the directory", "dir/secret")
def _directory(house: House) -> Callable[[], None]:
    (house.root / "dir").mkdir()
    (house.root / "dir" / "secret").write_text("inside")
    (house.root / "evil").symlink_to(house.outside)
    return exchange(house.root / "dir", house.root / "evil", house.root / "spare")


@race("a directory further up", "top/mid/secret")
def _higher(house: House) -> Callable[[], None]:
    (house.root / "top" / "mid").mkdir(parents=True)
    (house.root / "top" / "mid" / "secret").write_text("inside")
    (house.root / "evil").mkdir()
    (house.root / "evil" / "mid").symlink_to(house.outside)
    return exchange(house.root / "top", house.root / "evil", house.root / "spare")


@race("a link that turns outwards", "link")
def _link(house: House) -> Callable[[], None]:
    (house.root / "good").write_text("inside")
    (house.root / "link").symlink_to("good")
    (house.root / "evil").symlink_to(house.outside / "secret")
    return exchange(house.root / "link", house.root / "evil", house.root / "spare")


@race("a directory that is moved away while it is left by dot-dot", "a/b/../../inside/file")
def _moved(house: House) -> Callable[[], None]:
    (house.root / "a" / "b").mkdir(parents=True)
    (house.root / "evil").symlink_to(house.outside)

    def swap() -> None:
        os.rename(house.root / "a" / "b", house.root / "b")
        os.rename(house.root / "evil", house.root / "a" / "b")
        os.rename(house.root / "a" / "b", house.root / "evil")
        os.rename(house.root / "b", house.root / "a" / "b")

    return swap


# --- A swap before every single call of the operating system -------------------------------------------

WATCHED = ("open", "stat", "lstat", "readlink", "rename", "mkdir", "unlink")
"""What is called between the look at a path and the end of the work."""


class SwapAtCall:
    """Swaps before the calls of these numbers that a worker thread makes, and counts all of them."""

    def __init__(self, swap: Callable[[], None], *numbers: int) -> None:
        self._swap = swap
        self._numbers = numbers
        self.calls = 0
        self._honest: dict[str, Any] = {name: getattr(os, name) for name in WATCHED}
        self._swapping = False

    def __enter__(self) -> SwapAtCall:
        for name in WATCHED:
            setattr(os, name, functools.partial(self._call, name))
        os.supports_dir_fd.add(os.open)
        return self

    def __exit__(self, *_: object) -> None:
        os.supports_dir_fd.discard(os.open)
        for name in WATCHED:
            setattr(os, name, self._honest[name])

    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        if not self._swapping and threading.current_thread() is not threading.main_thread():
            self.calls += 1
            if self.calls in self._numbers:
                self._swapping = True
                try:
                    self._swap()
                finally:
                    self._swapping = False
        return self._honest[name](*args, **options)


async def attempt(
    house: House, path: str, swap: Callable[[], None], work: str, *numbers: int
) -> tuple[int, bool]:
    """Read or write while a swap comes before these calls; return how many calls there were, and success."""
    workspace, session = Workspace(), scope(house.root)
    with SwapAtCall(swap, *numbers) as swapper:
        done = True
        try:
            if work == "read":
                text = await workspace.read(reading(path), session)
                assert text == "inside" or text.startswith("written"), (path, numbers)
            else:
                await workspace.write(writing(path, "written"), session)
        except RequestError:
            done = False
        calls = swapper.calls
    if sum(number <= calls for number in numbers) % 2:
        swap()  # back, for the next attempt
    assert house.world() == house.before, (path, numbers)
    return calls, done


@pytest.mark.parametrize("work", ["read", "write"])
@pytest.mark.parametrize("name", RACES)
async def test_no_swap_between_two_calls_leads_out(house: House, name: str, work: str) -> None:
    """K2: a swap, and a swap back, before every call and every pair of calls."""
    path, arrange = RACES[name]
    swap = arrange(house)
    calls, done = await attempt(house, path, swap, work)
    assert done
    tried = refused = 0
    for first in range(1, calls + 1):
        for second in range(first, calls + 3):
            _, done = await attempt(house, path, swap, work, *{first, second})
            tried += 1
            refused += not done
    assert tried > calls
    assert name.startswith("a directory that is moved") or refused > 0
    print(f"{name}, {work}: {tried} interleavings, {refused} refused")


# --- A thread that does nothing else ---------------------------------------------------------------------


class Swapper:
    """A thread that swaps what stands behind a name as fast as it can."""

    def __init__(self, *swaps: Callable[[], None]) -> None:
        self._swaps = swaps
        self._end = threading.Event()
        self.rounds = 0
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._end.is_set():
            for swap in self._swaps:
                swap()
            self.rounds += 1

    def __enter__(self) -> Swapper:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("name", RACES)
async def test_no_race_leads_out(house: House, name: str) -> None:
    """K2: links and directories swapped between check and open, by a thread that does nothing else."""
    path, arrange = RACES[name]
    swap = arrange(house)
    workspace, session = Workspace(), scope(house.root)
    done = refusals = 0
    with Swapper(swap) as swapper:
        for number in range(RACE_ROUNDS):
            try:
                text = await workspace.read(reading(path), session)
            except RequestError:
                refusals += 1
            else:
                assert text == "inside" or text.startswith("written "), text
                done += 1
            try:
                await workspace.write(writing(path, f"written {number}"), session)
            except RequestError:
                refusals += 1
            else:
                done += 1
    assert done + refusals == 2 * RACE_ROUNDS
    assert swapper.rounds > 100
    print(f"{name}: {done} done, {refusals} refused, {swapper.rounds} swaps")


@pytest.mark.slow
async def test_no_race_of_making_parents_leads_out(house: House) -> None:
    workspace, session = Workspace(create_parents=True), scope(house.root)
    (house.root / "new").symlink_to("inside")

    def turn_to(target: os.PathLike[str] | str) -> Callable[[], None]:
        def turn() -> None:
            os.symlink(target, house.root / "spare")
            os.rename(house.root / "spare", house.root / "new")

        return turn

    with Swapper(turn_to(house.outside), turn_to("inside")) as swapper:
        for number in range(RACE_ROUNDS):
            try:
                await workspace.write(writing(f"new/{number}/file", "x"), session)
            except RequestError:
                pass
    assert swapper.rounds > 100
