/** Bars and columns with their names and figures: lists that are drawn, so they are read as well as they are seen. */
import type { ComponentChildren } from "preact";

export interface Bar {
  name: string;
  value: number;
  label: ComponentChildren;
  note?: string;
  href?: string;
}

export function BarChart({ bars, label }: { bars: readonly Bar[]; label: string }) {
  const most = Math.max(...bars.map((bar) => bar.value), 0);
  return (
    <ul class="bars-chart" aria-label={label}>
      {bars.map((bar) => (
        <li key={bar.href ?? bar.name}>
          <span class="name">{bar.href ? <a href={bar.href}>{bar.name}</a> : bar.name}</span>
          <span class="lane" aria-hidden="true">
            <i style={{ "--for": `${most === 0 ? 0 : (bar.value / most) * 100}%` }} />
          </span>
          <span class="figure">{bar.label}</span>
          {bar.note && <small class="quiet">{bar.note}</small>}
        </li>
      ))}
    </ul>
  );
}

/** Columns side by side, for days: the first and the last are named, and each says what it is on hover. */
export function ColumnChart({ bars, label }: { bars: readonly Bar[]; label: string }) {
  const most = Math.max(...bars.map((bar) => bar.value), 0);
  return (
    <>
      <ul class="columns-chart" aria-label={label}>
        {bars.map((bar) => (
          <li key={bar.name} title={`${bar.name}: ${bar.note ?? "nothing"}`}>
            <i style={{ "--for": `${most === 0 ? 0 : (bar.value / most) * 100}%` }} />
            <span class="sr">
              {bar.name}: {bar.note ?? "nothing"}
            </span>
          </li>
        ))}
      </ul>
      <p class="columns-ends" aria-hidden="true">
        <span>{bars[0]?.name}</span>
        <span>{bars.at(-1)?.name}</span>
      </p>
    </>
  );
}
