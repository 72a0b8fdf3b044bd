"""The protocol over a stream of one's own: an agent that listens on TCP, and a host that connects."""

import trio

from trio_acp import connect_acp
from trio_acp.agent import AgentApp, PromptContext

app = AgentApp("echo", "1.0")


@app.on_prompt
async def answer(ctx: PromptContext) -> None:
    await ctx.send_message(f"You said: {ctx.text}")


async def main() -> None:
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(app.serve_listeners, listeners)
        port = listeners[0].socket.getsockname()[1]
        agent = await connect_acp(nursery, await trio.open_tcp_stream("127.0.0.1", port))
        print(await agent.generate("hello"))
        await agent.aclose()
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
