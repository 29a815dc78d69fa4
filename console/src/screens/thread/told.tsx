/** What the model was told at its latest call, by part; and the skills of the run with what became of their contracts. */
import { BASE } from "../../api/space";
import type { RunContext, RunSkills } from "../../api/types";
import type { ThreadView } from "../../live/thread";
import { ContextBar } from "../../parts/context_bar";
import { count } from "../../parts/format";
import { Shown, useResource } from "../../parts/screen";
import { Empty } from "../../parts/states";
import { words } from "../../words/en";

export function Told({ view }: { view: ThreadView }) {
  const run = view.current?.id;
  if (!run) return <Empty>{words.noContext}</Empty>;
  return <Loaded key={run} run={run} />;
}

function Loaded({ run }: { run: string }) {
  const context = useResource<RunContext>(`/api/runs/${run}/context`, true);
  const skills = useResource<RunSkills>(`/api/runs/${run}/skills`, true);
  return (
    <>
      <Shown of={context} label="Loading the context">
        {({ context: found }) =>
          found === null ? (
            <Empty>{words.noContext}</Empty>
          ) : (
            <section aria-labelledby="h-told">
              <h2 class="label" id="h-told">
                Told at step {found.step}
                <span>{count(Object.values(found.tokens).reduce((sum, each) => sum + each, 0))} tokens</span>
              </h2>
              <ContextBar context={found} />
              <p>
                <a class="link" href={`${BASE}/r/${run}/context/${found.step}`}>
                  All of it, and what changed
                </a>
              </p>
            </section>
          )
        }
      </Shown>
      {skills.value.value && <Skills skills={skills.value.value} />}
    </>
  );
}

function Skills({ skills }: { skills: RunSkills }) {
  const { active, left_out: left, contracts, contract_reminders: reminded } = skills;
  return (
    <section aria-labelledby="h-skills">
      <h2 class="label" id="h-skills">
        Skills<span>{active.length} chosen</span>
      </h2>
      {active.length === 0 && <p class="quiet">{words.noActiveSkill}</p>}
      <ul class="lines">
        {active.map((skill) => {
          const kept = contracts.find((each) => each.skill === skill.name);
          return (
            <li key={skill.id}>
              <a href={`${BASE}/skills/${encodeURIComponent(skill.name)}?source=${skill.source}`}>{skill.name}</a>
              <span class="grow quiet">
                {[skill.cause, ...(skill.reasons ?? [])].join(", ")}
                {skill.score == null ? "" : ` (${skill.score.toFixed(2)})`}
              </span>
              {kept && (
                <span class={kept.kept ? "live" : "fail"}>
                  {kept.kept
                    ? `contract kept: ${kept.evidence?.join(", ")}`
                    : `contract broken: no ${kept.missing?.join(", ")}`}
                </span>
              )}
            </li>
          );
        })}
      </ul>
      {reminded > 0 && <p class="quiet">The agent was reminded of a contract {reminded} times.</p>}
      {left.length > 0 && (
        <>
          <h3 class="label">Left out</h3>
          <ul class="lines">
            {left.map((skill) => (
              <li key={skill.name}>
                <b>{skill.name}</b>
                <span class="grow quiet">{skill.reason}</span>
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}
