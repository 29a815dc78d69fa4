// Drives pages of CopilotKit in Node: its runtime in front of a server, and its React hooks on a DOM without a browser.
// Each line of the input is a command, each line of the output the page after it.
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { Window } from "happy-dom";

Object.assign(process.env, { NODE_ENV: "production", COPILOTKIT_TELEMETRY_DISABLED: "true", DO_NOT_TRACK: "1" });
const window = new Window({ url: "http://localhost/" });
Object.assign(globalThis, { window, document: window.document, navigator: window.navigator });

const { createElement: h } = await import("react");
const { flushSync } = await import("react-dom");
const { createRoot } = await import("react-dom/client");
const { z } = await import("zod");
const { HttpAgent } = await import("@ag-ui/client");
const { createCopilotNodeListener } = await import("@copilotkit/runtime/v2/node");
// The entry that exports it also loads the libraries of every model provider.
const runtimeModule = "node_modules/@copilotkit/runtime/dist/v2/runtime/core/runtime.mjs";
const { CopilotRuntime } = await import(new URL(runtimeModule, import.meta.url));
const { CopilotKitContext } = await import("@copilotkit/react-core/v2/context");
const { CopilotKitCoreReact, useAgent, useFrontendTool, useInterrupt } = await import("@copilotkit/react-core/v2/headless");

const warnings = [];
for (const level of ["warn", "error"]) console[level] = (...words) => warnings.push(words.map(String).join(" "));
console.log = console.info = console.debug = () => {}; // the output is for answers

// The runtime runs a clone of the agent for each request.
function recordingAgent(url, requests) {
  class RecordingAgent extends HttpAgent {
    run(input) {
      requests.push({ runId: input.runId, resume: input.resume ?? null });
      return super.run(input);
    }
  }
  return new RecordingAgent({ url });
}

function Chat({ agentId, onAgent }) {
  const { agent } = useAgent({ agentId });
  onAgent(agent);
  useFrontendTool({ name: "pick_color", description: "Pick.", parameters: z.object({ prompt: z.string() }), handler: async () => "red" });
  const question = useInterrupt({
    agentId,
    renderInChat: false,
    render: ({ interrupts, resolve, cancel }) =>
      h("form", null, interrupts.map((each) => h("p", { key: each.id }, each.message ?? each.reason)),
        h("button", { type: "button", name: "approve", onClick: () => resolve({ approved: true }) }),
        h("button", { type: "button", name: "answer", onClick: () => resolve("this one") }),
        h("button", { type: "button", name: "cancel", onClick: () => cancel() })),
  });
  const lines = agent.messages.map((each) => h("li", { key: each.id }, `${each.role}: ${each.content ?? ""}`));
  return h("main", null, h("ul", null, lines), question);
}

const pages = new Map();

async function until(holds) {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5));
}

// A page is at rest when nothing runs and what came of it is rendered.
async function shown(page) {
  await until(() => page.runs === 0);
  await new Promise((resolve) => setTimeout(resolve, 20)); // React renders after the last event
  await until(() => page.runs === 0);
  const texts = (selector) => [...page.element.querySelectorAll(selector)].map((each) => each.textContent);
  const { messages, threadId } = page.agent;
  return { lines: texts("li"), questions: texts("p"), messages, threadId, requests: page.requests, errors: page.errors };
}

const commands = {
  open: async ({ name, url, agent: agentId }) => {
    const page = { requests: [], errors: [], runs: 0, element: document.createElement("div") };
    const agent = recordingAgent(`${url}/api/agents/${agentId}/run`, page.requests);
    const runtime = new CopilotRuntime({ agents: { [agentId]: agent } });
    const server = createServer(createCopilotNodeListener({ runtime, basePath: "/copilotkit" }));
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    const copilotkit = new CopilotKitCoreReact({ runtimeUrl: `http://127.0.0.1:${server.address().port}/copilotkit` });
    copilotkit.subscribe({ onError: ({ code, error }) => page.errors.push(`${code}: ${error.message}`) });
    const run = copilotkit.runAgent.bind(copilotkit);
    copilotkit.runAgent = (...given) => {
      page.runs += 1;
      return run(...given).finally(() => (page.runs -= 1));
    };
    page.copilotkit = copilotkit;
    const chat = h(Chat, { agentId, onAgent: (each) => (page.agent = each) });
    const value = { copilotkit, executingToolCallIds: new Set() };
    document.body.appendChild(page.element);
    flushSync(() => createRoot(page.element).render(h(CopilotKitContext.Provider, { value }, chat)));
    await until(() => copilotkit.runtimeConnectionStatus === "connected" && copilotkit.getAgent(agentId) === page.agent);
    pages.set(name, page);
    return shown(page);
  },
  say: async ({ name, id, text }) => {
    const page = pages.get(name);
    page.agent.addMessage({ id, role: "user", content: text });
    page.copilotkit.runAgent({ agent: page.agent });
    return shown(page);
  },
  press: async ({ name, button }) => {
    const page = pages.get(name);
    page.element.querySelector(`button[name=${button}]`).click();
    return shown(page);
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { number, command, ...given } = JSON.parse(line);
  const done = commands[command](given).catch((error) => void warnings.push(String(error.stack)));
  done.then((outcome = null) => {
    process.stdout.write(`${JSON.stringify({ number, outcome, warnings: warnings.splice(0) })}\n`);
  });
}
process.exit();
