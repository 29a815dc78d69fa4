/** All keys, in a dialog. */
import { useEffect, useRef } from "preact/hooks";
import { helpShown } from "../parts/keys";
import { PLACES } from "./places";

const KEYS: [string, string][] = [
  ["Ctrl K", "find or do"],
  ...PLACES.flatMap((place): [string, string][] => (place.key ? [[`g ${place.key}`, place.label.toLowerCase()]] : [])),
  ["j k", "next, previous"],
  ["Enter", "open"],
  ["/", "filter"],
  ["a", "approve"],
  ["d", "deny"],
  ["e", "edit the arguments"],
  ["f", "fork"],
  ["c", "compare with another branch"],
  ["[ ]", "previous, next fork point"],
  [".", "next failure"],
  ["End", "newest, follow"],
  ["y", "copy the link"],
  ["Esc", "back"],
];

export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const close = (): void => {
    helpShown.value = false;
  };
  return (
    <dialog ref={dialog} aria-labelledby="keys" onClose={close}>
      <h2 id="keys">Keys</h2>
      <dl class="facts">
        {KEYS.map(([key, meaning]) => (
          <>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{meaning}</dd>
          </>
        ))}
      </dl>
      <div class="do">
        <button type="button" onClick={() => dialog.current?.close()}>
          Close
        </button>
      </div>
    </dialog>
  );
}
