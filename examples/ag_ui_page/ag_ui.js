// A client of AG-UI in a few lines. It keeps the conversation; the server finds out what is new in it.
export class Agent {
  constructor(url, threadId = crypto.randomUUID()) {
    Object.assign(this, { url, threadId, messages: [], state: {}, interrupts: [] });
  }

  async say(text, show = () => {}) {
    this.messages.push({ id: crypto.randomUUID(), role: "user", content: text });
    return this.run({}, show);
  }

  async answer(payload, show = () => {}) {
    const resume = this.interrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload }));
    return this.run({ resume }, show);
  }

  async run(more, show) {
    const { threadId, messages, state } = this;
    const response = await fetch(this.url, {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "text/event-stream" },
      body: JSON.stringify({ threadId, runId: crypto.randomUUID(), messages, state, ...more }),
    });
    if (!response.ok) throw new Error((await response.json()).error.message);
    for await (const event of events(response.body)) {
      this.apply(event);
      show(this, event);
    }
  }

  apply(event) {
    const open = this.messages.find(({ id }) => id === event.messageId);
    switch (event.type) {
      case "RUN_STARTED":
        this.interrupts = [];
        break;
      case "TEXT_MESSAGE_START":
        this.messages.push({ id: event.messageId, role: "assistant", content: "" });
        break;
      case "TEXT_MESSAGE_CONTENT":
        open.content += event.delta;
        break;
      case "MESSAGES_SNAPSHOT":
        this.messages = event.messages;
        break;
      case "STATE_SNAPSHOT":
        this.state = event.snapshot;
        break;
      case "RUN_FINISHED":
        this.interrupts = event.outcome?.interrupts ?? [];
        break;
      case "RUN_ERROR":
        throw new Error(event.message);
    }
  }
}

async function* events(body) {
  let text = "";
  for await (const part of body.pipeThrough(new TextDecoderStream())) {
    const frames = (text + part).split("\n\n");
    text = frames.pop();
    for (const frame of frames) {
      const line = frame.split("\n").find((each) => each.startsWith("data: "));
      if (line) yield JSON.parse(line.slice(6));
    }
  }
}
