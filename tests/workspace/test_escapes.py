"""Every way out of a workspace, tried on a real file system: nothing outside is read, written or made."""

from __future__ import annotations

import os
import pathlib
import socket
from collections.abc import Callable, Iterator

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.workspace.house import SECRET, House
from tests.workspace.scopes import reading, scope, writing
from trio_acp import InternalError, InvalidParams, RequestError, ResourceNotFound
from trio_acp.workspace import Workspace, _paths


@pytest.fixture
def house(tmp_path: pathlib.Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    assert house.world() == house.before


async def refused(house: House, path: str, *errors: type[RequestError]) -> None:
    """Read and write by that path: both are refused, and the refusal tells nothing about outside."""
    workspace, session = Workspace(create_parents=True), scope(house.root)
    for attempt in (workspace.read(reading(path), session), workspace.write(writing(path), session)):
        with pytest.raises(errors or (InvalidParams,)) as caught:
            await attempt
        assert SECRET not in str(caught.value)
        assert str(house.base) not in str(caught.value)


# --- Spellings ----------------------------------------------------------------------------------------

SPELLINGS: dict[str, Callable[[House], str]] = {
    "absolute": lambda house: str(house.outside / "secret"),
    "dot-dot": lambda house: "../../outside/secret",
    "dot-dot from below": lambda house: "inside/../../../outside/secret",
    "dot-dot through what is missing": lambda house: str(house.root) + "/../../outside/secret",
    "sibling prefix": lambda house: str(house.sibling / "secret"),
    "sibling by dot-dot": lambda house: str(house.root) + "/../project-secrets/secret",
    "doubled slashes": lambda house: f"{house.root}//..//..//outside//secret",
    "the top": lambda house: "/",
    "above the top": lambda house: "/../" * 50 + str(house.outside / "secret"),
    "other case": lambda house: str(house.root).upper() + "/inside/file",
    "full-width dots": lambda house: f"{house.root}/．．/../../outside/secret",
    "composed spelling of a root": lambda house: str(house.base) + "/home/projéct/f",
    "decomposed spelling of a root": lambda house: str(house.base) + "/home/proje\u0301ct/f",
    "NUL": lambda house: f"inside/file\0{house.outside}/secret",
    "no Unicode": lambda house: "inside/\ud800",
    "file URI": lambda house: f"/file://{house.outside}/secret",
    "network path": lambda house: f"//{house.outside}/secret",
    "home": lambda house: "/~root/.profile",
}


@pytest.mark.parametrize("name", SPELLINGS)
async def test_no_spelling_leads_out(house: House, name: str) -> None:
    """K3, K4, S5."""
    await refused(house, SPELLINGS[name](house))


async def test_a_full_width_dot_is_a_name_like_any_other(house: House) -> None:
    workspace, session = Workspace(), scope(house.root)
    await workspace.write(writing("．．/file", "x"), session)
    assert (house.root / "．．" / "file").read_text() == "x"


async def test_a_way_out_and_in_again_is_followed_only_as_far_as_its_text_tells(house: House) -> None:
    """K3: what lies outside is never looked at to judge a path."""
    workspace, session = Workspace(), scope(house.root)
    assert await workspace.read(reading("../project/inside/file"), session) == "inside"
    assert await workspace.read(reading("inside/../inside/./file"), session) == "inside"
    await refused(house, "../../outside/../home/project/inside/file")


PARTS = st.sampled_from(
    ["..", ".", "", "inside", "file", "project", "outside", "secret", "out", "up", "home", "~"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(st.lists(PARTS, max_size=8), st.booleans())
async def test_whatever_the_parts_what_is_read_is_what_the_system_finds_inside(
    house: House, parts: list[str], absolute: bool
) -> None:
    for name, target in (("out", house.outside), ("up", pathlib.Path("../.."))):
        if not (house.root / name).is_symlink():
            (house.root / name).symlink_to(target)
    path = os.path.join(str(house.root) if absolute else "", "/".join(parts))
    path = path if absolute or not path.startswith("/") else path.lstrip("/")
    try:
        text = await Workspace().read(reading(path), scope(house.root))
    except RequestError:
        return
    assert text == "inside"
    assert os.path.samefile(os.path.join(house.root, path), house.root / "inside" / "file")  # noqa: ASYNC240


# --- Links --------------------------------------------------------------------------------------------


async def test_links_that_stay_inside_are_followed(house: House) -> None:
    root = house.root
    (root / "relative").symlink_to("inside/file")
    (root / "absolute").symlink_to(root / "inside" / "file")
    (root / "dir").symlink_to("./inside/")
    (root / "inside" / "up").symlink_to("..")
    (root / "chain").symlink_to("dir/up/relative")
    (root / "self").symlink_to(root)
    workspace, session = Workspace(), scope(root)
    for path in ("relative", "absolute", "dir/file", "inside/up/relative", "chain", "self/chain"):
        assert await workspace.read(reading(path), session) == "inside", path
    await workspace.write(writing("chain", "written"), session)
    assert (root / "inside" / "file").read_text() == "written"
    assert (root / "chain").is_symlink()


LINKS: dict[str, Callable[[House], str]] = {
    "file": lambda house: str(house.outside / "secret"),
    "relative file": lambda house: "../../outside/secret",
    "dangling": lambda house: str(house.outside / "new"),
    "relative dangling": lambda house: "../../outside/new",
    "sibling": lambda house: "../project-secrets/secret",
    "dangling sibling": lambda house: "../project-new",
    "/proc root": lambda house: f"/proc/self/root{house.outside}/secret",
    "/proc cwd": lambda house: "/proc/self/cwd/pyproject.toml",
    "/proc environ": lambda house: "/proc/self/environ",
    "/dev/stdin": lambda house: "/dev/stdin",
    "/dev/fd": lambda house: "/dev/fd/0",
    "/dev/zero": lambda house: "/dev/zero",
}


@pytest.mark.parametrize("name", LINKS)
async def test_no_link_leads_out(house: House, name: str) -> None:
    """K2: at the end of the path, dangling ones included."""
    (house.root / "link").symlink_to(LINKS[name](house))
    (house.root / "inside" / "second").symlink_to("../link")
    for path in ("link", "inside/second", "inside/../link"):
        await refused(house, path)
    assert not (house.outside / "new").exists()


@pytest.mark.parametrize(
    "target", ["{base}/outside", "../../outside", "/", "/proc/self/root", "/proc/self/cwd"]
)
async def test_no_link_on_the_way_leads_out(house: House, target: str) -> None:
    """K2, K3."""
    (house.root / "link").symlink_to(target.format(base=house.base))
    for path in ("link/secret", "link/new/file", f"link{house.outside}/secret", "link/../secret"):
        await refused(house, path)


async def test_dot_dot_behind_a_link_counts_from_where_the_link_leads(house: House) -> None:
    """K3: textual removal of ``alias/..`` would pick another file."""
    (house.root / "deep" / "er").mkdir(parents=True)
    (house.root / "deep" / "target").write_text("right")
    (house.root / "target").write_text("wrong")
    (house.root / "alias").symlink_to("deep/er")
    assert await Workspace().read(reading("alias/../target"), scope(house.root)) == "right"


async def test_links_in_a_ring_end_as_an_error(house: House) -> None:
    (house.root / "a").symlink_to("b")
    (house.root / "b").symlink_to("a")
    await refused(house, "a", InternalError)
    await refused(house, "a/file", InternalError)


async def test_as_many_links_as_the_system_allows_are_followed_and_no_more(house: House) -> None:
    (house.root / "l0").symlink_to("inside/file")
    for number in range(1, 50):
        (house.root / f"l{number}").symlink_to(f"l{number - 1}")
    workspace, session = Workspace(), scope(house.root)
    assert await workspace.read(reading(f"l{_paths.MAX_LINKS - 1}"), session) == "inside"
    await refused(house, f"l{_paths.MAX_LINKS}", InternalError)


async def test_a_root_reached_by_a_link_has_two_spellings(house: House) -> None:
    alias = house.base / "outside" / "alias"
    alias.symlink_to(house.root)
    house.before = house.world()
    workspace, session = Workspace(), scope(alias)
    for path in (alias / "inside/file", house.root / "inside/file", pathlib.Path("inside/file")):
        assert await workspace.read(reading(path), session) == "inside"
    with pytest.raises(InvalidParams):
        await workspace.read(reading(alias / ".." / "secret"), session)


async def test_a_root_that_is_replaced_by_a_link_does_not_move_the_fence(house: House) -> None:
    """A root inside of another root can be renamed by whoever may write there."""
    inner = house.root / "inner"
    inner.mkdir()
    (inner / "secret").write_text("inner")
    workspace, session = Workspace(), scope(house.root, inner)
    assert await workspace.read(reading(inner / "secret"), session) == "inner"
    inner.rename(house.root / "moved")
    inner.symlink_to(house.outside)
    for attempt in (
        workspace.read(reading(inner / "secret"), session),
        workspace.write(writing(inner / "secret"), session),
    ):
        with pytest.raises((InvalidParams, ResourceNotFound, InternalError)):
            await attempt


async def test_the_whole_file_system_can_be_a_root(house: House) -> None:
    assert await Workspace(["/"]).read(reading(house.outside / "secret"), scope("/")) == SECRET
    for path in ("/..", "/../.."):
        with pytest.raises(InternalError, match="directory"):
            await Workspace(["/"]).read(reading(path), scope("/"))


# --- What is no regular file --------------------------------------------------------------------------


async def test_a_pipe_is_refused_without_waiting_for_its_other_end(house: House) -> None:
    """K5."""
    os.mkfifo(house.root / "fifo")
    (house.root / "link").symlink_to("fifo")
    with trio.fail_after(5):
        await refused(house, "fifo", InternalError)
        await refused(house, "link", InternalError)


async def test_a_pipe_that_somebody_waits_at_is_not_touched(house: House) -> None:
    """K5: the writer at its other end must not be let in by our looking."""
    os.mkfifo(house.root / "fifo")
    reader = os.open(house.root / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    try:
        await refused(house, "fifo", InternalError)
        assert os.read(reader, 10) == b""
    finally:
        os.close(reader)


async def test_a_socket_is_refused(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(house.root)  # such addresses are short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        await refused(house, "socket", InternalError)


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="no devices here")
async def test_devices_are_refused_even_inside_of_a_root() -> None:
    workspace, session = Workspace(), scope("/dev")
    for path in ("/dev/zero", "/dev/null", "/dev/tty"):
        for attempt in (workspace.read(reading(path), session), workspace.write(writing(path), session)):
            with pytest.raises((InternalError, ResourceNotFound)):
                await attempt


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="no /proc here")
async def test_magic_links_are_not_followed_even_inside_of_a_root(house: House) -> None:
    """What /proc/self/fd and its like open is not where their text points."""
    workspace, session = Workspace(), scope("/proc/self")
    with open(house.outside / "secret") as file:  # noqa: ASYNC230
        for path in (
            f"/proc/self/fd/{file.fileno()}",
            f"/proc/self/root{house.outside}/secret",
            "cwd/README.md",
        ):
            with pytest.raises((InvalidParams, ResourceNotFound, InternalError)):
                await workspace.read(reading(path), session)


async def test_something_that_is_swapped_in_after_the_look_is_refused(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K5: what counts is what was opened."""
    os.mkfifo(house.root / "fifo")
    reader = os.open(house.root / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    looked = os.stat(house.root / "inside" / "file")
    monkeypatch.setattr("trio_acp.workspace._files.os.stat", lambda *_, **__: looked)
    try:
        await refused(house, "fifo", InternalError)
    finally:
        os.close(reader)


# --- Without end --------------------------------------------------------------------------------------


async def test_a_path_longer_than_any_file_has_is_refused(house: House) -> None:
    await refused(house, "a/" * 5000, InternalError)
    await refused(house, "x" * 300, InternalError)


async def test_going_down_and_up_for_ever_ends_and_holds_two_descriptors_at_most(house: House) -> None:
    deep = "d/" * 300
    (house.root / deep).mkdir(parents=True)
    highest = os.dup(0)
    os.close(highest)
    with pytest.raises(InternalError, match="levels"):
        await Workspace().read(reading(deep + "../d/" * 200 + "f"), scope(house.root))
    again = os.dup(0)
    os.close(again)
    assert again == highest
    await Workspace().write(writing(deep + "f", "deep"), scope(house.root))
    assert await Workspace().read(reading(deep + "f"), scope(house.root)) == "deep"
