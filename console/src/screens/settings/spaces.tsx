/** The spaces of the workspace. Each has an address of its own here. */
import { useSignal } from "@preact/signals";
import { patch, post, remove } from "../../api/client";
import type { Space } from "../../api/types";
import { Act, Form } from "../../parts/act";
import { Listed } from "../../parts/rows";
import { Screen, useList } from "../../parts/screen";
import { SettingsTabs } from "../../parts/settings_tabs";
import { Empty } from "../../parts/states";
import { Ago } from "../../parts/time";
import { words } from "../../words/en";

export function Spaces() {
  const list = useList<Space>("/api/spaces");
  const making = useSignal(false);
  const renaming = useSignal<Space | null>(null);
  const make = (
    <button type="button" onClick={() => (making.value = true)}>
      New space…
    </button>
  );
  const rename = (space: Space) => (
    <button type="button" class="bare" onClick={() => (renaming.value = space)}>
      Rename<span class="sr"> {space.name}</span>
    </button>
  );
  return (
    <Screen title="Spaces" actions={make}>
      <SettingsTabs at="spaces" />
      <Listed
        label="Spaces"
        list={list}
        keyOf={(space) => space.id}
        href={(space) =>
          space.id === "default" ? "/console/threads" : `/console/s/${encodeURIComponent(space.id)}/threads`
        }
        empty={<Empty>{words.gone}</Empty>}
        columns={[
          { label: "name", width: "minmax(0, 1fr)", show: (space) => space.name },
          { label: "id", width: "14rem", as: "quiet", show: (space) => <span class="mono">{space.id}</span> },
          { label: "made", width: "6rem", as: "figure", show: (space) => <Ago at={space.created_at} /> },
        ]}
        actions={(space) => (
          <>
            {rename(space)}
            {space.id !== "default" && (
              <Act
                look="fail"
                sure={`Delete the space “${space.name}” with everything in it, its working folders too?`}
                do={() => remove(`/api/spaces/${encodeURIComponent(space.id)}`)}
                after={list.refresh}
              >
                Delete
              </Act>
            )}
          </>
        )}
      />
      {making.value && (
        <Form
          title="New space"
          action="Create"
          fields={[
            { name: "id", label: "Id", required: true, hint: "It stays, and is part of addresses" },
            { name: "name", label: "Name" },
          ]}
          onSend={async ({ id, name }, key) => {
            await post("/api/spaces", { id, ...(name && { name }) }, key);
            list.refresh();
          }}
          onClose={() => (making.value = false)}
        />
      )}
      {renaming.value && (
        <Form
          title="Rename this space"
          action="Rename"
          fields={[{ name: "name", label: "Name", first: renaming.value.name, required: true }]}
          onSend={async (values) => {
            await patch(`/api/spaces/${encodeURIComponent(renaming.value?.id ?? "")}`, values);
            list.refresh();
          }}
          onClose={() => (renaming.value = null)}
        />
      )}
    </Screen>
  );
}
