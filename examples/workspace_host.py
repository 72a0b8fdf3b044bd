"""A host whose agent works in one directory: its files, its commands, and a policy for what it may do."""

import tempfile
from pathlib import Path

import trio

from trio_acp import AcpOptions, DecidedPermission, RequestError, connect_acp
from trio_acp.agent import AgentApp, PromptContext
from trio_acp.schema import ToolKind
from trio_acp.workspace import Terminal, TerminalManager, Workspace, allow_once, on_kinds, unattended

app = AgentApp("worker", "1.0")


@app.on_prompt
async def work(ctx: PromptContext) -> str:
    try:
        await ctx.read_file("/etc/passwd")
    except RequestError as error:
        await ctx.send_message(f"refused: {error.message}\n")
    text = await ctx.read_file("notes.txt", line=2)
    if await ctx.ask_permission("Shout the notes", kind=ToolKind.EDIT):
        await ctx.write_file("notes.txt", text.upper())
    if await ctx.ask_permission("Post the notes", kind=ToolKind.FETCH):
        raise AssertionError("nobody allowed that")
    result = await ctx.execute("cat", "notes.txt")
    return f"exit code {result.exit_code}"


def show_output(terminal: Terminal, text: str) -> None:
    print(f"{terminal.command[0]}: {text}", end="")


def show_decision(decided: DecidedPermission) -> None:
    chosen = "cancelled" if decided.option is None else decided.option.kind
    print(f"{decided.request.tool_call.title}: {chosen} ({decided.reason})")


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        await (trio.Path(directory) / "notes.txt").write_text("# notes\nmilk, bread\n")
        options = AcpOptions(
            cwd=Path(directory),
            files=Workspace(),
            terminals=TerminalManager(on_output=show_output, max_run_time=60),
            on_permission=unattended(on_kinds([ToolKind.EDIT], allow_once("edits are fine"))),
            on_decision=show_decision,
        )
        async with trio.open_nursery() as nursery:
            agent = await connect_acp(nursery, app.connect_in_memory(nursery), options)
            print(await agent.generate("go"))
            await agent.aclose()


if __name__ == "__main__":
    trio.run(main)
