/** The rules that people gave with “always”, and who gave them. */
import { remove } from "../../api/client";
import { BASE } from "../../api/space";
import type { Grant } from "../../api/types";
import { Act } from "../../parts/act";
import { Listed } from "../../parts/rows";
import { Screen, useList } from "../../parts/screen";
import { SettingsTabs } from "../../parts/settings_tabs";
import { Empty } from "../../parts/states";
import { Dot } from "../../parts/status";
import { Ago } from "../../parts/time";
import { words } from "../../words/en";

export function Rules() {
  const list = useList<Grant>("/api/grants");
  return (
    <Screen title="Rules">
      <SettingsTabs at="rules" />
      <Listed
        label="Rules"
        list={list}
        keyOf={(grant) => grant.id}
        href={(grant) => `${BASE}/r/${grant.run_id}`}
        mark={(grant) => <Dot mark={grant.revoked_at ? "" : "done"} />}
        empty={<Empty>{words.noRules}</Empty>}
        columns={[
          { label: "rule", width: "minmax(0, 1fr)", show: (grant) => <span class="mono">allow {grant.rule}</span> },
          { label: "agent", width: "8rem", as: "quiet", show: (grant) => grant.agent },
          { label: "given by", width: "8rem", as: "quiet", show: (grant) => grant.created_by ?? "this machine" },
          {
            label: "state",
            width: "10rem",
            as: "quiet",
            show: (grant) => (grant.revoked_at ? `revoked by ${grant.revoked_by ?? "this machine"}` : "in force"),
          },
          { label: "when", width: "6rem", as: "figure", show: (grant) => <Ago at={grant.created_at} /> },
        ]}
        actions={(grant) =>
          !grant.revoked_at && (
            <Act look="fail" do={() => remove(`/api/grants/${grant.id}`)} after={list.refresh}>
              Revoke
            </Act>
          )
        }
      />
    </Screen>
  );
}
