/** The whole run on one line, each step as long as it took. A click goes there. */
import type { ThreadView } from "../../live/thread";
import { type Span, spansOf } from "../../log/ruler";
import { duration, plural } from "../../parts/format";
import { now } from "../../parts/time";

const MAX_SPANS = 160;

export function Ruler({ view, onGo }: { view: ThreadView; onGo: (step: number) => void }) {
  const run = view.current;
  view.version.value;
  const steps = run ? (view.steps.value.get(run.id) ?? []) : [];
  const log = run ? view.logs.get(run.id) : undefined;
  const all = spansOf(steps, log?.breaks ?? [], Math.max(now.value, Date.now()), view.askedAt);
  const spans = all.slice(-MAX_SPANS);
  return (
    <div class="ruler" role="img" aria-label={`The run on one line: ${summary(all)}.`}>
      <ol aria-hidden="true">
        {spans.map((span, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the keys of the conversation lead to every row
          <li
            key={index}
            class={classOf(span)}
            style={{ "--long": span.long }}
            onClick={() => onGo(span.number)}
            title={span.kind === "fold" ? "" : `${span.name || "a worker was lost"} · ${duration(span.to - span.from)}`}
          >
            {span.kind === "fold"
              ? `// ${duration(span.to - span.from)
                  .split(" ")
                  .slice(0, 2)
                  .join(" ")}`
              : ""}
          </li>
        ))}
      </ol>
    </div>
  );
}

function classOf(span: Span): string {
  if (span.kind === "wait") return span.open ? "open here" : "open";
  return span.open ? `${span.kind} here` : span.kind;
}

function summary(spans: readonly Span[]): string {
  const of = (kind: Span["kind"]): number => spans.filter((span) => span.kind === kind).length;
  const parts = [
    plural(of("model"), "model call"),
    plural(of("tool") + of("wait"), "tool call"),
    of("child") > 0 ? plural(of("child"), "child", "children") : "",
    of("lost") > 0 ? plural(of("lost"), "lost worker") : "",
    spans.some((span) => span.kind === "wait" && span.open) ? "and now a question" : "",
  ];
  return parts.filter(Boolean).join(", ");
}
