// The page's "JavaScript example" as it stands, but for the address. Node has no EventSource that is not experimental:
// this one does what the page's example uses of it, reconnecting included.

class EventSource extends EventTarget {
  onerror = null;
  opened = 0;
  #leave = new AbortController();
  #last = '';
  #retry = 3000;

  constructor(url) {
    super();
    this.url = url;
    this.closed = new Promise(done => this.#leave.signal.addEventListener('abort', done));
    this.#stay();
  }

  close() {
    this.#leave.abort();
  }

  async #stay() {
    const { signal } = this.#leave;
    while (!signal.aborted) {
      this.opened += 1;
      try {
        const headers = this.#last ? { 'Last-Event-ID': this.#last } : {};
        const answer = await fetch(this.url, { headers, signal });
        await this.#read(answer.body);
      } catch (error) {
        if (!signal.aborted) console.log('broken off:', error.message);
      }
      if (signal.aborted) return;
      console.log('ended by the server');
      this.onerror?.();
      if (!signal.aborted) await new Promise(r => setTimeout(r, this.#retry));
    }
  }

  async #read(body) {
    const text = new TextDecoder();
    let rest = '';
    let frame = { event: 'message', data: [] };
    for await (const bytes of body) {
      const lines = (rest + text.decode(bytes, { stream: true })).split('\n');
      rest = lines.pop();
      for (const line of lines) {
        if (this.#leave.signal.aborted) return;
        if (line === '') {
          if (frame.data.length) this.dispatchEvent(new MessageEvent(frame.event, { data: frame.data.join('\n') }));
          frame = { event: 'message', data: [] };
        } else {
          this.#take(frame, ...line.split(/: ?(.*)/s));
        }
      }
    }
  }

  #take(frame, field, value) {
    if (field === 'event') frame.event = value;
    if (field === 'data') frame.data.push(value);
    if (field === 'id') this.#last = value;
    if (field === 'retry') this.#retry = Number(value);
  }
}

const source = new EventSource(process.argv[2]);

source.addEventListener('status', (e) => {
  const { status, output } = JSON.parse(e.data);
  console.log('Current status:', status);
});

source.addEventListener('task', (e) => {
  const ev = JSON.parse(e.data);
  if (ev.type === 'tool.start' || ev.event?.type === 'tool.start') {
    const toolName = ev.data?.toolName || ev.event?.toolName;
    console.log('Tool call:', toolName);
  }
  if (ev.type === 'task.status' && ['finished','failed','canceled'].includes(ev.event?.status)) {
    source.close();
  }
});

source.onerror = () => source.close();

await source.closed;
console.log('closed, opened', source.opened);
