// A client built with the official TypeScript SDK, which does what a plan says; see driving.py.

import { spawn } from "node:child_process";
import { basename } from "node:path";
import { Readable, Writable } from "node:stream";
import { text } from "node:stream/consumers";
import * as acp from "@agentclientprotocol/sdk";

const plan = JSON.parse(await text(process.stdin));
const has = (offer) => plan.offers.includes(offer);
const seen = [];
const names = new Map();
const terminals = new Map();
const running = new Map(); // for each session, the step that runs in it: what to do at which update, once
let agent;
let child;

const note = (request, params = {}) => seen.push({ request, params });

const cancel = (sessionId) => agent.notify(acp.methods.agent.session.cancel, { sessionId });

function reached(what, sessionId) {
  const step = running.get(sessionId) ?? {};
  if (step.cancel_at === what) {
    delete step.cancel_at;
    return cancel(sessionId);
  }
  if (step.leave_at === what) {
    delete step.leave_at;
    child.stdin.end();
  }
}

const { session, fs, terminal, elicitation } = acp.methods.client;
const client = acp
  .client({ name: "typescript-client" })
  .onNotification(session.update, ({ params }) => {
    seen.push({ session: params.sessionId, update: params.update });
    return reached(params.update.sessionUpdate, params.sessionId);
  })
  .onRequest(session.requestPermission, async ({ params }) => {
    const kinds = new Map(params.options.map((option) => [option.kind, option.optionId]));
    note("permission", { kinds: [...kinds.keys()].sort(), call: params.toolCall.toolCallId });
    if (plan.permission === "hold") await cancel(params.sessionId);
    const optionId = kinds.get(plan.permission);
    return { outcome: optionId === undefined ? { outcome: "cancelled" } : { outcome: "selected", optionId } };
  })
  .onRequest(fs.readTextFile, ({ params }) => {
    note("read", { path: params.path });
    const name = basename(params.path);
    if (!(name in plan.files)) throw acp.RequestError.resourceNotFound(params.path);
    return { content: plan.files[name] };
  })
  .onRequest(fs.writeTextFile, ({ params }) => {
    note("write", { path: params.path, content: params.content });
    plan.files[basename(params.path)] = params.content;
    return {};
  })
  .onRequest(terminal.create, ({ params }) => {
    const { command, args = [], cwd } = params;
    note("terminal/create", { command, args, cwd });
    const process = spawn(command, args, { cwd, stdio: ["ignore", "pipe", "pipe"], detached: true });
    const made = { process, output: "" };
    process.stdout.on("data", (data) => (made.output += data));
    process.stderr.on("data", (data) => (made.output += data));
    made.closed = new Promise((resolve) => process.on("close", (exitCode, signal) => resolve({ exitCode, signal })));
    const terminalId = `terminal-${terminals.size}`;
    terminals.set(terminalId, made);
    return { terminalId };
  })
  .onRequest(terminal.waitForExit, ({ params }) => {
    note("terminal/wait_for_exit");
    reached("terminal/wait_for_exit", params.sessionId);
    return terminals.get(params.terminalId).closed;
  })
  .onRequest(terminal.output, ({ params }) => {
    note("terminal/output");
    return { output: terminals.get(params.terminalId).output, truncated: false };
  })
  .onRequest(terminal.kill, () => {
    note("terminal/kill");
    return {};
  })
  .onRequest(terminal.release, ({ params }) => {
    note("terminal/release");
    const { process: shell } = terminals.get(params.terminalId);
    // The whole group, as long as it is there.
    if (shell.exitCode === null && shell.signalCode === null) process.kill(-shell.pid, "SIGKILL");
    return {};
  })
  .onRequest(elicitation.create, ({ params }) => {
    note("elicitation", { message: params.message, schema: params.requestedSchema });
    return plan.form === null ? { action: "decline" } : { action: "accept", content: plan.form };
  });

const methods = acp.methods.agent;
const idOf = (step) => names.get(step.session) ?? step.session;

const STEPS = {
  async new(step) {
    const answer = await agent.request(methods.session.new, { cwd: step.cwd, mcpServers: [] });
    names.set(step.as, answer.sessionId);
    return answer;
  },
  load: (step) => agent.request(methods.session.load, { sessionId: idOf(step), cwd: step.cwd, mcpServers: [] }),
  resume: (step) => agent.request(methods.session.resume, { sessionId: idOf(step), cwd: step.cwd, mcpServers: [] }),
  list: () => agent.request(methods.session.list, {}),
  close: (step) => agent.request(methods.session.close, { sessionId: idOf(step) }),
  delete: (step) => agent.request(methods.session.delete, { sessionId: idOf(step) }),
  mode: (step) => agent.request(methods.session.setMode, { sessionId: idOf(step), modeId: step.mode }),
  config(step) {
    const type = typeof step.value === "boolean" ? { type: "boolean" } : {};
    const chosen = { sessionId: idOf(step), configId: step.option, value: step.value, ...type };
    return agent.request(methods.session.setConfigOption, chosen);
  },
  prompt(step) {
    running.set(idOf(step), step);
    const prompt = [{ type: "text", text: step.text }];
    return agent.request(methods.session.prompt, { sessionId: idOf(step), prompt });
  },
  together: (step) => Promise.all(step.steps.map(run)),
  raw: (step) => agent.request(step.method, step.params),
};

async function run(step) {
  try {
    return { result: (await STEPS[step.do](step)) ?? null };
  } catch (error) {
    if (!(error instanceof acp.RequestError)) throw error;
    return { error: { code: error.code, message: error.message } };
  }
}

const [command, ...args] = plan.agent;
child = spawn(command, args, {
  env: { ...process.env, ...plan.env },
  stdio: ["pipe", "pipe", "inherit"],
});
const ended = new Promise((resolve) => child.on("exit", (code, signal) => resolve(code ?? signal)));
const connection = client.connect(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)));
agent = connection.agent;

const hello = await agent.request(methods.initialize, {
  protocolVersion: acp.PROTOCOL_VERSION,
  clientInfo: { name: "typescript-client", version: "1" },
  clientCapabilities: {
    fs: { readTextFile: has("read"), writeTextFile: has("write") },
    terminal: has("terminal"),
    ...(has("form") && { elicitation: { form: {} } }),
    ...(has("boolean") && { session: { configOptions: { boolean: {} } } }),
  },
});
const steps = [];
for (const step of plan.steps) {
  const before = seen.length;
  const outcome = await run(step);
  steps.push({ ...outcome, seen: seen.slice(before) });
}
child.stdin.end();
const status = await ended;
process.stdout.write(JSON.stringify({ hello, steps, status }) + "\n");
