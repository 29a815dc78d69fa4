// Drives clients of AG-UI. Each line of the input is a command, each line of the output what came of it.
import { createInterface } from "node:readline";
import { HttpAgent, runHttpRequest, transformHttpEventStream } from "@ag-ui/client";

const warnings = [];
console.warn = (...words) => warnings.push(words.map(String).join(" "));
console.error = () => {}; // a run that failed is told as the outcome
process.on("unhandledRejection", () => {}); // so is a connection that broke

class Client extends HttpAgent {
  // Joins a segment that this client, or another one, was cut off from.
  connect(input) {
    const headers = { Accept: "text/event-stream" };
    return transformHttpEventStream(runHttpRequest(() => this.fetch(`${this.joins}/${input.runId}/segment`, { headers })));
  }
}

// Hears what is given to it, as if a server had sent it.
class Hearer extends HttpAgent {
  run() {
    return transformHttpEventStream(runHttpRequest(() => Promise.resolve(new Response(this.heard))));
  }
}

const clients = new Map();

// A client that leaves does not wait: where all of the run had come before it left, what the library promises never comes.
async function follow(client, go, { abortAfter }) {
  const seen = { events: [], failed: null };
  let leave;
  const left = new Promise((resolve) => (leave = resolve));
  const watching = {
    onEvent: ({ event }) => {
      seen.events.push(event);
      if (event.type !== abortAfter) return;
      client.abortRun();
      leave({});
    },
    onRunFailed: ({ error }) => {
      seen.failed = { name: error.name, message: error.message, status: error.status, payload: error.payload };
    },
  };
  try {
    seen.newMessages = (await Promise.race([go(watching), left])).newMessages;
  } catch (error) {
    seen.failed ??= { name: error.name, message: error.message, status: error.status, payload: error.payload };
  }
  const { messages, state, pendingInterrupts } = client;
  return { ...seen, messages, state, pendingInterrupts };
}

const commands = {
  open: ({ name, url, joins, threadId, messages, state }) => {
    const client = new Client({ url, threadId, initialMessages: messages, initialState: state });
    client.joins = joins;
    clients.set(name, client);
  },
  edit: ({ name, messages, state, add, url, joins }) => {
    const client = clients.get(name);
    if (messages) client.setMessages(messages);
    if (state) client.setState(state);
    if (add) client.addMessages(add);
    if (url) Object.assign(client, { url, joins });
  },
  run: ({ name, parameters, abortAfter }) => {
    const client = clients.get(name);
    return follow(client, (watching) => client.runAgent(parameters, watching), { abortAfter });
  },
  hear: ({ stream }) => {
    const client = new Hearer({ url: "http://nowhere.example", threadId: "thread" });
    client.heard = stream;
    return follow(client, (watching) => client.runAgent({ runId: "run" }, watching), {});
  },
  join: ({ name, runId }) => {
    const client = clients.get(name);
    return follow(client, (watching) => client.connectAgent({ runId }, watching), {});
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { number, command, ...given } = JSON.parse(line);
  Promise.resolve(commands[command](given)).then((outcome) => {
    process.stdout.write(`${JSON.stringify({ number, outcome: outcome ?? null, warnings: warnings.splice(0) })}\n`);
  });
}
