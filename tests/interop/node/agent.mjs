// An agent built with the official TypeScript SDK. The words that it understands are those of peers.py.

import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const sessions = new Map();

const text = (text) => ({ type: "text", text });

async function update(client, sessionId, update) {
  await client.notify(acp.methods.client.session.update, { sessionId, update });
}

const say = (client, sessionId, words) =>
  update(client, sessionId, { sessionUpdate: "agent_message_chunk", content: text(words) });

const OPTIONS = [
  { optionId: "no", name: "No", kind: "reject_once" },
  { optionId: "yes", name: "Yes", kind: "allow_once" },
  { optionId: "always", name: "Always", kind: "allow_always" },
];

async function ask(client, sessionId) {
  const { outcome } = await client.request(acp.methods.client.session.requestPermission, {
    sessionId,
    toolCall: { toolCallId: "call", title: "Write the file", status: "pending" },
    options: OPTIONS,
  });
  return outcome.outcome === "selected" ? outcome.optionId : "cancelled";
}

const WORDS = {
  async talk({ client, sessionId }) {
    await update(client, sessionId, { sessionUpdate: "agent_thought_chunk", content: text("Let me see.") });
    await say(client, sessionId, "Hello, ");
    await say(client, sessionId, "wörld 🎉");
  },
  async plan({ client, sessionId }) {
    for (const status of ["pending", "completed"]) {
      const entries = [{ content: "Think", priority: "high", status }];
      await update(client, sessionId, { sessionUpdate: "plan", entries });
    }
  },
  async tool({ client, sessionId }) {
    await update(client, sessionId, {
      sessionUpdate: "tool_call", toolCallId: "call", title: "Write", kind: "edit", status: "pending",
      locations: [{ path: "/x/file.txt", line: 3 }], rawInput: { text: "new" },
      content: [{ type: "diff", path: "/x/file.txt", oldText: "old", newText: "new" }],
    });
    const chosen = await ask(client, sessionId);
    const allowed = chosen === "yes" || chosen === "always";
    await update(client, sessionId, {
      sessionUpdate: "tool_call_update", toolCallId: "call", status: allowed ? "completed" : "failed",
    });
    await say(client, sessionId, `outcome: ${chosen}`);
  },
  async slow({ client, sessionId, cancelled }) {
    await say(client, sessionId, "working");
    await cancelled;
    await say(client, sessionId, ", stopped");
  },
  async files({ client, sessionId, cwd }) {
    const { content } = await client.request(acp.methods.client.fs.readTextFile, {
      sessionId, path: `${cwd}/in.txt`, line: 2, limit: 1,
    });
    await client.request(acp.methods.client.fs.writeTextFile, {
      sessionId, path: `${cwd}/out.txt`, content: content.toUpperCase(),
    });
    try {
      await client.request(acp.methods.client.fs.readTextFile, { sessionId, path: `${cwd}/missing.txt` });
    } catch (error) {
      await say(client, sessionId, `missing: ${error.code}`);
    }
  },
  async terminal({ client, sessionId, cwd }) {
    const terminal = await client.createTerminal({ sessionId, command: "echo", args: ["from", "here"], cwd });
    const { exitCode } = await terminal.waitForExit();
    const { output } = await terminal.currentOutput();
    await terminal.release();
    await say(client, sessionId, `${exitCode}: ${output}`);
  },
  async huge({ client, sessionId }) {
    await say(client, sessionId, "0123456789".repeat(500_000));
  },
  async many({ client, sessionId }) {
    for (let count = 0; count < 2000; count++) await say(client, sessionId, `${count} `);
  },
  async unoffered({ client, sessionId }) {
    try {
      await client.request("_not/offered", {});
    } catch (error) {
      await say(client, sessionId, `refused: ${error.code}`);
    }
  },
  async extension({ client, sessionId }) {
    const { echo } = await client.request("_peer/echo", { value: [1, null, "ä"] });
    await say(client, sessionId, JSON.stringify(echo));
  },
  async form({ client, sessionId }) {
    const { action, content } = await client.request(acp.methods.client.elicitation.create, {
      sessionId, mode: "form", message: "Which?",
      requestedSchema: { type: "object", properties: { colour: { type: "string", enum: ["red", "blue"] } } },
    });
    await say(client, sessionId, `${action}: ${content?.colour}`);
  },
  async url({ client, sessionId }) {
    const { action } = await client.request(acp.methods.client.elicitation.create, {
      sessionId, mode: "url", message: "Sign in", elicitationId: "login", url: "https://example.org/login",
    });
    await client.notify(acp.methods.client.elicitation.complete, { elicitationId: "login" });
    await say(client, sessionId, action);
  },
  async fail() {
    throw acp.RequestError.authRequired({ hint: "log in" }, "no account");
  },
  async crash() {
    throw new Error("a bug of the agent");
  },
};

