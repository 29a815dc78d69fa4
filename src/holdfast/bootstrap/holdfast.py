"""Holdfast, the composition root: an open workspace and its use cases for each principal."""

from collections.abc import Callable
from typing import Final

from holdfast.api.ag_ui.runs import AgUiControl
from holdfast.api.chat.chats import ChatControl
from holdfast.api.chat.live_sessions import LiveControl
from holdfast.api.chat.model_calls import ModelCalls
from holdfast.api.chat.sessions import SessionControl
from holdfast.api.openai.completions import CompletionControl
from holdfast.api.tasks.tasks import TaskControl
from holdfast.api.use_cases import UseCases
from holdfast.bootstrap.store import SystemClock
from holdfast.bootstrap.workspace import Holdfast
from holdfast.control.agents import AgentControl
from holdfast.control.api_keys import CachedKeyAuthenticator, KeyControl
from holdfast.control.artifacts import ArtifactControl, FileControl
from holdfast.control.monitoring import HealthControl, MetricsControl
from holdfast.control.plans import PlanControl
from holdfast.control.principal import Principal
from holdfast.control.run_details import RunDetailsControl
from holdfast.control.run_starts import RunStartControl
from holdfast.control.runs import QueueLimit, RunControl
from holdfast.control.spaces import NotificationControl, SpaceControl
from holdfast.control.streams.live_streams import LiveStreams, StreamLimits
from holdfast.control.threads import ConversationControl, ThreadControl
from holdfast.ports.runtime import Clock

MAX_CACHED_PRINCIPALS: Final = 1024
"""Of so many who ask the use cases are kept; they cost little to make again."""


def make_live_streams(holdfast: Holdfast, limits: StreamLimits | None = None) -> LiveStreams:
    """Return what can be followed of a workspace that is open."""
    store = holdfast.store
    return LiveStreams(
        spaces=store.spaces,
        runs=store.runs,
        events=store.events,
        notifications=store.notifications,
        watching=holdfast.watcher,
        limits=limits,
    )


class PrincipalUseCases:
    """The use cases of a workspace that is open, for each who asks: made for their spaces, and in their name.

    What has a state of its own is made once, and shared.
    """

    def __init__(
        self,
        holdfast: Holdfast,
        streams: LiveStreams,
        *,
        version: str,
        default_agent: Callable[[], str | None] = lambda: None,
        clock: Clock | None = None,
        max_queued_runs: int | None = None,
    ) -> None:
        """Let at most so many runs of each space wait, if it is given."""
        self._holdfast = holdfast
        self._feeds = streams
        self._default_agent = default_agent
        self._clock = clock or SystemClock()
        self._health = HealthControl(holdfast.store.spaces, version=version)
        self._room = (
            None if max_queued_runs is None else QueueLimit(holdfast.store.run_counts, max_queued=max_queued_runs)
        )
        self._made: dict[Principal, UseCases] = {}
        self.authenticator = CachedKeyAuthenticator(holdfast.store.api_keys, self._clock)

    def as_principal(self, asker: Principal) -> UseCases:
        """Return what somebody can do."""
        made = self._made.get(asker)
        if made is None:
            if len(self._made) >= MAX_CACHED_PRINCIPALS:
                self._made.clear()
            made = self._made[asker] = self._make(asker)
        return made

    def _make(self, asker: Principal) -> UseCases:
        keys = KeyControl(self._holdfast.store.api_keys, self.authenticator, self._clock, principal=asker)
        runs = self._holdfast.runs.as_principal(asker.name, queue_limit=self._room)
        return _make_use_cases(
            self._holdfast, self._feeds, asker, keys, self._health, runs, default_agent=self._default_agent
        )


def _make_use_cases(
    holdfast: Holdfast,
    feeds: LiveStreams,
    asker: Principal,
    keys: KeyControl,
    health: HealthControl,
    runs: RunControl,
    *,
    default_agent: Callable[[], str | None],
) -> UseCases:
    store, agents, watcher, by = holdfast.store, holdfast.agents, holdfast.watcher, asker.name
    starts = RunStartControl(control=runs, runs=store.runs, watcher=watcher, streams=feeds)
    described = AgentControl(agents)
    threads = ThreadControl(threads=store.threads, runs=store.runs, agents=agents, default_agent=default_agent, by=by)
    conversations = ConversationControl(threads=store.threads, runs=store.runs, messages=store.messages)
    completions = _completion_control(holdfast, feeds, asker, runs)
    sessions = _session_control(holdfast, asker, runs, threads, conversations)
    return UseCases(
        spaces=SpaceControl(store.spaces, principal=asker),
        keys=keys,
        agents=described,
        threads=threads,
        conversations=conversations,
        plans=PlanControl(threads=store.threads, runs=store.runs, plans=store.plans, by=by),
        starts=starts,
        runs=runs,
        details=RunDetailsControl(
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
        streams=feeds,
        tasks=_task_control(holdfast, feeds, asker, runs),
        completions=completions,
        sessions=sessions,
        chats=ChatControl(agents=described, sessions=sessions, completions=completions, runs=store.runs),
        live=LiveControl(
            space=asker.default_space,
            streams=feeds,
            runs=store.runs,
            sessions=sessions,
            methods=holdfast.remote_methods,
        ),
        settings=holdfast.settings,
        model_calls=ModelCalls(models=holdfast.models, known=holdfast.known_models),
        ag_ui=_ag_ui_control(holdfast, feeds, asker, runs, starts),
        health=health,
        metrics=MetricsControl(holdfast.meters, store.run_counts, version=health.version.version),
    )


def _task_control(holdfast: Holdfast, feeds: LiveStreams, asker: Principal, runs: RunControl) -> TaskControl:
    store = holdfast.store
    return TaskControl(
        space=asker.default_space,
        control=runs,
        runs=store.runs,
        events=store.events,
        steps=store.steps,
        contexts=store.contexts,
        interrupts=store.interrupts,
        agents=holdfast.agents,
        streams=feeds,
    )


def _ag_ui_control(
    holdfast: Holdfast, feeds: LiveStreams, asker: Principal, runs: RunControl, starts: RunStartControl
) -> AgUiControl:
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
        streams=feeds,
        principal_name=asker.name,
    )


def _completion_control(
    holdfast: Holdfast, feeds: LiveStreams, asker: Principal, runs: RunControl
) -> CompletionControl:
    store = holdfast.store
    return CompletionControl(
        space=asker.default_space,
        principal_name=asker.name,
        control=runs,
        runs=store.runs,
        threads=store.threads,
        messages=store.messages,
        interrupts=store.interrupts,
        agents=holdfast.agents,
        watcher=holdfast.watcher,
        streams=feeds,
    )


def _session_control(
    holdfast: Holdfast, asker: Principal, runs: RunControl, keeping: ThreadControl, conversations: ConversationControl
) -> SessionControl:
    store = holdfast.store
    return SessionControl(
        space=asker.default_space,
        control=runs,
        threads=store.threads,
        runs=store.runs,
        steps=store.steps,
        contexts=store.contexts,
        thread_control=keeping,
        conversations=conversations,
    )
