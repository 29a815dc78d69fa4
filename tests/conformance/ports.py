"""The ports of the store and their methods, for tests that go through all of them."""

import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import NoneType
from typing import Any, NamedTuple, get_args, get_type_hints

import msgspec

import holdfast.ports
from holdfast.ports.artifacts import Artifacts, Files
from holdfast.ports.folders import FolderSnapshots
from holdfast.ports.log import Contexts, EventLog, Journal, Messages, Steps, Values
from holdfast.ports.memory import Forgetting, Memories, MemoryArchive, MemoryGraph
from holdfast.ports.outlines import ThreadOutlines
from holdfast.ports.queue import (
    Inbox,
    Interrupts,
    Leases,
    RunCounts,
    StoreHealth,
    Subscriptions,
    Timers,
    WorkerLeases,
    Workers,
)
from holdfast.ports.recall import RecallIndex
from holdfast.ports.reminders import Reminders
from holdfast.ports.requests import KeyedRequests
from holdfast.ports.runs import Plans, Runs, Threads
from holdfast.ports.schedules import Schedules
from holdfast.ports.skills import Skills
from holdfast.ports.spaces import ApiKeys, Grants, Notifications, SpaceBudgets, Spaces, Tickets, UsageLedger
from holdfast.ports.tools import ToolTrust
from holdfast.ports.webhooks import Webhooks
from holdfast.ports.workspace import AgentVersions
from holdfast.store.store import Store


class Ports(NamedTuple):
    """The ports of a store; the type checker verifies that it has them."""

    spaces: Spaces
    threads: Threads
    messages: Messages
    runs: Runs
    leases: Leases
    worker_leases: WorkerLeases
    journal: Journal
    inbox: Inbox
    subscriptions: Subscriptions
    events: EventLog
    steps: Steps
    values: Values
    plans: Plans
    interrupts: Interrupts
    contexts: Contexts
    artifacts: Artifacts
    files: Files
    folders: FolderSnapshots
    memories: Memories
    memory_archive: MemoryArchive
    memory_graph: MemoryGraph
    recall_index: RecallIndex
    outlines: ThreadOutlines
    forgetting: Forgetting
    timers: Timers
    schedules: Schedules
    reminders: Reminders
    webhooks: Webhooks
    skills: Skills
    agent_versions: AgentVersions
    api_keys: ApiKeys
    grants: Grants
    tickets: Tickets
    notifications: Notifications
    tool_trust: ToolTrust
    run_counts: RunCounts
    workers: Workers
    usage: UsageLedger
    space_budgets: SpaceBudgets
    health: StoreHealth
    requests: KeyedRequests


def ports_of(store: Store) -> Ports:
    """Return `store` as its ports."""
    return Ports(
        spaces=store.spaces,
        threads=store.threads,
        messages=store.messages,
        runs=store.runs,
        leases=store.leases,
        worker_leases=store.worker_leases,
        journal=store.journal,
        inbox=store.inbox,
        subscriptions=store.subscriptions,
        events=store.events,
        steps=store.steps,
        values=store.values,
        plans=store.plans,
        interrupts=store.interrupts,
        contexts=store.contexts,
        artifacts=store.artifacts,
        files=store.files,
        folders=store.folders,
        memories=store.memories,
        memory_archive=store.memory_archive,
        memory_graph=store.memory_graph,
        recall_index=store.recall_index,
        outlines=store.outlines,
        forgetting=store.forgetting,
        timers=store.timers,
        schedules=store.schedules,
        reminders=store.reminders,
        webhooks=store.webhooks,
        skills=store.skills,
        agent_versions=store.agent_versions,
        api_keys=store.api_keys,
        grants=store.grants,
        tickets=store.tickets,
        notifications=store.notifications,
        tool_trust=store.tool_trust,
        run_counts=store.run_counts,
        workers=store.workers,
        usage=store.usage,
        space_budgets=store.space_budgets,
        health=store.health,
        requests=store.requests,
    )


class Method(msgspec.Struct, frozen=True):
    """One method of one port; `hints` are the types of its parameters, each without its `None`."""

    port: str
    name: str
    hints: dict[str, Any]
    required: frozenset[str]

    @property
    def path(self) -> str:
        """Return the path of the method in a store."""
        return f"{self.port}.{self.name}"

    def of(self, store: Store) -> Callable[..., Any]:
        """Return the method of a store."""
        method: Callable[..., Any] = getattr(getattr(store, self.port), self.name)
        return method


def protocols() -> list[type]:
    """Return every Protocol that is defined in `holdfast.ports`."""
    modules = [
        import_module(f"{holdfast.ports.__name__}.{found.name}") for found in iter_modules(holdfast.ports.__path__)
    ]
    return [
        value
        for module in modules
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__ == module.__name__ and getattr(value, "_is_protocol", False)
    ]


def methods_of(protocol: type) -> dict[str, Callable[..., Any]]:
    """Return the methods of a Protocol and of the Protocols that it extends, by name."""
    members = {name: value for base in reversed(protocol.__mro__[:-2]) for name, value in vars(base).items()}
    return {name: value for name, value in members.items() if inspect.isfunction(value) and name[0] != "_"}


def methods() -> Iterator[Method]:
    """Yield every method of every port of a store."""
    for port, protocol in get_type_hints(Ports).items():
        for name, function in methods_of(protocol).items():
            parameters = list(inspect.signature(function).parameters.values())[1:]
            hints = get_type_hints(function)
            yield Method(
                port,
                name,
                {parameter.name: _without_none(hints[parameter.name]) for parameter in parameters},
                frozenset(parameter.name for parameter in parameters if parameter.default is parameter.empty),
            )


def _without_none(hint: Any) -> Any:
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    return kinds[0] if len(kinds) == 1 and NoneType in get_args(hint) else hint
