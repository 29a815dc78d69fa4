"""The use cases of a workspace that is open, each with the ports that it needs."""

from collections.abc import Callable

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
from holdfast.control.notifications import NotificationControl
from holdfast.control.openai.completions import CompletionControl
from holdfast.control.plans import PlanControl
from holdfast.control.run_details import RunDetails
from holdfast.control.spaces import SpaceControl
from holdfast.control.starting import RunStarts
from holdfast.control.task_contract.tasks import TaskControl
from holdfast.control.threads import ThreadControl
from holdfast.domain.space import DEFAULT_SPACE


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


def control_of(
    holdfast: Holdfast, feeds: Feeds, *, version: str, default_agent: Callable[[], str | None] = lambda: None
) -> Control:
    """Return the use cases of a workspace that is open."""
    store, agents, watcher = holdfast.store, holdfast.agents, holdfast.watcher
    starts = RunStarts(control=holdfast.runs, runs=store.runs, watcher=watcher, feeds=feeds)
    described = AgentControl(agents)
    threads = ThreadControl(threads=store.threads, runs=store.runs, agents=agents, default_agent=default_agent)
    conversations = ConversationControl(threads=store.threads, runs=store.runs, messages=store.messages)
    completions = _completions_of(holdfast, feeds)
    sessions = _sessions_of(holdfast, threads, conversations)
    return Control(
        spaces=SpaceControl(store.spaces),
        agents=described,
        threads=threads,
        conversations=conversations,
        plans=PlanControl(threads=store.threads, runs=store.runs, plans=store.plans),
        starts=starts,
        runs=holdfast.runs,
        details=RunDetails(
            runs=store.runs,
            threads=store.threads,
            events=store.events,
            steps=store.steps,
            contexts=store.contexts,
            interrupts=store.interrupts,
        ),
        artifacts=ArtifactControl(artifacts=store.artifacts, threads=store.threads, runs=store.runs),
        files=FileControl(store.files),
        notifications=NotificationControl(store.notifications),
        feeds=feeds,
        tasks=TaskControl(
            space=DEFAULT_SPACE,
            control=holdfast.runs,
            runs=store.runs,
            events=store.events,
            steps=store.steps,
            contexts=store.contexts,
            interrupts=store.interrupts,
            agents=agents,
            feeds=feeds,
        ),
        completions=completions,
        sessions=sessions,
        chats=ChatControl(agents=described, sessions=sessions, completions=completions, runs=store.runs),
        model_calls=ModelCalls(models=holdfast.models, known=holdfast.known_models),
        ag_ui=AgUiControl(
            starts=starts,
            control=holdfast.runs,
            runs=store.runs,
            threads=store.threads,
            messages=store.messages,
            events=store.events,
            interrupts=store.interrupts,
            values=store.values,
            feeds=feeds,
        ),
        health=Health(store.spaces, version=version),
    )


def _completions_of(holdfast: Holdfast, feeds: Feeds) -> CompletionControl:
    store = holdfast.store
    return CompletionControl(
        space=DEFAULT_SPACE,
        control=holdfast.runs,
        runs=store.runs,
        threads=store.threads,
        messages=store.messages,
        interrupts=store.interrupts,
        agents=holdfast.agents,
        watcher=holdfast.watcher,
        feeds=feeds,
    )


def _sessions_of(holdfast: Holdfast, keeping: ThreadControl, conversations: ConversationControl) -> SessionControl:
    store = holdfast.store
    return SessionControl(
        space=DEFAULT_SPACE,
        control=holdfast.runs,
        threads=store.threads,
        runs=store.runs,
        steps=store.steps,
        contexts=store.contexts,
        keeping=keeping,
        conversations=conversations,
    )
