/** The latest runs that a memory was told to, or a skill was active in. */
import type { ComponentChildren } from "preact";
import { url } from "../api/client";
import { BASE } from "../api/space";
import type { Page, Run } from "../api/types";
import { words } from "../words/en";
import { runInput } from "./run_input";
import { Section, Shown, useResource } from "./screen";
import { Dot, markOf, statusWord } from "./status";
import { Ago } from "./time";

const SHOWN = 10;

interface Props {
  /** The filter of the list of runs. */
  by: { memory_id: string } | { skill: string };
  /** What to say of a run besides its status. */
  of?: (run: Run) => ComponentChildren;
}

export function UsedBy({ by, of }: Props) {
  const runs = useResource<Page<Run>>(url("/api/runs", { ...by, limit: SHOWN }), true);
  const more = runs.value.value?.next_cursor !== null;
  return (
    <Section
      label="Runs that used it"
      note={more && runs.value.value && <a href={url(`${BASE}/runs`, { ...by })}>all of them</a>}
    >
      <Shown of={runs} label="Loading the runs" rows={2}>
        {({ items }) => (
          <>
            {items.length === 0 && <p class="quiet">{words.noUses}</p>}
            <ul class="lines">
              {items.map((run) => (
                <li key={run.id}>
                  <Dot mark={markOf(run)} />
                  <a class="grow" href={`${BASE}/r/${run.id}/context`}>
                    {runInput(run.input) || run.id}
                  </a>
                  {of?.(run)}
                  <span class="quiet">{run.agent_type}</span>
                  <span class="quiet">{statusWord(run)}</span>
                  <span class="end">
                    <Ago at={run.created_at} />
                  </span>
                </li>
              ))}
            </ul>
          </>
        )}
      </Shown>
    </Section>
  );
}
