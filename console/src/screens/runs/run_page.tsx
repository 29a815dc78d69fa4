/** A run by its id alone: it is shown in its thread. */
import { useEffect } from "preact/hooks";
import { useLocation } from "preact-iso";
import { BASE } from "../../api/space";
import type { Run } from "../../api/types";
import { Screen, Shown, useResource } from "../../parts/screen";

export function RunPage({ run = "" }: { run?: string }) {
  const found = useResource<Run>(`/api/runs/${run}`);
  const { route } = useLocation();
  const thread = found.value.value?.thread_id;
  useEffect(() => {
    if (thread) route(`${BASE}/t/${thread}/${run}?side=steps`, true);
  }, [thread, run, route]);
  return (
    <Screen title="Run">
      <Shown of={found} label="Loading the run">
        {() => null}
      </Shown>
    </Screen>
  );
}
