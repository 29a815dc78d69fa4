/** The places of the console: at the side of a wide page, as tabs on a phone, and as a page for what has no tab. */
import { BASE, SPACE } from "../api/space";
import { notice, openCount } from "../live/questions";
import { recent } from "../live/threads";
import { totals } from "../live/totals";
import { Icon } from "../parts/icon";
import { Screen } from "../parts/screen";
import { Dot, markOf } from "../parts/status";
import { paletteShown } from "./palette";
import { isAt, PLACES } from "./places";
import { me } from "./session";

const APPLE = /Mac|iPhone|iPad/.test(navigator.userAgent);
const TABS = ["inbox", "threads", "board"];

export function Navigation({ path }: { path: string }) {
  return (
    <nav aria-label="Console">
      <a class="brand" href={`${BASE}/threads`}>
        <Icon name="hold" />
        Holdfast
        <small>{SPACE ?? me.value?.default_space ?? ""}</small>
      </a>
      <button type="button" class="find" onClick={() => (paletteShown.value = true)}>
        <Icon name="find" />
        Find or do
        <kbd>{APPLE ? "⌘K" : "Ctrl K"}</kbd>
      </button>
      <ul>
        {PLACES.map((place) => (
          <li key={place.path}>
            <a href={`${BASE}/${place.path}`} aria-current={isAt(place, path) ? "page" : undefined}>
              <Icon name={place.icon} />
              <span>{place.label}</span>
              {place.path === "inbox" && openCount.value > 0 && (
                <b class="wait">
                  {openCount.value}
                  <span class="sr"> open</span>
                </b>
              )}
              {place.path === "runs" && (totals.value?.running ?? 0) > 0 && (
                <b class="live">
                  {totals.value?.running}
                  <span class="sr"> running</span>
                </b>
              )}
            </a>
          </li>
        ))}
      </ul>
      <Recent path={path} />
    </nav>
  );
}

function Recent({ path }: { path: string }) {
  const threads = recent.items.value?.slice(0, 9) ?? [];
  if (threads.length === 0) return null;
  return (
    <div>
      <h2 class="label">Recent</h2>
      <ul>
        {threads.map((thread) => {
          const href = `${BASE}/t/${thread.id}`;
          return (
            <li key={thread.id}>
              <a href={href} aria-current={path.startsWith(href) ? "true" : undefined}>
                <Dot mark={markOf(thread.latest_run)} />
                <span>{thread.title ?? thread.id}</span>
              </a>
            </li>
          );
        })}
      </ul>
    </div>
  );
}

/** What a person should know although the thing it is about is gone. */
export function Notice() {
  return (
    <div class="notice" role="status">
      {notice.value && (
        <p>
          {notice.value}
          <button type="button" class="bare" onClick={() => (notice.value = "")}>
            Close
          </button>
        </p>
      )}
    </div>
  );
}

export function Tabs({ path }: { path: string }) {
  const own = PLACES.filter((place) => TABS.includes(place.path));
  const isMore = !own.some((place) => isAt(place, path));
  return (
    <div class="tabbar" role="navigation" aria-label="Tabs">
      {own.map((place) => (
        <a key={place.path} href={`${BASE}/${place.path}`} aria-current={isAt(place, path) ? "page" : undefined}>
          <Icon name={place.icon} />
          {place.label}
          {place.path === "inbox" && openCount.value > 0 && <b>{openCount.value}</b>}
        </a>
      ))}
      <a href={`${BASE}/more`} aria-current={isMore ? "page" : undefined}>
        <Icon name="more" />
        More
      </a>
    </div>
  );
}

export function More() {
  return (
    <Screen title="More">
      <ul class="places">
        <li>
          <a href={`${BASE}/find`}>
            <Icon name="find" />
            Find
          </a>
        </li>
        {PLACES.filter((place) => !TABS.includes(place.path)).map((place) => (
          <li key={place.path}>
            <a href={`${BASE}/${place.path}`}>
              <Icon name={place.icon} />
              {place.label}
            </a>
          </li>
        ))}
      </ul>
    </Screen>
  );
}
