/** The page of a server that needs a key. It sends the key once; then a cookie that no script can read holds it. */
import { useState } from "preact/hooks";
import { ApiError } from "../api/client";
import { Icon } from "../parts/icon";
import { Command } from "../parts/states";
import { words } from "../words/en";
import { signIn } from "./session";

export function KeyPage() {
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const send = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const field = (event.target as HTMLFormElement).elements.namedItem("key") as HTMLInputElement;
    setBusy(true);
    try {
      await signIn(field.value.trim());
    } catch (failed) {
      const refused = failed instanceof ApiError && failed.status === 401;
      setError(refused ? words.refusedKey : failed instanceof Error ? failed.message : String(failed));
      setBusy(false);
      field.select();
    }
  };
  return (
    <main id="main" tabIndex={-1} class="key-page">
      <form onSubmit={(event) => void send(event as SubmitEvent)}>
        <p class="brand">
          <Icon name="hold" />
          Holdfast
        </p>
        <h1>{words.keyTitle}</h1>
        <label for="key">Key</label>
        <input id="key" name="key" type="password" autocomplete="off" required aria-describedby="key-hint" />
        <p id="key-hint" class="quiet">
          {words.keyHint}
        </p>
        {error && (
          <p class="fail" role="alert">
            {error}
          </p>
        )}
        <button type="submit" class="first" disabled={busy}>
          Go on
        </button>
        <Command text={words.keyCommand} />
      </form>
    </main>
  );
}
