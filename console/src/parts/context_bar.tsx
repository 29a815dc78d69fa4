/** The tokens of a context on one line, and by name. */
import type { RunContext } from "../api/types";
import { count } from "./format";

type Context = NonNullable<RunContext["context"]>;
const SHADES = ["a", "b", "c", "d", "e"];

export function ContextBar({ context, before }: { context: Context; before?: Context | null }) {
  const parts = Object.entries(context.tokens).filter(([, tokens]) => tokens > 0);
  const total = parts.reduce((sum, [, tokens]) => sum + tokens, 0) || 1;
  return (
    <>
      <div class="told-bar" aria-hidden="true">
        {parts.map(([name, tokens], index) => (
          <i key={name} class={SHADES[index % SHADES.length]} style={{ "--long": tokens / total }} />
        ))}
      </div>
      <ul class="told-parts">
        {parts.map(([name, tokens], index) => (
          <li key={name}>
            <i class={SHADES[index % SHADES.length]} aria-hidden="true" />
            <span>{name.replaceAll("_", " ")}</span>
            {before && <small>{difference(tokens - (before.tokens[name] ?? 0))}</small>}
            <b>{count(tokens)}</b>
          </li>
        ))}
      </ul>
    </>
  );
}

function difference(tokens: number): string {
  if (tokens === 0) return "as before";
  return tokens > 0 ? `+${count(tokens)}` : `−${count(-tokens)}`;
}
