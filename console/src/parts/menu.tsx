/** A button that opens a short list of things to do, and a dialog that asks for a line. */
import type { ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";

export interface Choice {
  label: string;
  hint?: string;
  do: () => void;
  tone?: "fail";
}

export function Menu({ label, choices, children }: { label: string; choices: Choice[]; children: ComponentChildren }) {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const id = useId();
  const shut = (): void => {
    setOpen(false);
    box.current?.querySelector("button")?.focus();
  };
  useEffect(() => {
    if (!open) return;
    box.current?.querySelector<HTMLElement>("[role=menuitem]")?.focus();
    const outside = (event: Event): void => {
      if (!box.current?.contains(event.target as Node)) setOpen(false);
    };
    addEventListener("pointerdown", outside);
    return () => removeEventListener("pointerdown", outside);
  }, [open]);
  const move = (event: KeyboardEvent): void => {
    const items = [...(box.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
    const at = items.indexOf(document.activeElement as HTMLElement);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") shut();
    else if (step !== undefined) items[(at + step + items.length) % items.length]?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="menu" ref={box}>
      <button
        type="button"
        class="bare"
        aria-label={label}
        aria-haspopup="menu"
        aria-expanded={open}
        aria-controls={open ? id : undefined}
        onClick={() => setOpen(!open)}
      >
        {children}
      </button>
      {open && (
        <div role="menu" id={id} tabIndex={-1} onKeyDown={move}>
          {choices.map((choice) => (
            <button
              key={choice.label}
              type="button"
              role="menuitem"
              class={`bare ${choice.tone ?? ""}`}
              onClick={() => {
                shut();
                choice.do();
              }}
            >
              {choice.label}
              {choice.hint && <small>{choice.hint}</small>}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}

interface AskProps {
  title: string;
  label: string;
  first?: string;
  action: string;
  multiline?: boolean;
  onDone: (text: string) => void;
  onClose: () => void;
}

/** A modal dialog with one field. */
export function Ask({ title, label, first = "", action, multiline, onDone, onClose }: AskProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const field = useRef<HTMLTextAreaElement & HTMLInputElement>(null);
  const id = useId();
  // At once: the next key must already be in the field.
  useLayoutEffect(() => {
    dialog.current?.showModal();
    field.current?.focus();
    field.current?.select();
  }, []);
  const send = (event: Event): void => {
    event.preventDefault();
    onDone(field.current?.value ?? "");
    onClose();
  };
  const submitOnEnter = (event: KeyboardEvent): void => {
    if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) send(event);
  };
  return (
    <dialog ref={dialog} aria-labelledby={`${id}t`} onClose={onClose}>
      <form method="dialog" onSubmit={send}>
        <h2 id={`${id}t`}>{title}</h2>
        <label for={id}>{label}</label>
        {multiline ? (
          <textarea id={id} ref={field} rows={6} defaultValue={first} onKeyDown={submitOnEnter} />
        ) : (
          <input id={id} ref={field} defaultValue={first} autocomplete="off" />
        )}
        <div class="do">
          <button type="submit" class="first">
            {action}
          </button>
          <button type="button" class="bare" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </dialog>
  );
}
