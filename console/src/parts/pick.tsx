/** A dialog that offers a long list with a filter: an agent, or a model. */
import { useSignal } from "@preact/signals";
import { useId, useLayoutEffect, useRef } from "preact/hooks";

export interface Option {
  value: string;
  label: string;
  hint?: string;
}

interface Props {
  title: string;
  options: readonly Option[] | null;
  /** What was typed may be taken as it is, although the list does not have it. */
  free?: boolean;
  onPick: (value: string) => void;
  onClose: () => void;
}

const MAX_SHOWN = 60;

export function Pick({ title, options, free, onPick, onClose }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const q = useSignal("");
  const id = useId();
  useLayoutEffect(() => {
    dialog.current?.showModal();
    dialog.current?.querySelector("input")?.focus();
  }, []);
  const word = q.value.trim().toLowerCase();
  const found = (options ?? []).filter((each) => `${each.label} ${each.hint ?? ""}`.toLowerCase().includes(word));
  const own = q.value.trim();
  const isNew = free && own !== "" && !found.some((each) => each.value === own);
  const shown = [...found.slice(0, MAX_SHOWN), ...(isNew ? [{ value: own, label: `Use “${own}”` } as Option] : [])];
  const pick = (option: Option | undefined): void => {
    if (!option) return;
    onPick(option.value);
    onClose();
  };
  const move = (event: KeyboardEvent): void => {
    const all = [...(dialog.current?.querySelectorAll<HTMLElement>("input, [role=option]") ?? [])];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter" && event.target instanceof HTMLInputElement) pick(shown[0]);
    else if (step !== undefined)
      all[(all.indexOf(document.activeElement as HTMLElement) + step + all.length) % all.length]?.focus();
    else return;
    event.preventDefault();
  };
  return (
    <dialog ref={dialog} class="picker" aria-labelledby={`${id}t`} onClose={onClose} onKeyDown={move}>
      <h2 id={`${id}t`}>{title}</h2>
      <label class="sr" for={id}>
        Filter
      </label>
      <input
        id={id}
        type="search"
        placeholder="Filter"
        autocomplete="off"
        onInput={(event) => (q.value = event.currentTarget.value)}
      />
      {options === null && <p class="quiet">Loading</p>}
      {options !== null && shown.length === 0 && <p class="quiet">Nothing of this name.</p>}
      {shown.length > 0 && (
        <div role="listbox" aria-label={title}>
          {shown.map((each) => (
            <button
              key={each.value}
              type="button"
              class="bare"
              role="option"
              aria-selected={false}
              onClick={() => pick(each)}
            >
              <span>{each.label}</span>
              {each.hint && <small>{each.hint}</small>}
            </button>
          ))}
        </div>
      )}
      {found.length > MAX_SHOWN && <p class="quiet">{found.length - MAX_SHOWN} more: type a part of the name.</p>}
      <div class="do">
        <button type="button" class="bare" onClick={onClose}>
          Cancel
        </button>
      </div>
    </dialog>
  );
}
