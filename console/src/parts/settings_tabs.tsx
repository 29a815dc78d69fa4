/** The parts of the settings. */
import { BASE } from "../api/space";

const PARTS = [
  ["", "Settings"],
  ["models", "Models"],
  ["keys", "Keys"],
  ["spaces", "Spaces"],
  ["rules", "Rules"],
  ["browser", "This browser"],
] as const;

export function TabsLine({ label, of, at }: { label: string; of: readonly (readonly [string, string])[]; at: string }) {
  return (
    <div class="tabs-line" role="navigation" aria-label={label}>
      {of.map(([path, word]) => (
        <a key={path} href={`${BASE}/${path}`} aria-current={at === path ? "page" : undefined}>
          {word}
        </a>
      ))}
    </div>
  );
}

export function SettingsTabs({ at }: { at: string }) {
  const all = PARTS.map(([path, word]) => [path ? `settings/${path}` : "settings", word] as const);
  return <TabsLine label="Parts of the settings" of={all} at={at ? `settings/${at}` : "settings"} />;
}
