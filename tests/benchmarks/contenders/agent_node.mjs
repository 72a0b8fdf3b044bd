// The official TypeScript SDK as the agent: a turn is ten pieces of a message.

import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const acp = await import(pathToFileURL(process.env.BENCHMARK_NODE_SDK));

acp
  .agent({ name: "benchmark" })
  .onRequest(acp.methods.agent.initialize, () => ({
    protocolVersion: acp.PROTOCOL_VERSION,
    agentCapabilities: {},
  }))
  .onRequest(acp.methods.agent.session.new, () => ({ sessionId: "session-0" }))
  .onRequest(acp.methods.agent.session.prompt, async ({ params, client }) => {
    for (let number = 0; number < 10; number++) {
      const text = `${String(number).padStart(8, "0")} `.padEnd(60, "x");
      await client.notify(acp.methods.client.session.update, {
        sessionId: params.sessionId,
        update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text } },
      });
    }
    return { stopReason: "end_turn" };
  })
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
