/** The skill catalog: where each skill comes from, whether it can be used, and what hides it; and one skill. */
import { useSignal } from "@preact/signals";
import { patch, post, remove, request, url } from "../../api/client";
import { BASE } from "../../api/space";
import type { CatalogSkill, CustomSkill, Page, Run, RunSkills, SkillCatalog, SkillVersion } from "../../api/types";
import { Act, type Field, Form, type Values } from "../../parts/act";
import { count, plural, size } from "../../parts/format";
import { Markdown } from "../../parts/markdown";
import { Rows } from "../../parts/rows";
import { Facts, Filters, Screen, Scroll, Section, Shown, useFilters, useResource } from "../../parts/screen";
import { Empty } from "../../parts/states";
import { Dot } from "../../parts/status";
import { Ago } from "../../parts/time";
import { UsedBy } from "../../parts/uses";
import { words } from "../../words/en";

const SOURCES = [
  ["", "any source"],
  ["official", "official"],
  ["workspace", "workspace"],
  ["agent", "agent"],
  ["space", "space"],
  ["folder", "folder"],
] as const;

const markOf = (skill: CatalogSkill) => (
  <Dot mark={skill.availability === "unavailable" ? "failed" : skill.availability === "warning" ? "waiting" : "done"} />
);
const standing = (skill: CatalogSkill): string =>
  skill.shadowed_by ? `hidden by ${skill.shadowed_by}` : skill.availability;

export function Skills() {
  const { query } = useFilters();
  const adding = useSignal(false);
  const catalog = useResource<SkillCatalog>(url("/api/skills/catalog", { agent: query.agent, locale: query.locale }));
  const q = (query.q ?? "").toLowerCase();
  const filters = (
    <Filters
      search={{ name: "q", label: "Filter skills" }}
      choices={[{ name: "source", label: "Source", of: SOURCES }]}
    />
  );
  const add = (
    <button type="button" onClick={() => (adding.value = true)}>
      Add…
    </button>
  );
  return (
    <Screen title="Skills" filters={filters} actions={add}>
      <Shown of={catalog} label="Loading skills">
        {({ items, broken }) => (
          <>
            {broken.length > 0 && (
              <ul class="broken" aria-label="Broken skills">
                {broken.map((skill) => (
                  <li key={skill.file}>
                    <p>
                      <Dot mark="failed" />
                      <b>{skill.name}</b> <span class="mono quiet">{skill.file}</span>
                    </p>
                    <p class="fail">{skill.message}</p>
                  </li>
                ))}
              </ul>
            )}
            {items.length === 0 && <Empty>{words.noSkills}</Empty>}
            {items.length > 0 && (
              <Rows
                label="Skills"
                items={items.filter(
                  (skill) =>
                    `${skill.name} ${skill.description}`.toLowerCase().includes(q) &&
                    (!query.source || skill.source === query.source),
                )}
                keyOf={(skill) => `${skill.source} ${skill.id}`}
                href={(skill) => url(`${BASE}/skills/${encodeURIComponent(skill.name)}`, { source: skill.source })}
                mark={markOf}
                columns={[
                  { label: "name", width: "14rem", show: (skill) => skill.name },
                  {
                    label: "when it is used",
                    width: "minmax(0, 1fr)",
                    as: "quiet",
                    show: (skill) => skill.description,
                  },
                  { label: "source", width: "6rem", as: "quiet", show: (skill) => skill.source },
                  { label: "locales", width: "6rem", as: "desk", show: (skill) => skill.locales?.join(" ") },
                  { label: "state", width: "9rem", as: "quiet", show: standing },
                ]}
              />
            )}
          </>
        )}
      </Shown>
      {adding.value && (
        <Form
          title="Add a skill to this space"
          action="Add"
          fields={fieldsOf()}
          onSend={async (values, key) => {
            await post("/api/skills", bodyOf(values), key);
            catalog.refresh();
          }}
          onClose={() => (adding.value = false)}
        />
      )}
    </Screen>
  );
}

function fieldsOf(skill?: CustomSkill): Field[] {
  return [
    { name: "name", label: "Name", first: skill?.name ?? "", required: true },
    { name: "description", label: "When it is used", kind: "text", first: skill?.description ?? "", required: true },
    { name: "instructions", label: "Instructions", kind: "text", first: skill?.instructions ?? "", required: true },
    { name: "triggers", label: "Words that call for it, with commas", first: skill?.triggers?.join(", ") ?? "" },
  ];
}

function bodyOf({ triggers = "", ...values }: Values) {
  const list = triggers.split(",").map((word) => word.trim());
  return { ...values, triggers: list.filter(Boolean) };
}

