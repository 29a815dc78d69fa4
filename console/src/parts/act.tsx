/** Things a person does: a button with its refusal beside it, and a dialog that keeps what was typed until it is done. */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { ApiError, newKey } from "../api/client";

export const wordsOf = (error: unknown): string => (error instanceof ApiError ? error.message : String(error));

interface ActProps {
  do: () => Promise<unknown>;
  /** What is read again afterwards. */
  after?: () => void;
  /** Asked before it is done. */
  sure?: string;
  look?: "first" | "bare" | "fail";
  children: ComponentChildren;
}

export function Act({ do: what, after, sure, look, children }: ActProps) {
  const busy = useSignal(false);
  const problem = useSignal("");
  const asking = useSignal(false);
  const act = async (): Promise<void> => {
    busy.value = true;
    problem.value = "";
    try {
      await what();
      after?.();
    } catch (error) {
      problem.value = wordsOf(error);
    }
    busy.value = false;
  };
  const press = (): void => {
    if (sure) asking.value = true;
    else void act();
  };
  return (
    <>
      <button type="button" class={look === "fail" ? "bare fail" : look} disabled={busy.value} onClick={press}>
        {children}
      </button>
      {problem.value && (
        <span class="fail refused" role="alert">
          {problem.value}
        </span>
      )}
      {asking.value && (
        <Form
          title={sure ?? ""}
          action={children}
          fields={[]}
          onSend={async () => {
            await what();
            after?.();
          }}
          onClose={() => (asking.value = false)}
        />
      )}
    </>
  );
}

export interface Field {
  name: string;
  label: string;
  kind?: "line" | "text" | "number" | "check" | "choice";
  first?: string | undefined;
  of?: readonly (readonly [value: string, word: string])[];
  hint?: string;
  required?: boolean;
}

export type Values = Record<string, string>;

interface FormProps {
  title: string;
  action: ComponentChildren;
  fields: readonly Field[];
  /** Sends the values under a key that a repeat of the same values carries too. */
  onSend: (values: Values, key: string) => Promise<unknown>;
  onClose: () => void;
}

export function Form({ title, action, fields, onSend, onClose }: FormProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const keys = useRef(new Map<string, string>());
  const busy = useSignal(false);
  const problem = useSignal("");
  const id = useId();
  useLayoutEffect(() => {
    dialog.current?.showModal();
    dialog.current?.querySelector<HTMLElement>("input, textarea, select, button")?.focus();
  }, []);
  const send = async (event: Event): Promise<void> => {
    event.preventDefault();
    const values = valuesOf(event.currentTarget as HTMLFormElement, fields);
    const intent = JSON.stringify(values);
    const key = keys.current.get(intent) ?? newKey();
    keys.current.set(intent, key);
    busy.value = true;
    try {
      await onSend(values, key);
      onClose();
    } catch (error) {
      problem.value = wordsOf(error);
      busy.value = false;
    }
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key === "Enter" && (event.metaKey || event.ctrlKey))
      (event.currentTarget as HTMLFormElement).requestSubmit();
  };
  return (
    <dialog ref={dialog} aria-labelledby={id} onClose={onClose}>
      <form method="dialog" class="form" onSubmit={(event) => void send(event)} onKeyDown={onKey}>
        <h2 id={id}>{title}</h2>
        {fields.map((field) => (
          <FieldOf key={field.name} field={field} id={`${id}-${field.name}`} />
        ))}
        {problem.value && (
          <p class="fail" role="alert">
            {problem.value}
          </p>
        )}
        <div class="do">
          <button type="submit" class="first" disabled={busy.value}>
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

function FieldOf({ field, id }: { field: Field; id: string }) {
  const { name, label, kind = "line", first = "", of = [], hint, required } = field;
  const described = hint ? { "aria-describedby": `${id}-hint` } : {};
  const own = { id, name, required, ...described };
  return (
    <div class={kind === "check" ? "check" : undefined}>
      <label for={id}>{label}</label>
      {kind === "text" && <textarea {...own} rows={4} defaultValue={first} />}
      {kind === "choice" && (
        <select {...own} defaultValue={first} value={first}>
          {of.map(([value, word]) => (
            <option key={value} value={value}>
              {word}
            </option>
          ))}
        </select>
      )}
      {kind === "check" && <input {...own} type="checkbox" defaultChecked={first !== ""} />}
      {(kind === "line" || kind === "number") && (
        <input {...own} defaultValue={first} autocomplete="off" inputMode={kind === "number" ? "decimal" : "text"} />
      )}
      {hint && (
        <small id={`${id}-hint`} class="quiet">
          {hint}
        </small>
      )}
    </div>
  );
}

function valuesOf(form: HTMLFormElement, fields: readonly Field[]): Values {
  return Object.fromEntries(
    fields.map(({ name }) => {
      const control = form.elements.namedItem(name) as HTMLInputElement;
      return [name, control.type === "checkbox" ? (control.checked ? "yes" : "") : control.value.trim()];
    }),
  );
}
