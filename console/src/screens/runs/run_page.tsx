/** A run by its id alone: it is shown in its thread. */
import { useEffect } from "preact/hooks";
import { useLocation } from "preact-iso";
import { BASE } from "../../api/space";
import type { Run } from "../../api/types";
import { Screen, Shown, useResource } from "../../parts/screen";

export function RunPage({ run = "" }: { run?: string }) {
  const found = useResource<Run>(`/api/runs/${run}`);
  const { route, query } = useLocation();
  const side = query.side ?? "steps";
  const thread = found.value.value?.thread_id;
  useEffect(() => {
    if (thread) route(`${BASE}/t/${thread}/${run}?side=${side}`, true);
  }, [thread, run, route, side]);
  return (
    <Screen title="Run">
      <Shown of={found} label="Loading the run">
        {() => null}
      </Shown>
    </Screen>
  );
}
