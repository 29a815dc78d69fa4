/** The states that every screen shares: loading, empty, error, not allowed, gone. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { ApiError } from "../api/client";
import { words } from "../words/en";

/** Rows of the right height, after a moment: what is quick shows nothing in between. */
export function Loading({ rows = 6, label }: { rows?: number; label: string }) {
  const [shown, show] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => show(true), 150);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div class="loading" role="status" aria-label={label}>
      {shown && Array.from({ length: rows }, (_, index) => <i key={index} />)}
    </div>
  );
}

export function Empty({ children, command }: { children: ComponentChildren; command?: string }) {
  return (
    <div class="empty">
      <p>{children}</p>
      {command && <Command text={command} />}
    </div>
  );
}

export function Command({ text }: { text: string }) {
  const [copied, note] = useState(false);
  const copy = (): void => {
    void navigator.clipboard?.writeText(text).then(() => note(true));
  };
  return (
    <p class="command">
      <code>{text}</code>
      <button type="button" class="bare" onClick={copy}>
        {copied ? "Copied" : "Copy"}
      </button>
    </p>
  );
}

export function Failure({ error, retry }: { error: ApiError; retry: () => void }) {
  const title = error.status === 404 ? words.gone : error.status === 403 ? words.notAllowed : error.message;
  return (
    <div class="empty" role="alert">
      <p>{title}</p>
      {title !== error.message && <p class="quiet">{error.message}</p>}
      <p class="quiet mono">{[error.code, error.requestId].filter(Boolean).join(" · ")}</p>
      <button type="button" onClick={retry}>
        Try again
      </button>
    </div>
  );
}
