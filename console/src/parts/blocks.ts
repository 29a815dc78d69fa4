/** A Markdown text as blocks that no later text can change, and a last one that still grows. */
export interface Blocks {
  text: string;
  blocks: string[];
}

export function splitBlocks(text: string, done: Blocks): Blocks {
  const grows = done.blocks.length > 0 && text.startsWith(done.text);
  const blocks = grows ? done.blocks.slice(0, -1) : [];
  const start = grows ? done.text.length - (done.blocks.at(-1)?.length ?? 0) : 0;
  return { text, blocks: [...blocks, ...cut(text.slice(start))] };
}

/** Cut before each unindented line that follows an empty line, but never inside a fence. */
function cut(text: string): string[] {
  const blocks: string[] = [];
  let [from, at, empty] = [0, 0, false];
  let fence: string | null = null;
  for (const line of text.split(/(?<=\n)/)) {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (fence === null && empty && at > from && /^\S/.test(line)) {
      blocks.push(text.slice(from, at));
      from = at;
    }
    if (fence === null) fence = mark ?? null;
    else if (mark?.startsWith(fence) && line.trim() === mark) fence = null;
    empty = line.trim() === "";
    at += line.length;
  }
  blocks.push(text.slice(from));
  return blocks;
}
