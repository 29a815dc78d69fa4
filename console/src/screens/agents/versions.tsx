/** The published versions of an agent: what each changed, which one new runs get, and a way back. */
import { useSignal } from "@preact/signals";
import { post, url } from "../../api/client";
import type { AgentVersion, AgentVersionDiff, AgentVersionPage } from "../../api/types";
import { Act } from "../../parts/act";
import { Diff } from "../../parts/diff";
import { plural, size } from "../../parts/format";
import { Section, Shown, useResource } from "../../parts/screen";
import { Dot } from "../../parts/status";
import { Ago } from "../../parts/time";
import { words } from "../../words/en";

const SHOWN = 20;

export function Versions({ agent, after }: { agent: string; after: () => void }) {
  const path = `/api/agents/${encodeURIComponent(agent)}/versions`;
  const page = useResource<AgentVersionPage>(url(path, { limit: SHOWN }));
  const found = page.value.value;
  const rolledBack = found && found.active !== found.published;
  const note = rolledBack ? "not the newest is in use" : found && plural(found.items.length, "version");
  return (
    <Section label="Versions" note={found?.next_cursor ? `the latest ${SHOWN}` : note}>
      <Shown of={page} label="Loading the versions" rows={2}>
        {({ items, changed_by: by, changed_at: at }) => (
          <>
            {items.length === 0 && <p class="quiet">{words.noVersions}</p>}
            {rolledBack && (
              <p class="note-line">
                An earlier version was activated <Ago at={at} />
                {by ? ` by ${by}` : ""}. It holds until a file of the agent is edited.
              </p>
            )}
            <ul class="lines versions">
              {items.map((version, index) => (
                <Version
                  key={version.digest}
                  version={version}
                  before={items[index + 1]}
                  path={path}
                  after={() => {
                    page.refresh();
                    after();
                  }}
                />
              ))}
            </ul>
          </>
        )}
      </Shown>
    </Section>
  );
}

interface Props {
  version: AgentVersion;
  before: AgentVersion | undefined;
  path: string;
  after: () => void;
}

function Version({ version, before, path, after }: Props) {
  const open = useSignal(false);
  const { digest, active, files, published_at: at, published_by: by } = version;
  const total = files.reduce((sum, file) => sum + file.size, 0);
  return (
    <li>
      <span class="state">
        <Dot mark={active ? "live" : ""} />
        <b class="mono">{digest.slice(0, 10)}</b>
      </span>
      <span class="grow quiet">
        <Ago at={at} />
        {by ? ` by ${by}` : ""}, {plural(files.length, "file")}, {size(total)}
      </span>
      {before && (
        <button type="button" class="bare" aria-expanded={open.value} onClick={() => (open.value = !open.value)}>
          Changes
        </button>
      )}
      {active ? (
        <span class="live">in use</span>
      ) : (
        <Act
          sure={`Give new runs the version ${digest.slice(0, 10)}? Runs that have begun keep theirs.`}
          do={() => post(`${path}/${digest}/activate`)}
          after={after}
        >
          Activate
        </Act>
      )}
      {open.value && before && <Changes path={url(`${path}/${before.digest}/diff`, { to: digest })} />}
    </li>
  );
}

function Changes({ path }: { path: string }) {
  const diff = useResource<AgentVersionDiff>(path);
  return (
    <div class="changes">
      <Shown of={diff} label="Loading the changes" rows={2}>
        {({ files }) => (
          <>
            {files.length === 0 && <p class="quiet">No file changed.</p>}
            {files.map((file) => (
              <div key={file.path}>
                <p class="mono">
                  {file.path} <span class="quiet">{file.change}</span>
                </p>
                {file.diff && <Diff text={file.diff} path={file.path} />}
              </div>
            ))}
          </>
        )}
      </Shown>
    </div>
  );
}
