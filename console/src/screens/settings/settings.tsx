/** The parts of the settings: the file of the workspace, models, keys, spaces, and the rules that people gave. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ApiError, readTagged, request } from "../../api/client";
import type { SettingsView } from "../../api/types";
import { Form } from "../../parts/act";
import { Rows } from "../../parts/rows";
import { Screen } from "../../parts/screen";
import { SettingsTabs } from "../../parts/settings_tabs";
import { Failure, Loading } from "../../parts/states";
import { words } from "../../words/en";
import { Keys } from "./keys";
import { Models } from "./models";
import { Rules } from "./rules";
import { Spaces } from "./spaces";
import "./settings.css";

export function Settings({ part = "" }: { part?: string }) {
  switch (part) {
    case "models":
      return <Models />;
    case "keys":
      return <Keys />;
    case "spaces":
      return <Spaces />;
    case "rules":
      return <Rules />;
    default:
      return <Workspace />;
  }
}

/** `settings.json`: each setting as it is, changed only if nobody else changed the file since it was read. */
function Workspace() {
  const read = useSignal<{ value: SettingsView; etag: string | null } | null>(null);
  const error = useSignal<ApiError | null>(null);
  const changing = useSignal<string | null>(null);
  const load = (): void =>
    void readTagged<SettingsView>("/settings")
      .then((found) => (read.value = found))
      .catch((failed: unknown) => (error.value = failed instanceof ApiError ? failed : null));
  useEffect(load, []);
  const found = read.value;
  const settings = Object.entries((found?.value.settings ?? {}) as Record<string, unknown>).filter(
    ([name]) => name !== "$schema",
  );
  return (
    <Screen title="Settings" note="of the workspace, as in settings.json">
      <SettingsTabs at="" />
      {error.value && !found && <Failure error={error.value} retry={load} />}
      {!found && !error.value && <Loading label="Loading the settings" />}
      {found?.value.error && <p class="fail note-line">{found.value.error}</p>}
      {found && found.value.restart.length > 0 && (
        <p class="wait note-line">
          {words.restart} {found.value.restart.join(", ")}
        </p>
      )}
      {found && (
        <Rows
          label="Settings"
          items={settings}
          keyOf={([name]) => name}
          columns={[
            { label: "setting", width: "14rem", show: ([name]) => name.replaceAll("_", " ") },
            {
              label: "value",
              width: "minmax(0, 1fr)",
              as: "quiet",
              show: ([, value]) => <span class="mono">{short(value)}</span>,
            },
          ]}
          actions={([name]) => (
            <button type="button" class="bare" onClick={() => (changing.value = name)}>
              Change<span class="sr"> {name}</span>
            </button>
          )}
        />
      )}
      {changing.value && found && (
        <Form
          title={`Change ${changing.value.replaceAll("_", " ")}`}
          action="Save"
          fields={[
            {
              name: "value",
              label: "Value, as JSON",
              kind: "text",
              first: JSON.stringify(settings.find(([name]) => name === changing.value)?.[1], null, 2),
              hint: words.settingHint,
              required: true,
            },
          ]}
          onSend={async ({ value = "" }) => {
            const body = { [changing.value ?? ""]: parsed(value) };
            const headers: Record<string, string> = found.etag === null ? {} : { "If-Match": found.etag };
            await request("PATCH", "/settings", { body, headers });
            load();
          }}
          onClose={() => (changing.value = null)}
        />
      )}
    </Screen>
  );
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ApiError("NOT_JSON", `not JSON: ${error instanceof Error ? error.message : String(error)}`, 0);
  }
}

function short(value: unknown): string {
  const text = JSON.stringify(value);
  return text.length > 200 ? `${text.slice(0, 199)}…` : text;
}
