"""What the demo agent does to the world: files and commands, the client's where it offers them."""

from __future__ import annotations

from typing import final

import trio

from trio_acp import RequestError
from trio_acp.agent import CommandResult, PromptContext, ToolCallContext
from trio_acp.schema import Diff, ToolCallLocation, ToolKind

from ._files import FileMissing, FileProblem, confine, list_directory, read_text, write_text
from ._shell import run_shell

__all__ = ["FileActs", "run_command"]


@final
class FileActs:
    """Files of the session's directory.

    Each of its methods shows what it does as a tool call, and returns what there is to say about it.

    Args:
        ctx: the turn.
    """

    def __init__(self, ctx: PromptContext) -> None:
        self._ctx = ctx

    async def list_files(self, *, full: bool) -> str:
        """List the session's directory.

        Args:
            full: tell sizes as well.
        """
        ctx = self._ctx
        async with ctx.tool_call("List the files", kind=ToolKind.SEARCH, locations=[ctx.cwd]) as call:
            try:
                entries, more = await trio.to_thread.run_sync(list_directory, ctx.cwd)
            except FileProblem as problem:
                await call.fail(str(problem))
                return f"{problem}."
            names = [
                f"{entry.name} ({entry.size:,} bytes)" if full and entry.size is not None else entry.name
                for entry in entries
            ]
            if more:
                names.append(f"and {more:,} more")
            await call.update(raw_output={"count": len(entries) + more})
        if not names:
            return "There are no files here."
        count = len(entries) + more
        many = "is 1 entry" if count == 1 else f"are {count:,} entries"
        return f"There {many} in `{ctx.cwd}`:\n\n" + "\n".join(f"- {name}" for name in names)

    async def read(self, path: str) -> str:
        """Read a file."""
        ctx = self._ctx
        async with ctx.tool_call(f"Read {path}", kind=ToolKind.READ, raw_input={"path": path}) as call:
            try:
                place = await self._place(path)
                await call.add_location(place)
                text = await self._read(place, path)
            except FileProblem as problem:
                await call.fail(str(problem))
                return f"{problem}."
        fence = "```"
        while fence in text:
            fence += "`"
        end = "" if text.endswith("\n") else "\n"
        return f"This is `{path}`:\n\n{fence}\n{text}{end}{fence}\n"

    async def write(self, path: str, text: str) -> str:
        """Write a file, if the user or the mode allows it."""
        ctx = self._ctx
        new = text if text.endswith("\n") else text + "\n"
        try:
            place = await self._place(path)
            old = await self._read_if_there(place, path)
        except FileProblem as problem:
            return f"{problem}."
        async with ctx.tool_call(
            f"Write {path}",
            kind=ToolKind.EDIT,
            content=[Diff(place, new, old)],
            locations=[ToolCallLocation(place)],
            raw_input={"path": path, "text": new},
            start=False,
        ) as call:
            refusal = await _refused(call, ctx, "write files")
            if refusal:
                return f"{refusal}, so `{path}` is as it was."
            try:
                await self._write(place, new, path)
            except FileProblem as problem:
                await call.fail(str(problem))
                return f"{problem}."
        return f"I have written `{path}`." if old is None else f"I have changed `{path}`."

    async def _place(self, path: str) -> str:
        return await trio.to_thread.run_sync(confine, path, self._ctx.session.roots)

    async def _read(self, place: str, path: str) -> str:
        if not self._ctx.client.offers("fs.readTextFile"):
            return await trio.to_thread.run_sync(read_text, place, path)
        try:
            text = await self._ctx.try_read_file(place)
        except RequestError as error:
            raise FileProblem(f"the client did not read `{path}`: {error.message}") from error
        if text is None:
            raise FileMissing(path)
        return text

    async def _read_if_there(self, place: str, path: str) -> str | None:
        try:
            return await self._read(place, path)
        except FileMissing:
            return None

    async def _write(self, place: str, text: str, path: str) -> None:
        if not self._ctx.client.offers("fs.writeTextFile"):
            await trio.to_thread.run_sync(write_text, place, text, path)
            return
        try:
            await self._ctx.write_file(place, text)
        except RequestError as error:
            raise FileProblem(f"the client did not write `{path}`: {error.message}") from error


async def run_command(ctx: PromptContext, command: str) -> str:
    """Run a line for the shell, if the user or the mode allows it, and return what there is to say."""
    async with ctx.tool_call(
        f"Run {command}", kind=ToolKind.EXECUTE, raw_input={"command": command}, start=False
    ) as call:
        refusal = await _refused(call, ctx, f"run {command}")
        if refusal:
            return f"{refusal}, so I did not run anything."
        try:
            if ctx.client.offers("terminal"):
                result = await call.execute(shell=command)
            else:
                result = await run_shell(command, ctx.cwd)
                if result.output:
                    await call.add_content(result.output)
        except RequestError as error:
            await call.fail(error.message)
            return f"The client did not run it: {error.message}."
        except OSError as error:
            await call.fail(str(error))
            return f"It could not be run: {error.strerror}."
        await call.update(raw_output={"exitCode": result.exit_code, "signal": result.signal})
        if not result.success:
            await call.fail()
    return _ending(result)


def _ending(result: CommandResult) -> str:
    how = f"was ended by {result.signal}" if result.signal else f"ended with exit code {result.exit_code}"
    lines = len(result.output.splitlines())
    noun = "line" if lines == 1 else "lines"
    cut = ", of which the beginning is missing" if result.truncated else ""
    return f"It {how} and wrote {lines:,} {noun}{cut}."


async def _refused(call: ToolCallContext, ctx: PromptContext, remember: str) -> str | None:
    """Ask about a call, if its mode says so; return why it may not go on, None if it may."""
    assert ctx.session.modes is not None
    match ctx.session.modes.current_mode_id:
        case "auto":
            await call.start()
            return None
        case "read-only":
            await call.fail("the session is in the mode read-only")
            return "This session is read-only"
        case _:
            return None if await call.ask_permission(remember=remember) else "You did not allow it"
