/** Keys of the whole console. Single letters do nothing while somebody types, and can be switched off. */
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";

export type Keys = Record<string, (event: KeyboardEvent) => void>;

const STORE = "holdfast.keys";
export const lettersOn = signal(localStorage.getItem(STORE) !== "off");
export const helpShown = signal(false);

export function setLetters(on: boolean): void {
  lettersOn.value = on;
  localStorage.setItem(STORE, on ? "on" : "off");
}

const layers: Keys[] = [];
let prefix = "";

function typing(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  if (document.querySelector("dialog[open]")) return;
  if (event.key.length === 1 && !lettersOn.value) return;
  const key = prefix + event.key;
  prefix = event.key === "g" && prefix === "" ? "g " : "";
  for (const layer of [...layers].reverse()) {
    const found = layer[key];
    if (!found) continue;
    event.preventDefault();
    found(event);
    return;
  }
});

/** Keys of a screen or a part, while it is shown; the newest layer wins. */
export function useKeys(keys: Keys): void {
  useEffect(() => {
    layers.push(keys);
    return () => void layers.splice(layers.indexOf(keys), 1);
  });
}