function known(sessionId) {
  if (!sessions.has(sessionId)) throw acp.RequestError.resourceNotFound(sessionId);
  return sessions.get(sessionId);
}

function options({ detail }) {
  const values = ["brief", "full"].map((value) => ({ value, name: value }));
  return [{ id: "detail", name: "Detail", type: "select", currentValue: detail, options: values }];
}

acp
  .agent({ name: "typescript-peer" })
  .onRequest(acp.methods.agent.initialize, () => ({
    protocolVersion: acp.PROTOCOL_VERSION,
    agentInfo: { name: "typescript-peer", version: "1" },
    agentCapabilities: {
      loadSession: true,
      promptCapabilities: { image: true },
      sessionCapabilities: { list: {}, resume: {} },
    },
  }))
  .onRequest(acp.methods.agent.session.new, ({ params }) => {
    const sessionId = `session-${sessions.size}`;
    sessions.set(sessionId, { cwd: params.cwd, said: [], detail: "brief" });
    return {
      sessionId,
      configOptions: options(sessions.get(sessionId)),
      modes: { currentModeId: "ask", availableModes: [{ id: "ask", name: "Ask" }, { id: "go", name: "Go" }] },
    };
  })
  .onRequest(acp.methods.agent.session.setMode, ({ params }) => {
    sessions.get(params.sessionId).mode = params.modeId;
    return {};
  })
  .onRequest(acp.methods.agent.session.setConfigOption, ({ params }) => {
    const session = sessions.get(params.sessionId);
    session.detail = params.value;
    return { configOptions: options(session) };
  })
  .onRequest(acp.methods.agent.session.load, async ({ params, client }) => {
    const session = known(params.sessionId);
    for (const words of session.said) {
      await update(client, params.sessionId, { sessionUpdate: "user_message_chunk", content: text(words) });
      await say(client, params.sessionId, `to ${words}`);
    }
    return { configOptions: options(session) };
  })
  .onRequest(acp.methods.agent.session.resume, ({ params }) => ({ configOptions: options(known(params.sessionId)) }))
  .onRequest(acp.methods.agent.session.list, ({ params }) => {
    const start = Number(params.cursor ?? 0);
    const found = [...sessions].slice(start, start + 2).map(([sessionId, { cwd }]) => ({ sessionId, cwd }));
    return start + 2 < sessions.size ? { sessions: found, nextCursor: `${start + 2}` } : { sessions: found };
  })
  .onNotification(acp.methods.agent.session.cancel, ({ params }) => {
    sessions.get(params.sessionId).cancel?.();
  })
  .onRequest(acp.methods.agent.session.prompt, async ({ params, client }) => {
    const session = sessions.get(params.sessionId);
    let stopped = false;
    const cancelled = new Promise((resolve) => {
      session.cancel = () => {
        stopped = true;
        resolve();
      };
    });
    const word = params.prompt[0].text;
    session.said.push(word);
    await WORDS[word]({ client, sessionId: params.sessionId, cwd: session.cwd, cancelled });
    return { stopReason: stopped ? "cancelled" : "end_turn" };
  })
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
