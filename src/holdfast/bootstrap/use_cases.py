"""The use cases of a workspace that is open, each with the ports that it needs."""

from collections.abc import Callable
from typing import Final

from holdfast.bootstrap.store import SystemClock
from holdfast.bootstrap.workspace import Holdfast
from holdfast.control.ag_ui.ag_ui import AgUiControl
from holdfast.control.agents import AgentControl
from holdfast.control.artifacts import ArtifactControl, FileControl
from holdfast.control.chat.chats import ChatControl
from holdfast.control.chat.model_calls import ModelCalls
from holdfast.control.chat.sessions import SessionControl
from holdfast.control.control import Control
from holdfast.control.conversations import ConversationControl
from holdfast.control.feeds.feeds import Feeds, Habits
from holdfast.control.health import Health
from holdfast.control.keys.asker import Asker
from holdfast.control.keys.keys import KeyControl
from holdfast.control.keys.ring import KeyRing
from holdfast.control.live.live import LiveControl
from holdfast.control.metrics import MetricsControl
from holdfast.control.notifications import NotificationControl
from holdfast.control.openai.completions import CompletionControl
from holdfast.control.plans import PlanControl
from holdfast.control.queue_room import QueueRoom
from holdfast.control.run_details import RunDetails
from holdfast.control.runs import RunControl
from holdfast.control.spaces import SpaceControl
from holdfast.control.starting import RunStarts
from holdfast.control.task_contract.tasks import TaskControl
from holdfast.control.threads import ThreadControl
from holdfast.ports.runtime import Clock

MOST_ASKERS: Final = 1024
"""Of so many who ask the use cases are kept; they cost little to make again."""


def feeds_of(holdfast: Holdfast, habits: Habits | None = None) -> Feeds:
    """Return what can be followed of a workspace that is open."""
    store = holdfast.store
    return Feeds(
        spaces=store.spaces,
        runs=store.runs,
        events=store.events,
        notifications=store.notifications,
        watching=holdfast.watcher,
        habits=habits,
    )


class Controls:
    """The use cases of a workspace that is open, for each who asks: made for their spaces, and in their name.

    What has a state of its own is made once, and shared.
    """

    def __init__(
        self,
        holdfast: Holdfast,
        feeds: Feeds,
        *,
        version: str,
        default_agent: Callable[[], str | None] = lambda: None,
        clock: Clock | None = None,
        most_queued: int | None = None,
    ) -> None:
        """Let at most so many runs of each space wait, if it is given."""
        self._holdfast = holdfast
        self._feeds = feeds
        self._default_agent = default_agent
        self._clock = clock or SystemClock()
        self._health = Health(holdfast.store.spaces, version=version)
        self._room = None if most_queued is None else QueueRoom(holdfast.store.census, most=most_queued)
        self._made: dict[Asker, Control] = {}
        self.ring = KeyRing(holdfast.store.api_keys, self._clock)

    def of(self, asker: Asker) -> Control:
        """Return what somebody can do."""
        made = self._made.get(asker)
        if made is None:
            if len(self._made) >= MOST_ASKERS:
                self._made.clear()
            made = self._made[asker] = self._make(asker)
        return made

    def _make(self, asker: Asker) -> Control:
        keys = KeyControl(self._holdfast.store.api_keys, self.ring, self._clock, asker=asker)
        runs = self._holdfast.runs.signed(asker.name, room=self._room)
        return _control(self._holdfast, self._feeds, asker, keys, self._health, runs, default_agent=self._default_agent)


def _control(
    holdfast: Holdfast,
    feeds: Feeds,
    asker: Asker,
    keys: KeyControl,
    health: Health,
    runs: RunControl,
    *,
    default_agent: Callable[[], str | None],
) -> Control:
    store, agents, watcher, by = holdfast.store, holdfast.agents, holdfast.watcher, asker.name
    starts = RunStarts(control=runs, runs=store.runs, watcher=watcher, feeds=feeds)
    described = AgentControl(agents)
    threads = ThreadControl(threads=store.threads, runs=store.runs, agents=agents, default_agent=default_agent, by=by)
    conversations = ConversationControl(threads=store.threads, runs=store.runs, messages=store.messages)
    completions = _completions_of(holdfast, feeds, asker, runs)
    sessions = _sessions_of(holdfast, asker, runs, threads, conversations)
    return Control(
        spaces=SpaceControl(store.spaces, asker=asker),
        keys=keys,
        agents=described,
        threads=threads,
        conversations=conversations,
        plans=PlanControl(threads=store.threads, runs=store.runs, plans=store.plans, by=by),
        starts=starts,
        runs=runs,
        details=RunDetails(
            runs=store.runs,
            threads=store.threads,
            events=store.events,
            steps=store.steps,
            contexts=store.contexts,
            interrupts=store.interrupts,
        ),
        artifacts=ArtifactControl(artifacts=store.artifacts, threads=store.threads, runs=store.runs, by=by),
        files=FileControl(store.files, by=by),
        notifications=NotificationControl(store.notifications),
        feeds=feeds,
        tasks=_tasks_of(holdfast, feeds, asker, runs),
        completions=completions,
        sessions=sessions,
        chats=ChatControl(agents=described, sessions=sessions, completions=completions, runs=store.runs),
        live=LiveControl(
            space=asker.home, feeds=feeds, runs=store.runs, sessions=sessions, methods=holdfast.remote_methods
        ),
        settings=holdfast.settings,
        model_calls=ModelCalls(models=holdfast.models, known=holdfast.known_models),
        ag_ui=_ag_ui_of(holdfast, feeds, asker, runs, starts),
        health=health,
        metrics=MetricsControl(holdfast.meters, store.census, version=health.version.version),
    )


def _tasks_of(holdfast: Holdfast, feeds: Feeds, asker: Asker, runs: RunControl) -> TaskControl:
    store = holdfast.store
    return TaskControl(
        space=asker.home,
        control=runs,
        runs=store.runs,
        events=store.events,
        steps=store.steps,
        contexts=store.contexts,
        interrupts=store.interrupts,
        agents=holdfast.agents,
        feeds=feeds,
    )


def _ag_ui_of(holdfast: Holdfast, feeds: Feeds, asker: Asker, runs: RunControl, starts: RunStarts) -> AgUiControl:
    store = holdfast.store
    return AgUiControl(
        starts=starts,
        control=runs,
        runs=store.runs,
        threads=store.threads,
        messages=store.messages,
        events=store.events,
        interrupts=store.interrupts,
        values=store.values,
        feeds=feeds,
        by=asker.name,
    )


def _completions_of(holdfast: Holdfast, feeds: Feeds, asker: Asker, runs: RunControl) -> CompletionControl:
    store = holdfast.store
    return CompletionControl(
        space=asker.home,
        by=asker.name,
        control=runs,
        runs=store.runs,
        threads=store.threads,
        messages=store.messages,
        interrupts=store.interrupts,
        agents=holdfast.agents,
        watcher=holdfast.watcher,
        feeds=feeds,
    )


def _sessions_of(
    holdfast: Holdfast, asker: Asker, runs: RunControl, keeping: ThreadControl, conversations: ConversationControl
) -> SessionControl:
    store = holdfast.store
    return SessionControl(
        space=asker.home,
        control=runs,
        threads=store.threads,
        runs=store.runs,
        steps=store.steps,
        contexts=store.contexts,
        keeping=keeping,
        conversations=conversations,
    )
