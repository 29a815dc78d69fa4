/** The frame of every screen: navigation, routes, tabs on a phone, and the keys that hold everywhere. */
import type { ComponentType } from "preact";
import { useEffect } from "preact/hooks";
import { LocationProvider, lazy, Route, Router, useLocation } from "preact-iso";
import { keyNeeded } from "../api/client";
import { BASE } from "../api/space";
import { helpShown, useKeys } from "../parts/keys";
import { Screen } from "../parts/screen";
import { Empty } from "../parts/states";
import { Threads } from "../screens/threads/threads";
import { Foot, Offline } from "./foot";
import { Help } from "./help";
import { KeyPage } from "./key_page";
import { More, Navigation, Notice, Tabs } from "./navigation";
import { Palette, paletteShown } from "./palette";
import { PLACES } from "./places";
import { me, start } from "./session";

const Thread = lazy(() => import("../screens/thread/thread").then((module) => module.Thread));
const Settings = lazy(() => import("../screens/settings/settings").then((module) => module.Settings));
const Browser = lazy(() => import("./browser").then((module) => module.Browser));

/** A screen of its own file, read when it is first shown. */
function later(read: () => Promise<object>, name: string): ComponentType {
  return lazy(() => read().then((module) => (module as Record<string, ComponentType>)[name] as ComponentType));
}

const runs = () => import("../screens/runs/runs");
const work = () => import("../screens/board/board");
const agents = () => import("../screens/agents/agents");
const memory = () => import("../screens/memory/memory");
const schedules = () => import("../screens/schedules/schedules");
const skills = () => import("../screens/skills/skills");

const SCREENS: Record<string, ComponentType> = {
  inbox: later(() => import("../screens/inbox/inbox"), "Inbox"),
  board: later(work, "Board"),
  memory: later(memory, "Memories"),
  runs: later(runs, "Runs"),
  "r/:run": later(runs, "RunPage"),
  "r/:run/context/:step?": later(() => import("../screens/context/context"), "ContextPage"),
  "t/:thread/compare/:a/:b": later(() => import("../screens/compare/compare"), "Compare"),
  "memory/:id": later(memory, "MemoryPage"),
  schedules: later(schedules, "Schedules"),
  "schedules/:id": later(schedules, "SchedulePage"),
  reminders: later(schedules, "Reminders"),
  "reminders/:id": later(schedules, "ReminderPage"),
  daemons: later(schedules, "Daemons"),
  "daemons/:name": later(schedules, "DaemonPage"),
  skills: later(skills, "Skills"),
  "skills/:name": later(skills, "SkillPage"),
  agents: later(agents, "Agents"),
  "agents/:name": later(agents, "AgentPage"),
  costs: later(() => import("../screens/costs/costs"), "Costs"),
  find: later(() => import("../screens/find/find"), "Find"),
  workers: later(() => import("../screens/workers/workers"), "Workers"),
  news: later(() => import("../screens/news/news"), "News"),
  more: More,
};

export function App() {
  useEffect(() => void start(), []);
  return (
    <LocationProvider scope={BASE}>
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
    ...Object.fromEntries(
      PLACES.flatMap(({ key, path: to }) => (key ? [[`g ${key}`, () => route(`${BASE}/${to}`)]] : [])),
    ),
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
        <Route path={BASE} component={Threads} />
        <Route path={`${BASE}/threads`} component={Threads} />
        <Route path={`${BASE}/t/:thread`} component={Thread} me={me.value?.name ?? null} />
        <Route path={`${BASE}/t/:thread/:run`} component={Thread} me={me.value?.name ?? null} />
        <Route path={`${BASE}/settings/browser`} component={Browser} />
        <Route path={`${BASE}/settings/:part?`} component={Settings} />
        {Object.entries(SCREENS).map(([at, screen]) => (
          <Route key={at} path={`${BASE}/${at}`} component={screen} />
        ))}
        <Route default component={Gone} />
      </Router>
      <Foot />
      <Offline />
      <Tabs path={path} />
      {helpShown.value && <Help />}
      {paletteShown.value && <Palette />}
    </>
  );
}

function Gone() {
  return (
    <Screen title="There is no such screen">
      <Empty>
        <a href={`${BASE}/threads`}>Go to the threads</a>
      </Empty>
    </Screen>
  );
}
