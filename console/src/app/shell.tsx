/** The frame of every screen: navigation, the foot with the state of the connection, tabs on a phone, and all keys. */

import { useEffect } from "preact/hooks";
import { LocationProvider, lazy, Route, Router, useLocation } from "preact-iso";
import { keyNeeded } from "../api/client";
import { notice, openCount } from "../live/questions";
import { connection } from "../live/socket";
import { recent } from "../live/threads";
import { Icon, type IconName } from "../parts/icon";
import { helpShown, useKeys } from "../parts/keys";
import { Dot, markOf } from "../parts/status";
import { now } from "../parts/time";
import { Threads } from "../screens/threads/threads";
import { Help } from "./help";
import { KeyPage } from "./key_page";
import { More } from "./more";
import { lastHint, me, start, title } from "./session";

const Thread = lazy(() => import("../screens/thread/thread").then((module) => module.Thread));
const Inbox = lazy(() => import("../screens/inbox/inbox").then((module) => module.Inbox));

export function App() {
  useEffect(() => void start(), []);
  return (
    <LocationProvider scope="/console">
      <Shell />
    </LocationProvider>
  );
}

function Shell() {
  const { path, route } = useLocation();
  useEffect(() => {
    document.querySelector("main")?.focus({ preventScroll: true });
  }, [path]);
  useKeys({
    "g i": () => route("/console/inbox"),
    "g t": () => route("/console/threads"),
    "?": () => {
      helpShown.value = true;
    },
  });
  if (keyNeeded.value) return <KeyPage />;
  return (
    <>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <Navigation path={path} />
      <Notice />
      <Router>
        <Route path="/console" component={Threads} onTitle={setTitle} />
        <Route path="/console/threads" component={Threads} onTitle={setTitle} />
        <Route path="/console/inbox" component={Inbox} onTitle={setTitle} />
        <Route path="/console/more" component={More} onTitle={setTitle} />
        <Route path="/console/t/:thread" component={Thread} onTitle={setTitle} me={me.value?.name ?? null} />
        <Route path="/console/t/:thread/:run" component={Thread} onTitle={setTitle} me={me.value?.name ?? null} />
        <Route default component={Gone} onTitle={setTitle} />
      </Router>
      <Foot />
      <Tabs path={path} />
      {helpShown.value && <Help />}
    </>
  );
}

function setTitle(text: string): void {
  title.value = text;
}

function Gone({ onTitle }: { onTitle: (title: string) => void }) {
  useEffect(() => onTitle("Not found"), [onTitle]);
  return (
    <main id="main" tabIndex={-1} class="screen">
      <h1>There is no such screen</h1>
      <p class="empty">
        <a href="/console/threads">Go to the threads</a>
      </p>
    </main>
  );
}

const PLACES: { href: string; icon: IconName; label: string; own: (path: string) => boolean }[] = [
  { href: "/console/inbox", icon: "inbox", label: "Inbox", own: (path) => path === "/console/inbox" },
  {
    href: "/console/threads",
    icon: "thread",
    label: "Threads",
    own: (path) => path === "/console" || path.startsWith("/console/t"),
  },
];

function Navigation({ path }: { path: string }) {
  return (
    <nav aria-label="Console">
      <a class="brand" href="/console/threads">
        <Icon name="hold" />
        Holdfast
        <small>{me.value?.default_space ?? ""}</small>
      </a>
      <ul>
        {PLACES.map((place) => (
          <li key={place.href}>
            <a href={place.href} aria-current={place.own(path) ? "page" : undefined}>
              <Icon name={place.icon} />
              <span>{place.label}</span>
              {place.label === "Inbox" && openCount.value > 0 && (
                <b class="wait">
                  {openCount.value}
                  <span class="sr"> open</span>
                </b>
              )}
            </a>
          </li>
        ))}
      </ul>
      <Recent path={path} />
      <ul class="last">
        <li>
          <a href="/console/more" aria-current={path === "/console/more" ? "page" : undefined}>
            <Icon name="gear" />
            <span>This browser</span>
          </a>
        </li>
      </ul>
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
          const href = `/console/t/${thread.id}`;
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

function Foot() {
  const { state } = connection.value;
  const running = (recent.items.value ?? []).filter((thread) => thread.latest_run?.status === "running").length;
  return (
    <footer>
      <Connection />
      <span>{running} running</span>
      <span>{openCount.value} waiting for you</span>
      <span class="quiet">{state === "live" && lastHint.value > 0 ? `${lastHint.value} changes seen` : ""}</span>
      <span class="end">J K next, previous</span>
      <span>A approve</span>
      <button type="button" class="bare" onClick={() => (helpShown.value = true)}>
        ? all keys
      </button>
    </footer>
  );
}

function Connection() {
  const { state, since, retryAt } = connection.value;
  if (state === "live")
    return (
      <span role="status">
        <Dot mark="live" />
        live
      </span>
    );
  const seconds = Math.max(0, Math.round(((retryAt ?? 0) - Math.max(now.value, Date.now())) / 1000));
  const text =
    state === "connecting" ? "connecting" : `not connected since ${new Date(since).toLocaleTimeString("en-GB")}`;
  return (
    <span role="status" class={state === "down" ? "fail" : undefined}>
      <Dot mark={state === "down" ? "failed" : ""} />
      {text}
      {state === "down" && retryAt !== null ? `, next try in ${seconds} s` : ""}
    </span>
  );
}

/** What a person should know although the thing it is about is gone. */
function Notice() {
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

function Tabs({ path }: { path: string }) {
  const places = [
    ...PLACES,
    { href: "/console/more", icon: "more" as const, label: "More", own: (at: string) => at === "/console/more" },
  ];
  return (
    <div class="tabbar" role="navigation" aria-label="Tabs">
      {places.map((place) => (
        <a key={place.href} href={place.href} aria-current={place.own(path) ? "page" : undefined}>
          <Icon name={place.icon} />
          {place.label}
          {place.label === "Inbox" && openCount.value > 0 && <b>{openCount.value}</b>}
        </a>
      ))}
    </div>
  );
}
