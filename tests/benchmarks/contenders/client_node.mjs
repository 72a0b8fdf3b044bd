// The official TypeScript SDK as the client.

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const acp = await import(pathToFileURL(process.env.BENCHMARK_NODE_SDK));
const job = JSON.parse(process.env.BENCHMARK_JOB);
const [command, ...args] = JSON.parse(process.env.BENCHMARK_WRITER);

const peakBytes = () => 1024 * Number(/VmHWM:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]);

// As digest() of workloads.py.
function plain(value) {
  if (Array.isArray(value)) return value.map(plain);
  if (value === null || typeof value !== "object") return value;
  const entries = Object.entries(value).filter(
    ([, each]) => each !== null && each !== undefined && !(Array.isArray(each) && each.length === 0),
  );
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, each]) => [key, plain(each)]));
}

let count = 0;
let kept = null;

const app = acp
  .client({ name: "benchmark" })
  .onRequest(acp.methods.client.session.requestPermission, ({ params }) => ({
    outcome: { outcome: "selected", optionId: params.options[0].optionId },
  }))
  .onNotification(acp.methods.client.session.update, ({ params }) => {
    count++;
    if (kept !== null) (kept[params.sessionId] ??= []).push(params.update);
  });

const agent = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));

await app.connectWith(stream, async (context) => {
  const methods = acp.methods.agent;
  await context.request(methods.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
  const sessions = [];
  for (let each = 0; each < (job.sessions ?? 1); each++) {
    sessions.push((await context.request(methods.session.new, { cwd: "/", mcpServers: [] })).sessionId);
  }

  async function run(order, expected) {
    count = 0;
    const prompt = [{ type: "text", text: JSON.stringify(order) }];
    await Promise.all(sessions.map((sessionId) => context.request(methods.session.prompt, { sessionId, prompt })));
    const delivered = count;
    while (count < expected) await new Promise((resolve) => setImmediate(resolve));
    return delivered;
  }

  await run(job.warm, 0);
  await new Promise((resolve) => setTimeout(resolve, 100));
  kept = {};
  await run(job.check, job.expected_check);
  const checked = kept;
  kept = null;
  const peak_before = peakBytes();
  const before = process.cpuUsage();
  const delivered = await run(job.order, job.expected);
  const { user, system } = process.cpuUsage(before);
  const digests = {};
  for (const [name, updates] of Object.entries(checked)) {
    const total = createHash("sha256");
    for (const update of updates) total.update(JSON.stringify(plain(update)) + "\n");
    digests[name] = total.digest("hex");
  }
  const result = { cpu: (user + system) / 1e6, delivered, peak: peakBytes(), peak_before, digests };
  console.log(JSON.stringify(result));
});
process.exit(0);