export function SkillPage({ name = "" }: { name?: string }) {
  const { query } = useFilters();
  const catalog = useResource<SkillCatalog>("/api/skills/catalog");
  const custom = useResource<Page<CustomSkill>>("/api/skills?limit=200");
  const own = custom.value.value?.items.find((skill) => skill.name === name);
  const refresh = (): void => {
    catalog.refresh();
    custom.refresh();
  };
  return (
    <Screen
      title={name}
      back={{ href: `${BASE}/skills`, label: "Skills" }}
      actions={own && <Actions skill={own} refresh={refresh} />}
    >
      <Scroll>
        <Shown of={catalog} label="Loading the skill">
          {({ items }) => {
            const named = items.filter((skill) => skill.name === name);
            const skill = named.find((each) => each.source === query.source) ?? named[0];
            if (!skill && !own) return <Empty>{words.gone}</Empty>;
            return (
              <>
                {skill && <About skill={skill} others={named.filter((each) => each !== skill)} />}
                {own && (
                  <Section label="Instructions">
                    <div class="prose text">
                      <Markdown text={own.instructions} />
                    </div>
                  </Section>
                )}
                <UsedBy by={{ skill: name }} of={(run) => <Contract run={run} skill={name} />} />
                {own && <Versions id={own.id} />}
              </>
            );
          }}
        </Shown>
      </Scroll>
    </Screen>
  );
}

/** What became of the contract of a skill in a run. */
function Contract({ run, skill }: { run: Run; skill: string }) {
  const skills = useResource<RunSkills>(`/api/runs/${run.id}/skills`);
  const outcome = skills.value.value?.contracts.find((each) => each.skill === skill);
  if (!outcome) return null;
  return outcome.kept ? (
    <span class="live">contract kept</span>
  ) : (
    <span class="fail">contract broken: no {outcome.missing?.join(", ")}</span>
  );
}

function Actions({ skill, refresh }: { skill: CustomSkill; refresh: () => void }) {
  const editing = useSignal(false);
  const turn = skill.enabled ? "disable" : "enable";
  return (
    <>
      <Act do={() => request("POST", `/api/skills/${skill.id}/${turn}`)} after={refresh}>
        {skill.enabled ? "Switch off" : "Switch on"}
      </Act>
      <button type="button" onClick={() => (editing.value = true)}>
        Edit…
      </button>
      <Act
        look="fail"
        sure="Delete this skill and its versions?"
        do={() => remove(`/api/skills/${skill.id}`)}
        after={refresh}
      >
        Delete
      </Act>
      {editing.value && (
        <Form
          title="Edit this skill"
          action="Save"
          fields={fieldsOf(skill)}
          onSend={async (values) => {
            await patch(`/api/skills/${skill.id}`, bodyOf(values), { "If-Match": `"${skill.version}"` });
            refresh();
          }}
          onClose={() => (editing.value = false)}
        />
      )}
    </>
  );
}

function About({ skill, others }: { skill: CatalogSkill; others: readonly CatalogSkill[] }) {
  const { contract } = skill;
  const must = contract.must_produce?.map((product) => Object.values(product).filter(Boolean).join(" ")).join(", ");
  return (
    <>
      <Section label="Skill">
        <p class="prose">{skill.description}</p>
        <Facts
          of={[
            ["source", skill.source],
            ["state", standing(skill)],
            ["because", skill.availability_reasons?.join("; ")],
            ["warnings", skill.warnings?.join("; ")],
            ["also in", others.map((each) => `${each.source} (${standing(each)})`).join(", ")],
            ["version", count(skill.version)],
            ["triggers", skill.triggers?.join(", ")],
            ["tags", skill.tags?.join(", ")],
            ["locales", skill.locales?.join(", ")],
            ["may use only", skill.allowed_tools?.join(", ")],
          ]}
        />
      </Section>
      <Section label="Contract">
        {must || contract.required_tools?.length || contract.required_mcp_servers?.length ? (
          <Facts
            of={[
              ["must produce", must],
              ["needs tools", contract.required_tools?.join(", ")],
              ["needs MCP servers", contract.required_mcp_servers?.join(", ")],
              ["prefers", contract.preferred_tools?.join(", ")],
            ]}
          />
        ) : (
          <p class="quiet">{words.noContract}</p>
        )}
      </Section>
      {(skill.files?.length ?? 0) > 0 && (
        <Section label="Files" note={plural(skill.files?.length ?? 0, "file")}>
          <ul class="lines">
            {skill.files?.map((file) => (
              <li key={file.path}>
                <span class="mono grow">{file.path}</span>
                <span class="end">{size(file.size)}</span>
              </li>
            ))}
          </ul>
        </Section>
      )}
    </>
  );
}

function Versions({ id }: { id: string }) {
  const versions = useResource<{ items: SkillVersion[] }>(`/api/skills/${id}/versions`);
  const items = versions.value.value?.items ?? [];
  return (
    <Section label="Versions">
      <ul class="lines">
        {items.toReversed().map((version) => (
          <li key={version.version}>
            <b>{version.version}</b>
            <span class="grow">{version.content.description}</span>
            {!version.enabled && <span class="quiet">off</span>}
            <span class="end">
              {version.changed_by ? `${version.changed_by}, ` : ""}
              <Ago at={version.created_at} />
            </span>
          </li>
        ))}
      </ul>
    </Section>
  );
}
