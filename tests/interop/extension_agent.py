"""An agent with one extension method, for a client of an official SDK; it needs one of the client's."""

from __future__ import annotations

import dataclasses

import trio

from trio_acp.agent import AgentApp, ConnectedClient


@dataclasses.dataclass
class Repeat:
    """What to say how often."""

    word: str
    how_often: int = 1


app = AgentApp("extended", "1.0")


@app.on_prompt
async def prompt() -> None:
    """There is none in this conversation."""


@app.on_ext_request("_peer/repeat", result=Repeat)
async def repeat(params: Repeat, client: ConnectedClient) -> Repeat:
    """Have the client decide how it is written."""
    written = await client.ext_request("_peer/write", params, result=Repeat)
    return Repeat(written.word * params.how_often, written.how_often)


if __name__ == "__main__":
    trio.run(app.serve_stdio)
