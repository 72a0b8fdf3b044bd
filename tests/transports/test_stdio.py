"""This process's stdin and stdout become the protocol's, and come back unharmed (W2)."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import pty
import socket
import sys
import tty
from collections.abc import Iterator

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from trio_acp.transports import StdioStream, _stdio, open_stdio
from trio_acp.transports._blocking import BlockingReceiveStream

if sys.platform == "win32":
    pytest.skip("descriptors are another matter there", allow_module_level=True)


class Stdio:
    """Replaces descriptors 0, 1 and 2 of this process for the length of a test.

    A test must do so itself, not in its setup: pytest points 1 and 2 elsewhere between the two.
    """

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for fd in (0, 1, 2):
            kept = os.dup(fd)
            stack.callback(os.close, kept)
            stack.callback(os.dup2, kept, fd)

    def put(self, fd: int, source: int) -> None:
        os.dup2(source, fd)
        os.close(source)

    def keep(self, fd: int) -> int:
        """Close a descriptor of ours at the end."""
        self._stack.callback(os.close, fd)
        return fd

    def pipe(self, fd: int) -> int:
        """Put one end of a pipe in the place of `fd`; return the other."""
        read, write = os.pipe()
        mine, theirs = (write, read) if fd == 0 else (read, write)
        self.put(fd, theirs)
        return self.keep(mine)

    def file(self, fd: int, path: pathlib.Path) -> None:
        self.put(fd, os.open(path, os.O_RDONLY if fd == 0 else os.O_WRONLY | os.O_CREAT))


@pytest.fixture
def stdio() -> Iterator[Stdio]:
    with contextlib.ExitStack() as stack:
        yield Stdio(stack)


@pytest.fixture(params=["reopened", "shared"])
def reopening(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With a system that lets us open pipes and terminals once more, and with one that does not."""
    if request.param == "shared":
        monkeypatch.setattr(_stdio, "reopen", lambda fd, access: None)
    return str(request.param)


async def read_line(fd: int) -> bytes:
    """Read one line in a thread, so that a mistake is a failure and not a hang."""
    data = b""
    while not data.endswith(b"\n"):
        chunk = await trio.to_thread.run_sync(os.read, fd, 65536, abandon_on_cancel=True)
        assert chunk, data
        data += chunk
    return data


async def check_conversation(stream: StdioStream, to_us: int, from_us: int) -> None:
    os.write(to_us, b"request\n")
    assert await stream.receive_some() == b"request\n"
    await stream.send_all(b"response\n")
    assert await read_line(from_us) == b"response\n"
    if stream.send_nowait(b"more\n") == 0:
        await stream.wait_send_all_might_not_block()
        await stream.send_all(b"more\n")
    assert await read_line(from_us) == b"more\n"


async def test_pipes_carry_the_protocol_and_keep_their_mode(stdio: Stdio, reopening: str) -> None:
    """O_NONBLOCK is nobody else's business: not while it is open if that can be, never afterwards (T3)."""
    to_us, from_us = stdio.pipe(0), stdio.pipe(1)
    shared = [stdio.keep(os.dup(fd)) for fd in (0, 1)]
    async with open_stdio() as stream:
        await check_conversation(stream, to_us, from_us)
        assert [os.get_blocking(fd) for fd in shared] == [reopening == "reopened"] * 2
    assert [os.get_blocking(fd) for fd in shared] == [True, True]
    assert [os.get_blocking(fd) for fd in (0, 1)] == [True, True]


async def test_a_pipe_that_was_non_blocking_before_still_is_afterwards(stdio: Stdio, reopening: str) -> None:
    stdio.pipe(0)
    stdio.pipe(1)
    os.set_blocking(0, False)
    async with open_stdio():
        pass
    assert [os.get_blocking(fd) for fd in (0, 1)] == [False, True]


async def test_one_socket_for_both_directions_carries_the_protocol(stdio: Stdio) -> None:
    ours, theirs = socket.socketpair()
    with ours:
        stdio.put(0, os.dup(theirs.fileno()))
        stdio.put(1, theirs.detach())
        async with open_stdio() as stream:
            await check_conversation(stream, ours.fileno(), ours.fileno())
        assert [os.get_blocking(fd) for fd in (0, 1)] == [True, True]


