"""Host and agent have a method of their own, with types."""

import attrs
import trio

from trio_acp import connect_acp
from trio_acp.agent import AgentApp, Extensions


@attrs.frozen
class CountWords:
    text: str


@attrs.frozen
class WordCount:
    words_in_all: int


extensions = Extensions()


@extensions.method("_example.com/count_words", result=WordCount)
async def count_words(request: CountWords) -> WordCount:
    return WordCount(len(request.text.split()))


app = AgentApp("counting-agent", "1.0", extensions=extensions)


@app.on_prompt
async def answer() -> str:
    return "done"


async def main() -> None:
    async with trio.open_nursery() as nursery:
        agent = await connect_acp(nursery, app.connect_in_memory(nursery))
        # On the wire: {"text": "one two three"}, answered with {"wordsInAll": 3}.
        count = await agent.request("_example.com/count_words", CountWords("one two three"), result=WordCount)
        print(count.words_in_all)
        await agent.aclose()


if __name__ == "__main__":
    trio.run(main)
