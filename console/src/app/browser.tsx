/** What belongs to this browser: theme, keys, notices, and the session. */
import { useState } from "preact/hooks";
import { lettersOn, setLetters } from "../parts/keys";
import { Screen } from "../parts/screen";
import { SettingsTabs } from "../parts/settings_tabs";
import { me, signOut } from "./session";
import { setTheme, type Theme, theme } from "./theme";

const THEMES: Theme[] = ["system", "light", "dark"];

export function Browser() {
  return (
    <Screen title="This browser">
      <SettingsTabs at="browser" />
      <div class="settings">
        <fieldset>
          <legend class="label">Theme</legend>
          {THEMES.map((each) => (
            <label key={each}>
              <input type="radio" name="theme" checked={theme.value === each} onChange={() => setTheme(each)} />
              {each}
            </label>
          ))}
        </fieldset>
        <fieldset>
          <legend class="label">Keys</legend>
          <label>
            <input
              type="checkbox"
              checked={lettersOn.value}
              onChange={(event) => setLetters(event.currentTarget.checked)}
            />
            Single letters do things
          </label>
        </fieldset>
        <Notices />
        <fieldset>
          <legend class="label">You</legend>
          <p class="quiet">
            {me.value?.name
              ? `Key ${me.value.name}, scope ${me.value.scope}.`
              : "This server needs no key on this machine."}
          </p>
          {me.value?.name && (
            <button type="button" onClick={() => void signOut()}>
              Forget the key
            </button>
          )}
        </fieldset>
      </div>
    </Screen>
  );
}

function Notices() {
  const [state, setState] = useState("Notification" in window ? Notification.permission : "denied");
  return (
    <fieldset>
      <legend class="label">Notices</legend>
      <p class="quiet">
        One hidden tab keeps watching, and can tell you when an agent waits. A notice names the tool only.
      </p>
      {state === "granted" ? (
        <p>Notices are on.</p>
      ) : (
        <button
          type="button"
          disabled={state === "denied"}
          onClick={() => void Notification.requestPermission().then(setState)}
        >
          {state === "denied" ? "This browser refuses notices" : "Allow notices"}
        </button>
      )}
    </fieldset>
  );
}
