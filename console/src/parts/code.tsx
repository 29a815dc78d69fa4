/**
 * Code in colours. The colours are highlights of the browser over one plain text: they add no element to the page, and
 * what is written in the code stays text. The file that reads languages is loaded when the first code is shown.
 */
import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Kind, Piece } from "./highlight";

const read = signal<((text: string, language: string) => Piece[]) | null>(null);
let asked = false;

function load(): void {
  if (asked || typeof CSS === "undefined" || !("highlights" in CSS)) return;
  asked = true;
  void import("./highlight").then((module) => (read.value = module.piecesOf)).catch(() => {});
}

export function Code({ text, language }: { text: string; language: string }) {
  const box = useRef<HTMLElement>(null);
  const piecesOf = read.value;
  useLayoutEffect(() => {
    if (language) load();
    const node = box.current?.firstChild;
    if (!piecesOf || !(node instanceof Text) || !language) return;
    const ranges = piecesOf(node.data, language).map(({ kind, from, to }) => {
      const range = new StaticRange({ startContainer: node, startOffset: from, endContainer: node, endOffset: to });
      highlightOf(kind).add(range);
      return [kind, range] as const;
    });
    return () => {
      for (const [kind, range] of ranges) highlightOf(kind).delete(range);
    };
  }, [text, language, piecesOf]);
  return <code ref={box}>{text}</code>;
}

function highlightOf(kind: Kind): Highlight {
  const name = `code-${kind}`;
  let found = CSS.highlights.get(name);
  if (!found) {
    found = new Highlight();
    CSS.highlights.set(name, found);
  }
  return found;
}

/** The language of a file, by the end of its name. */
export function languageOf(path: string): string {
  const name = path.split("/").at(-1) ?? "";
  return name.includes(".") ? (name.split(".").at(-1) ?? "") : name;
}
