"""A host that lets the agent read files, of one directory only."""

import tempfile
from pathlib import Path

import trio

from trio_acp import AcpOptions, ResourceNotFound, connect_acp
from trio_acp.agent import AgentApp, PromptContext
from trio_acp.schema import ReadTextFileRequest

app = AgentApp("reader", "1.0")


@app.on_prompt
async def answer(ctx: PromptContext) -> str:
    return await ctx.try_read_file(ctx.text) or "no such file"


class FileServer:
    """Reads files for an agent, of one directory only."""

    def __init__(self, directory: str) -> None:
        self.root = Path(directory).resolve()

    async def read_text_file(self, request: ReadTextFileRequest) -> str:
        path = await trio.Path(request.path).resolve()  # follows links and "..", before the check
        if not path.is_relative_to(self.root):
            raise ResourceNotFound("that file is out of reach")
        lines = (await path.read_text()).splitlines(keepends=True)
        first = (request.line or 1) - 1
        last = None if request.limit is None else first + request.limit
        return "".join(lines[first:last])


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        await (trio.Path(directory) / "notes.txt").write_text("milk, bread\n")
        options = AcpOptions(cwd=directory, read_text_file=FileServer(directory).read_text_file)
        async with trio.open_nursery() as nursery:
            agent = await connect_acp(nursery, app.connect_in_memory(nursery), options)
            print(await agent.generate("notes.txt"))
            print(await agent.generate("/etc/passwd"))
            await agent.aclose()


if __name__ == "__main__":
    trio.run(main)
