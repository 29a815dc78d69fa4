/** The keys of the server. A new key is shown once. */
import { signal, useSignal } from "@preact/signals";
import { keyNeeded, post, remove, request } from "../../api/client";
import type { ApiKey } from "../../api/types";
import { Act, Form } from "../../parts/act";
import { Rows } from "../../parts/rows";
import { Screen, Shown, useResource } from "../../parts/screen";
import { SettingsTabs } from "../../parts/settings_tabs";
import { Command, Empty } from "../../parts/states";
import { Dot } from "../../parts/status";
import { Ago } from "../../parts/time";
import { words } from "../../words/en";

const SCOPES = [
  ["run", "run: read, and start and steer runs"],
  ["read", "read: see everything, change nothing"],
  ["admin", "admin: all of it, and keys and settings"],
] as const;

/** The key that was made last. It outlives the screen: the first key of a server closes it to those without one. */
const made = signal<string | null>(null);

export function Keys() {
  const keys = useResource<{ items: ApiKey[] }>("/api/keys");
  const making = useSignal(false);
  const isFirst = keys.value.value?.items.length === 0;
  const make = (
    <button type="button" disabled={keys.value.value === null} onClick={() => (making.value = true)}>
      New key…
    </button>
  );
  return (
    <Screen title="Keys" actions={make}>
      <SettingsTabs at="keys" />
      {made.value && (
        <div class="secret" role="status">
          <p>{words.keyOnce}</p>
          <Command text={made.value} />
        </div>
      )}
      <Shown of={keys} label="Loading the keys">
        {({ items }) =>
          items.length === 0 ? (
            <Empty command="holdfast key create NAME">{words.noKeys}</Empty>
          ) : (
            <Rows
              label="Keys"
              items={items}
              keyOf={(key) => key.id}
              mark={(key) => <Dot mark={stateOf(key) === "valid" ? "done" : ""} />}
              columns={[
                { label: "name", width: "minmax(0, 1fr)", show: (key) => key.name },
                { label: "scope", width: "5rem", as: "quiet", show: (key) => key.scope },
                {
                  label: "spaces",
                  width: "10rem",
                  as: "quiet",
                  show: (key) => (key.every_space ? "every space" : key.space_ids.join(", ")),
                },
                { label: "state", width: "6rem", as: "quiet", show: stateOf },
                { label: "made", width: "6rem", as: "figure", show: (key) => <Ago at={key.created_at} /> },
              ]}
              actions={(key) =>
                stateOf(key) === "valid" && (
                  <Act
                    look="fail"
                    sure={`Revoke the key “${key.name}”? What uses it stops at once.`}
                    do={() => remove(`/api/keys/${key.id}`)}
                    after={keys.refresh}
                  >
                    Revoke
                  </Act>
                )
              }
            />
          )
        }
      </Shown>
      {making.value && (
        <Form
          title="New key"
          action="Create"
          fields={[
            { name: "name", label: "Name", required: true },
            { name: "scope", label: "Scope", kind: "choice", first: isFirst ? "admin" : "run", of: SCOPES },
            {
              name: "spaces",
              label: "Spaces, with commas",
              first: isFirst ? "*" : "default",
              hint: isFirst ? `* is every space. ${words.firstKey}` : "* is every space",
            },
          ]}
          onSend={async ({ name, scope, spaces = "" }) => {
            const every = spaces.trim() === "*";
            const ids = spaces.split(",").map((each) => each.trim());
            const body = { name, scope, ...(every ? { every_space: true } : { space_ids: ids.filter(Boolean) }) };
            const { secret } = await post<{ secret: string }>("/api/keys", body);
            made.value = secret;
            if (isFirst) {
              await request("POST", "/api/session", { headers: { Authorization: `Bearer ${secret}` } });
              keyNeeded.value = false;
            }
            keys.refresh();
          }}
          onClose={() => (making.value = false)}
        />
      )}
    </Screen>
  );
}

function stateOf(key: ApiKey): string {
  if (key.revoked_at) return "revoked";
  return key.expires_at && Date.parse(key.expires_at) < Date.now() ? "expired" : "valid";
}