async def test_a_terminal_carries_the_protocol_and_never_changes_its_mode(
    stdio: Stdio, reopening: str
) -> None:
    """All that shares a terminal would become non-blocking with it (T3)."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    shared = stdio.keep(os.dup(slave))
    stdio.put(0, os.dup(slave))
    stdio.put(1, slave)
    try:
        async with open_stdio() as stream:
            await check_conversation(stream, master, master)
            assert os.get_blocking(shared)
    finally:
        os.close(master)
    assert os.get_blocking(shared)


async def test_a_reader_of_a_terminal_is_woken_by_cancellation_and_by_closing(
    stdio: Stdio, reopening: str, nursery: trio.Nursery
) -> None:
    master, slave = pty.openpty()
    stdio.put(0, slave)
    stdio.pipe(1)
    stream = open_stdio()
    with trio.CancelScope() as scope:
        nursery.start_soon(cancel_when_blocked, scope)
        await stream.receive_some()
    assert scope.cancelled_caught
    if reopening == "shared":
        # The read goes on in its thread; what it reads is lost, and the next one is as good as the first.
        os.write(master, b"lost\n")

    async def reader() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await stream.receive_some()

    async with trio.open_nursery() as readers:
        readers.start_soon(reader)
        await wait_all_tasks_blocked()
        await stream.aclose()
    os.write(master, b"end\n")
    half = stream.receiving_half
    if isinstance(half, BlockingReceiveStream):
        await half._limiter.acquire()  # given back by the thread that was left behind
    os.close(master)


async def cancel_when_blocked(scope: trio.CancelScope) -> None:
    await wait_all_tasks_blocked()
    scope.cancel()


async def test_files_carry_the_protocol(stdio: Stdio, tmp_path: pathlib.Path) -> None:
    (tmp_path / "in").write_bytes(b"request\n")
    stdio.file(0, tmp_path / "in")
    stdio.file(1, tmp_path / "out")
    async with open_stdio() as stream:
        assert await stream.receive_some() == b"request\n"
        assert await stream.receive_some() == b""
        assert stream.send_nowait(b"response\n") == 0
        await stream.wait_send_all_might_not_block()
        await stream.send_all(b"response\n")
    assert (tmp_path / "out").read_bytes() == b"response\n"


async def test_the_null_device_is_an_input_that_has_ended(stdio: Stdio) -> None:
    stdio.file(0, pathlib.Path(os.devnull))
    stdio.pipe(1)
    async with open_stdio() as stream:
        assert await stream.receive_some() == b""


async def test_the_end_of_the_input_is_the_end(stdio: Stdio, reopening: str) -> None:
    read, write = os.pipe()
    stdio.put(0, read)
    stdio.pipe(1)
    os.write(write, b"last words")
    async with open_stdio() as stream:
        os.close(write)
        assert await stream.receive_some(4) == b"last"
        assert await stream.receive_some() == b" words"
        assert await stream.receive_some() == b""


async def test_a_client_that_has_gone_breaks_the_output(stdio: Stdio, reopening: str) -> None:
    stdio.pipe(0)
    read, write = os.pipe()
    stdio.put(1, write)
    async with open_stdio() as stream:
        os.close(read)
        with pytest.raises(trio.BrokenResourceError):
            await stream.send_all(b"x")


async def test_stray_output_goes_to_stderr_while_the_protocol_has_stdout(
    stdio: Stdio, monkeypatch: pytest.MonkeyPatch
) -> None:
    from_us, stderr_of_us = stdio.pipe(1), stdio.pipe(2)
    stdio.pipe(0)
    with os.fdopen(1, "w", closefd=False) as old_stdout, os.fdopen(2, "w", closefd=False) as stderr:
        monkeypatch.setattr(sys, "stdout", old_stdout)
        monkeypatch.setattr(sys, "stderr", stderr)
        print("0 before")
        async with open_stdio() as stream:
            assert await read_line(from_us) == b"0 before\n"
            assert os.read(0, 1) == b""
            print("1 print", flush=True)
            os.write(1, b"2 write\n")
            print("3 old object", file=old_stdout)
            await trio.run_process(["/bin/sh", "-c", "cat; echo 4 child"], stdin=None)
            await stream.send_all(b"protocol\n")
            assert await read_line(from_us) == b"protocol\n"
        said = os.read(stderr_of_us, 65536).splitlines()
        assert said == [b"1 print", b"2 write", b"4 child", b"3 old object"]
        assert sys.stdout is old_stdout
        print("5 after", flush=True)
        assert await read_line(from_us) == b"5 after\n"
        monkeypatch.undo()


async def test_a_child_inherits_nothing_of_the_protocol(stdio: Stdio, reopening: str) -> None:
    async def inherited() -> set[int]:
        code = "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))"
        result = await trio.run_process(
            [sys.executable, "-I", "-S", "-c", code], stdin=None, capture_stdout=True, close_fds=False
        )
        return set(json.loads(result.stdout))

    stdio.pipe(0)
    stdio.pipe(1)
    before = await inherited()
    async with open_stdio():
        assert await inherited() == before


async def test_a_replaced_sys_stdout_is_left_alone(stdio: Stdio, monkeypatch: pytest.MonkeyPatch) -> None:
    stdio.pipe(0)
    stdio.pipe(1)
    async with open_stdio():
        somebody = object()
        monkeypatch.setattr(sys, "stdout", somebody)
    assert sys.stdout is somebody


async def test_only_one_connection_at_a_time_has_the_stdio(stdio: Stdio) -> None:
    """Two readers on one input would each get half of the messages (A12)."""
    to_us, from_us = stdio.pipe(0), stdio.pipe(1)
    async with open_stdio() as stream:
        with pytest.raises(trio.BusyResourceError, match="one connection"):
            open_stdio()
        await check_conversation(stream, to_us, from_us)
    stream.close()
    async with open_stdio() as stream:
        await check_conversation(stream, to_us, from_us)


@pytest.mark.parametrize(("fd", "name"), [(0, "stdin"), (1, "stdout")])
async def test_a_closed_descriptor_is_an_error_that_changes_nothing(stdio: Stdio, fd: int, name: str) -> None:
    stdio.pipe(0)
    stdio.pipe(1)
    other = os.fstat(1 - fd)
    os.close(fd)
    before = sys.stdout
    with pytest.raises(OSError, match=f"{name} is closed"):
        open_stdio()
    assert sys.stdout is before
    assert os.path.samestat(os.fstat(1 - fd), other)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


async def test_a_closed_stderr_is_no_obstacle_and_never_the_protocol(
    stdio: Stdio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without care the duplicate of stdout would get the number of stderr, and all that goes there."""
    to_us, from_us = stdio.pipe(0), stdio.pipe(1)
    monkeypatch.setattr(sys, "stderr", None)
    os.close(2)
    async with open_stdio() as stream:
        os.write(2, b"nowhere\n")
        os.write(1, b"nowhere\n")
        await check_conversation(stream, to_us, from_us)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(2)


