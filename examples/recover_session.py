"""A host that goes on with a saved session, after the agent has been started anew."""

import sys
import tempfile

import trio

from trio_acp import AcpOptions, AgentPool


async def main() -> None:
    with tempfile.TemporaryDirectory() as store:
        command = [sys.executable, "-m", "trio_acp.demo", "--store", store]
        options = AcpOptions(command=command[0], args=command[1:])
        async with AgentPool({"demo": options}) as pool:
            agent = await pool.get("demo")
            session = await agent.new_session()
            async with session.prompt("plan"):
                pass
            await pool.close("demo")

            agent = await pool.get("demo")
            async for info in agent.list_sessions():
                print("saved:", info.title)
            recovered = await agent.recover_session(session.id)
            print(recovered.how)
            loaded = await agent.load_session(session.id)
            print("replayed:", [message.role for message in loaded.replay.messages])
            await agent.delete_session(session.id)


if __name__ == "__main__":
    trio.run(main)
