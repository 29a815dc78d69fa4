/** Find or do, with Ctrl K: go to a screen or a thread, change the theme, or look for a text in everything. */
import { signal, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { useLocation } from "preact-iso";
import { BASE } from "../api/space";
import { byTitle, type Hit } from "../live/find";
import { recent } from "../live/threads";
import { Icon, type IconName } from "../parts/icon";
import { helpShown } from "../parts/keys";
import { PLACES } from "./places";
import { setTheme } from "./theme";

export const paletteShown = signal(false);

addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
  event.preventDefault();
  paletteShown.value = !paletteShown.value;
});

interface Entry {
  key: string;
  icon: IconName;
  label: string;
  hint: string;
  do: () => void;
}

const ICONS: Record<Hit["kind"], IconName> = {
  run: "run",
  thread: "thread",
  artifact: "file",
  memory: "memory",
  interrupt: "ask",
  agent: "agent",
  message: "thread",
};
const MAX_ENTRIES = 14;
const TYPING_MS = 120;

export function Palette() {
  const { route } = useLocation();
  const dialog = useRef<HTMLDialogElement>(null);
  const q = useSignal("");
  const at = useSignal(0);
  const found = useSignal<Hit[]>([]);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  useEffect(() => {
    const text = q.value.trim();
    const timer = setTimeout(() => {
      if (text === "") found.value = [];
      else
        void byTitle(text)
          .then((hits) => {
            if (q.value.trim() === text) found.value = hits;
          })
          .catch(() => {});
    }, TYPING_MS);
    return () => clearTimeout(timer);
  }, [q.value]);
  const shut = (): void => {
    paletteShown.value = false;
  };
  const entries = entriesOf(q.value.trim(), found.value, route);
  const chosen = Math.min(at.value, entries.length - 1);
  const run = (entry: Entry | undefined): void => {
    shut();
    entry?.do();
  };
  const onKey = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) at.value = (chosen + step + entries.length) % entries.length;
    else if (event.key === "Enter") run(entries[chosen]);
    else return;
    event.preventDefault();
  };
  return (
    <dialog ref={dialog} class="palette" aria-label="Find or do" onClose={shut}>
      <input
        type="text"
        role="combobox"
        aria-label="Find or do"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={`palette-${chosen}`}
        placeholder="Find or do"
        autocomplete="off"
        value={q.value}
        onInput={(event) => {
          q.value = event.currentTarget.value;
          at.value = 0;
        }}
        onKeyDown={onKey}
      />
      <div id="palette-list" role="listbox" aria-label="What can be done">
        {entries.map((entry, index) => (
          <Line
            key={entry.key}
            id={`palette-${index}`}
            entry={entry}
            chosen={index === chosen}
            onRun={() => run(entry)}
          />
        ))}
      </div>
    </dialog>
  );
}

function Line({ id, entry, chosen, onRun }: { id: string; entry: Entry; chosen: boolean; onRun: () => void }) {
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the field above has the keys of the list
    <div id={id} role="option" aria-selected={chosen} tabIndex={-1} onClick={onRun}>
      <Icon name={entry.icon} />
      <span>{entry.label}</span>
      <small>{entry.hint}</small>
    </div>
  );
}

function entriesOf(q: string, found: readonly Hit[], route: (to: string) => void): Entry[] {
  const go = (path: string) => () => route(`${BASE}/${path}`);
  const places = PLACES.map(
    (place): Entry => ({
      key: place.path,
      icon: place.icon,
      label: place.label,
      hint: place.key ? `g ${place.key}` : "",
      do: go(place.path),
    }),
  );
  const acts: Entry[] = [
    { key: "new", icon: "pen", label: "Begin a thread", hint: "", do: go("threads") },
    { key: "light", icon: "gear", label: "Light theme", hint: "", do: () => setTheme("light") },
    { key: "dark", icon: "gear", label: "Dark theme", hint: "", do: () => setTheme("dark") },
    { key: "system", icon: "gear", label: "Theme of the system", hint: "", do: () => setTheme("system") },
    { key: "key", icon: "ask", label: "All keys", hint: "?", do: () => (helpShown.value = true) },
  ];
  if (q === "") {
    const latest = (recent.items.value ?? []).slice(0, 5).map(
      (thread): Entry => ({
        key: thread.id,
        icon: "thread",
        label: thread.title ?? thread.id,
        hint: "thread",
        do: go(`t/${thread.id}`),
      }),
    );
    return [...latest, ...places];
  }
  const word = q.toLowerCase();
  const own = [...places, ...acts].filter((entry) => entry.label.toLowerCase().includes(word));
  const hits = found.map(
    (hit): Entry => ({
      key: hit.key,
      icon: ICONS[hit.kind],
      label: hit.title,
      hint: hit.kind,
      do: () => route(hit.href),
    }),
  );
  const all: Entry = {
    key: "find",
    icon: "find",
    label: `Find “${q}” in everything`,
    hint: "",
    do: go(`find?q=${encodeURIComponent(q)}`),
  };
  return [...[...own, ...hits].slice(0, MAX_ENTRIES), all];
}