def test_what_cannot_be_opened_again_is_left_as_it_is(stdio: Stdio, monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = socket.socketpair()
    with left, right:
        assert _stdio.reopen(left.fileno(), os.O_RDONLY) is None
    stdio.pipe(0)
    monkeypatch.setattr(os.path, "sameopenfile", lambda one, other: False)
    assert _stdio.reopen(0, os.O_RDONLY) is None


def test_a_terminal_is_opened_again_by_its_name_where_descriptors_have_none(
    stdio: Stdio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os.path, "isdir", lambda path: False)
    master, slave = pty.openpty()
    again = _stdio.reopen(slave, os.O_RDWR)
    assert again is not None
    os.write(again, b"x")
    assert os.read(master, 1) == b"x"
    for fd in (again, master, slave):
        os.close(fd)


def test_a_broken_stdout_cannot_be_flushed_and_need_not() -> None:
    _stdio.flush(None)
    with open(os.devnull, "w") as file:
        pass
    _stdio.flush(file)


AGENT = """
import os, sys, trio
from trio_acp.transports import open_stdio

async def main():
    async with open_stdio() as stream:
        print("print")
        os.system("echo child")
        while data := await stream.receive_some():
            await stream.send_all(data)
    print("after")

trio.run(main)
"""


async def test_a_real_agent_keeps_its_stdout_clean(tmp_path: pathlib.Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    message = bytes(300_000) + b"\n"
    result = await trio.run_process(
        [sys.executable, str(tmp_path / "agent.py")],
        stdin=message,
        capture_stdout=True,
        capture_stderr=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert sorted(result.stderr.split()) == [b"child", b"print"]
    assert result.stdout == message + b"after\n"
    assert result.returncode == 0
