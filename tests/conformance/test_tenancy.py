"""Tenancy: every query takes its space, and an object of another space looks exactly like a missing one.

The calls are generated from the signatures of the ports. A new method, or a new kind of parameter, fails here until the
tables below say which ids it takes.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, get_type_hints

import msgspec
import pytest
from msgspec import UnsetType

from holdfast.domain.agent_version import NewAgentVersion, make_bundle
from holdfast.domain.artifact import ArtifactType, NewArtifact, NewFile
from holdfast.domain.commit import Commit
from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError, Invalid, NotFound
from holdfast.domain.forgetting import ForgetRequest
from holdfast.domain.idempotency import KeyedRequest
from holdfast.domain.ids import (
    ApiKeyId,
    ArtifactId,
    DeliveryId,
    FileId,
    GrantId,
    InterruptId,
    MemoryId,
    MessageId,
    ReminderId,
    RunId,
    ScheduleId,
    SkillId,
    SpaceId,
    ThreadId,
    TimerId,
    WebhookId,
)
from holdfast.domain.inbox import InboxKind
from holdfast.domain.interrupt import InterruptFilter, InterruptResponse, InterruptStatus
from holdfast.domain.memory import (
    MemoryFilter,
    MemoryPatch,
    MemoryRecord,
    MemorySource,
    MemoryType,
    NewMemory,
    TimelineQuery,
)
from holdfast.domain.message import NewMessage
from holdfast.domain.new_run import NewRun, RunBase
from holdfast.domain.plan_edit import AddPlanItem, NewPlanItem, PlanEdit
from holdfast.domain.reminder import NewReminder, ReminderFilter, ReminderPatch, ReminderStatus, TriggerType
from holdfast.domain.run import Move, RunError, RunStatus, WaitsFor
from holdfast.domain.schedule import (
    FiringCause,
    FiringOutcome,
    NewSchedule,
    NotifyAction,
    ScheduleKind,
    SchedulePatch,
    SchedulePlan,
    ScheduleState,
)
from holdfast.domain.skill import NewSkill, SkillContent, SkillPatch
from holdfast.domain.space_budget import BudgetPeriod, NewSpaceBudget
from holdfast.domain.thread import NewThread, ThreadFilter, ThreadPatch
from holdfast.domain.timer import NewTimer, TimerClaim
from holdfast.domain.usage import UsageGroup
from holdfast.domain.webhook import DeliveryState, NewWebhook, WebhookPatch
from holdfast.domain.worker import SpaceQueue
from holdfast.ports.requests import KeyedRequests, RequestPorts
from holdfast.ports.runs import RunFilter, TaskFilter
from holdfast.ports.schedules import BuildRun, DaemonState
from holdfast.store.store import Store
from tests.builders import user
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.conversations import claim_run
from tests.conformance.ports import Method, methods
from tests.conformance.tables import rows_of
from tests.conformance.tenants import LATER, MISSING, SKILL, World, populate

PLAN: Final = SchedulePlan(action=NotifyAction(message="x"), cron="0 9 * * *")
NOWHERE: Final = SpaceId("nowhere")


async def _create_nothing(ports: RequestPorts) -> str:
    return "x"


def _memory(named: World, own: World) -> NewMemory:
    """Return a memory that comes from a message of `named`."""
    source = MemorySource(thread_id=named.thread, message_id=named.message)
    return NewMemory(type=MemoryType.SEMANTIC, text="y", sources=[source])


# Values for a parameter of each type: the caller has the ids of `own`, and passes those of `named`.
NAMING: Final[dict[Any, Callable[[World, World], list[Any]]]] = {
    ThreadId: lambda own, named: [named.thread],
    Sequence[ThreadId]: lambda own, named: [[named.thread]],
    RunId: lambda own, named: [named.run],
    Sequence[RunId]: lambda own, named: [[named.run]],
    MessageId: lambda own, named: [named.message],
    InterruptId: lambda own, named: [named.interrupt],
    ArtifactId: lambda own, named: [named.artifact],
    FileId: lambda own, named: [named.file],
    TimerId: lambda own, named: [named.timer],
    ScheduleId: lambda own, named: [named.schedule],
    ReminderId: lambda own, named: [named.reminder],
    WebhookId: lambda own, named: [named.webhook],
    DeliveryId: lambda own, named: [named.delivery],
    ReminderFilter: lambda own, named: [ReminderFilter(thread_id=named.thread)],
    ApiKeyId: lambda own, named: [named.key],
    GrantId: lambda own, named: [named.grant],
    SkillId: lambda own, named: [named.skill],
    NewRun: lambda own, named: [
        NewRun(thread=named.thread),
        NewRun(thread=own.thread, base=RunBase(run_id=named.run)),
        NewRun(thread=own.thread, base=RunBase(run_id=named.run, sequence=0)),
        NewRun(thread=NewThread(), parent_run_id=named.run),
    ],
    NewArtifact: lambda own, named: [NewArtifact(type=ArtifactType.DOC, title="x", file_id=named.file)],
    RunFilter: lambda own, named: [
        RunFilter(thread_id=named.thread),
        RunFilter(root_run_id=named.run),
        RunFilter(parent_run_id=named.run),
    ],
    InterruptFilter: lambda own, named: [
        InterruptFilter(thread_id=named.thread),
        InterruptFilter(run_id=named.run),
    ],
    TaskFilter: lambda own, named: [TaskFilter(thread_id=named.thread)],
    MemoryId: lambda own, named: [named.memory],
    Sequence[MemoryId]: lambda own, named: [[named.memory]],
    MemoryId | NewMemory: lambda own, named: [named.memory, _memory(named, own)],
    NewMemory: lambda own, named: [
        NewMemory(type=MemoryType.SEMANTIC, text="x", supersedes=[named.memory]),
        _memory(named, own),
    ],
    ForgetRequest: lambda own, named: [
        ForgetRequest(ids=[named.memory], dry_run=True),
        ForgetRequest(message_ids=[named.message], dry_run=True),
        ForgetRequest(thread_id=named.thread, dry_run=True),
        ForgetRequest(run_id=named.run, dry_run=True),
    ],
    Sequence[MemoryRecord]: lambda own, named: [[]],
    MemoryFilter: lambda own, named: [MemoryFilter(thread_id=named.thread)],
    TimelineQuery: lambda own, named: [TimelineQuery(thread_id=named.thread), TimelineQuery(entity=named.memory)],
    Sequence[tuple[ThreadId, MessageId]]: lambda own, named: [[(named.thread, named.message)]],
    Sequence[tuple[ThreadId, int]]: lambda own, named: [[(named.thread, 0)]],
}
# Parameters that hold an id although their type does not say so.
NAMING_BY_PARAMETER: Final[dict[tuple[str, str], Callable[[World, World], list[Any]]]] = {
    ("memory_graph.walk", "start"): lambda own, named: [named.memory, named.message],
    ("runs.page", "cursor"): lambda own, named: [named.run],
    ("messages.history", "before"): lambda own, named: [],  # a message that is not on the chain is refused as invalid
    ("notifications.mark_read", "number"): lambda own, named: [named.news],
    ("interrupts.respond_all", "responses"): lambda own, named: [{named.interrupt: InterruptResponse(response="x")}],
    ("interrupts.respond_all", "segment"): lambda own, named: [],  # a new name, not an existing id
}
# Required values that are not ids.
PLAIN_BY_PARAMETER: Final[dict[tuple[str, str], Any]] = {
    ("contexts.get", "step"): 1,
    **{("usage.totals", name): 1 for name in ("first_day", "last_day")},
    ("reminders.snooze", "until"): "in 1 h",
    **{("runs.find_by_idempotency_key", name): "x" for name in ("key", "body")},
    **{(f"requests.{name}", "kind"): str for name in ("find", "once")},
    ("requests.once", "create"): _create_nothing,
    ("tool_trust.trusted", "source"): "x",
    ("skills.file", "path"): "scripts/x",
    ("skills.version", "version"): 1,
    **{
        (f"agent_versions.{name}", "agent"): "bot" for name in ("activate", "delete", "head", "get", "page", "contents")
    },
    **{(f"agent_versions.{name}", "digest"): "0" * 64 for name in ("activate", "get", "contents")},
    ("agent_versions.contents", "files"): (),
    **{("tool_trust.trust", name): "x" for name in ("source", "tool", "digest")},
}
# Types that hold no id, with a value for required parameters. A timer claim belongs to the owner that received it.
PLAIN: Final[dict[Any, Any]] = {
    NewThread: NewThread(title="x"),
    str | None | UnsetType: "x",
    ThreadPatch: ThreadPatch(title="x"),
    MemoryPatch: MemoryPatch(title="x"),
    NewFile: NewFile(name="x", content=b"x"),
    NewTimer: NewTimer(kind="x", due_at=LATER),
    InterruptResponse: InterruptResponse(response="x"),
    InboxKind: InboxKind.MESSAGE,
    Json: "x",
    Mapping[str, str]: {},
    Sequence[NewMessage]: (),
    KeyedRequest: KeyedRequest(operation="x", key="x", digest="x"),
    **{get_type_hints(KeyedRequests.once)[name]: None for name in ("kind", "create")},
    NewSchedule: NewSchedule(plan=PLAN),
    NewReminder: NewReminder(content="x", trigger_type=TriggerType.TIME, trigger_value="in 1 h"),
    ReminderPatch: ReminderPatch(content="x"),
    ReminderStatus: ReminderStatus.COMPLETED,
    NewWebhook: NewWebhook(url="https://example.com", events=["*"], secret="s"),
    WebhookPatch: WebhookPatch(description="x"),
    SchedulePatch: SchedulePatch(name="x"),
    NewSkill: NewSkill(content=SKILL),
    NewAgentVersion: make_bundle("bot", {}, folder=""),
    SkillPatch: SkillPatch(category="x"),
    SkillContent: SKILL,
    Mapping[str, bytes]: {"scripts/x": b"x"},
    DaemonState: DaemonState(agent="bot", stopped=True),
    Sequence[NewSchedule]: (),
    FiringCause: FiringCause.MANUAL,
    UsageGroup: UsageGroup.DAY,
    NewSpaceBudget: NewSpaceBudget(period=BudgetPeriod.DAY, tokens=1),
    SpaceQueue: SpaceQueue(weight=2),
    PlanEdit: AddPlanItem(item=NewPlanItem(title="x")),
    **dict.fromkeys([int, str, bool, Sequence[str], ThreadFilter, InterruptStatus, RunStatus, RunError, TimerClaim]),
    **dict.fromkeys([ScheduleKind, ScheduleState, FiringOutcome, BuildRun, DeliveryState]),
}

# Methods without a space parameter, and why that is right.
WITHOUT_SPACE: Final = {
    "spaces.page": "the operator's",
    "api_keys.create": "names its spaces: tested below",
    **dict.fromkeys(["tickets.create", "tickets.find"], "a ticket names its principal"),
    **dict.fromkeys(["api_keys.find", "api_keys.any", "api_keys.all", "api_keys.revoke"], "a key names its spaces"),
    **dict.fromkeys(["events.heads", "runs.get_many"], "name a space with each run: tested below"),
    "runs.newest_of_threads": "names a space with each thread: tested below",
    **dict.fromkeys(
        [
            *("leases.claim", "leases.renew", "leases.release", "leases.expire", "leases.queue_state"),
            *("leases.release_leftover", "leases.fail"),
        ],
        "workers serve all spaces",
    ),
    **dict.fromkeys(
        [f"worker_leases.{name}" for name in ("claim", "find", "repeated", "held_by", "take_back")],
        "a lease names its space: `tests/conformance/test_worker_leases.py`",
    ),
    **dict.fromkeys(
        [f"folders.{name}" for name in ("open", "stage", "upload", "save", "download")],
        "a lease names its space: `tests/conformance/test_folders.py`",
    ),
    **dict.fromkeys(
        [
            *("journal.open", "journal.history", "journal.commit", "journal.inbox", "journal.next_task_id"),
            "journal.charge_ended",
        ],
        "a lease names its run: tested below",
    ),
    **dict.fromkeys(
        [
            *("timers.claim_due", "timers.settle", "timers.next_due", "timers.follow_clock", "schedules.fire"),
            *("schedules.find_by_hook", "interrupts.expire", "interrupts.next_expiry"),
        ],
        "one scheduler serves all spaces",
    ),
    "notifications.dispatch": "one dispatcher serves all spaces",
    **dict.fromkeys([f"webhooks.{name}" for name in ("claim", "settle", "next_due", "prune")], "a loop for all spaces"),
    **dict.fromkeys(
        [f"recall_index.{name}" for name in ("spaces", "rows", "lexical", "drop_replaced", "epochs", "mark_caught_up")],
        "one indexer serves all spaces, and an index belongs to one",
    ),
    **dict.fromkeys(["outlines.pending", "outlines.put"], "one outliner serves all spaces"),
    **dict.fromkeys(["run_counts.active", "health.check_write", "workers.backlogs"], "the operator's"),
    **dict.fromkeys(["workers.beat", "workers.leave"], "workers serve all spaces"),
}

NO_TENANT_PORTS: Final = ("spaces", "recall_index")
"""The index of recall takes keys that no caller sees: `test_recall.py` tests that a search stays in its space."""
TENANT: Final = [method for method in methods() if "space" in method.hints and method.port not in NO_TENANT_PORTS]


def arguments(method: Method, own: World) -> dict[str, Any]:
    """Return the required arguments, with ids of `own`."""
    return {name: _values(method, name, own, own)[0] for name in method.required - {"space"}}


def variations(method: Method, own: World, named: World) -> list[dict[str, Any]]:
    """Return argument sets with one id of `named` each."""
    return [
        {**arguments(method, own), name: value}
        for name in method.hints.keys() - {"space"}
        if _names(method, name) is not None
        for value in _values(method, name, own, named)
    ]


def _names(method: Method, parameter: str) -> Callable[[World, World], list[Any]] | None:
    hint = method.hints[parameter]
    found = NAMING_BY_PARAMETER.get((method.path, parameter)) or NAMING.get(hint)
    if found is None and hint not in PLAIN:
        pytest.fail(f"does `{parameter}` of {method.path} name something? Add its type to NAMING or to PLAIN")
    return found


def _values(method: Method, parameter: str, own: World, named: World) -> list[Any]:
    names = _names(method, parameter)
    if names is not None:
        return names(own, named)
    return [PLAIN_BY_PARAMETER.get((method.path, parameter), PLAIN[method.hints[parameter]])]


async def outcome(method: Method, store: Store, space: SpaceId, given: dict[str, Any], named: World) -> tuple[str, str]:
    """Return what the caller sees, without the ids that it passed itself."""
    try:
        kind, learnt = "returned", msgspec.json.encode(await method.of(store)(space, **given)).decode()
    except HoldfastError as error:
        kind, learnt = type(error).__name__, f"{error.message} {sorted(error.details.items())}"
    for name in msgspec.structs.astuple(named):
        learnt = re.sub(rf"(?<![\w-]){name}(?![\w-])", "·", learnt)
    return kind, learnt


@pytest.fixture
async def ours(store: Store) -> World:
    return await populate(store, SPACE, "ours")


@pytest.fixture
async def theirs(store: Store) -> World:
    made = await store.runs.create(OTHER, NewRun(thread=NewThread()))
    await store.runs.end(OTHER, made.run.id)  # so that they have a notification more than we
    return await populate(store, OTHER, "theirs")


def test_every_method_takes_a_space_or_is_listed_as_an_exception() -> None:
    assert {method.path for method in methods() if "space" not in method.hints} == set(WITHOUT_SPACE)


async def test_in_every_method_a_foreign_id_looks_like_a_missing_one_and_changes_nothing(
    store: Store, where: str | Path, ours: World, theirs: World
) -> None:
    before = await rows_of(where)
    seen = 0
    for method in TENANT:
        foreign, missing = variations(method, ours, theirs), variations(method, ours, MISSING)
        for given, absent in zip(foreign, missing, strict=True):
            learnt = await outcome(method, store, SPACE, given, theirs)
            assert learnt == await outcome(method, store, SPACE, absent, MISSING), f"{method.path}({given})"
            assert learnt[0] in ("NotFound", "returned"), f"{method.path}({given}): {learnt}"
            assert "theirs" not in learnt[1], f"{method.path}({given}): {learnt}"
            assert await rows_of(where) == before, f"{method.path}({given})"
            seen += 1
    assert seen > len(TENANT) / 2


async def test_the_foreign_ids_exist_in_their_own_space(store: Store, theirs: World) -> None:
    """The same calls by the owners succeed: otherwise the test above could pass because of a wrong call."""
    for method in sorted(TENANT, key=lambda method: method.name == "delete"):
        for given in variations(method, theirs, theirs):
            kind, learnt = await outcome(method, store, OTHER, given, MISSING)
            assert kind != "NotFound", f"{method.path}({given}): {learnt}"


async def test_no_list_contains_rows_of_another_space(store: Store, ours: World, theirs: World) -> None:
    # What a space sees of workers, which serve all spaces, is tested with them.
    others = ("notifications.mark_read", "workers.of_space", "space_budgets.delete")
    lists = [method for method in TENANT if not method.required - {"space"} and method.path not in others]
    assert lists
    for method in lists:
        own, other = [await outcome(method, store, space, {}, MISSING) for space in (SPACE, OTHER)]
        assert own[0] == other[0] == "returned"
        assert own[1] != other[1] or own[1].isdigit(), f"{method.path}: both spaces should have something to show"
        for name in msgspec.structs.astuple(theirs):
            assert f'"{name}"' not in own[1], f"{method.path} shows {name}"
        assert "theirs" not in own[1], f"{method.path}: {own[1]}"


async def test_a_missing_space_returns_nothing_and_accepts_nothing(
    store: Store, where: str | Path, theirs: World
) -> None:
    before = await rows_of(where)
    for method in TENANT:
        given = arguments(method, theirs)
        if method.path == "notifications.mark_read":
            given["through"] = 1
        kind, learnt = await outcome(method, store, NOWHERE, given, MISSING)
        assert kind == "NotFound", f"{method.path}: {learnt}"
        assert await rows_of(where) == before, method.path


async def test_a_foreign_run_is_left_out_of_bulk_reads(store: Store, ours: World, theirs: World) -> None:
    names = [(SPACE, ours.run), (SPACE, theirs.run), (OTHER, ours.run)]
    assert [head.name for head in await store.events.heads(names)] == [(SPACE, ours.run)]
    assert [(run.space_id, run.id) for run in await store.runs.get_many(names)] == [(SPACE, ours.run)]
    threads = [(SPACE, ours.thread), (SPACE, theirs.thread), (OTHER, ours.thread)]
    assert {run.thread_id for run in await store.runs.newest_of_threads(threads)} == {ours.thread}


async def test_a_commit_cannot_make_an_artifact_of_a_foreign_file(
    store: Store, where: str | Path, theirs: World
) -> None:
    run = (await store.runs.create(SPACE, NewRun(thread=NewThread()))).run
    lease = await claim_run(store, run)
    before = await rows_of(where)
    for file in (theirs.file, MISSING.file):
        artifact = NewArtifact(type=ArtifactType.DOC, title="x", file_id=file)
        with pytest.raises(NotFound, match=f"there is no file `{file}`"):
            await store.journal.commit(Commit(lease=lease, artifacts=[artifact]))
    await store.journal.commit(Commit(lease=lease, cancelled_timers=[theirs.timer], withdrawn=[theirs.interrupt]))
    assert await rows_of(where) == before


async def test_a_commit_cannot_wait_for_a_foreign_run_or_spawn_for_it(
    store: Store, where: str | Path, theirs: World
) -> None:
    lease = await claim_run(store, (await store.runs.create(SPACE, NewRun(thread=NewThread()))).run)
    before = await rows_of(where)
    for run in (theirs.run, MISSING.run):
        wait = Move(to=RunStatus.WAITING, reason=WaitsFor.CHILD, waits_on=[run])
        with pytest.raises(NotFound, match=f"there is no run `{run}`"):
            await store.journal.commit(Commit(lease=lease, move=wait))
        with pytest.raises(Invalid, match="a child run must name its parent"):
            child = NewRun(thread=NewThread(), parent_run_id=run)
            await store.journal.commit(Commit(lease=lease, children=[child]))
    assert await rows_of(where) == before


async def test_a_lease_opens_its_own_run_and_its_own_thread(store: Store, ours: World, theirs: World) -> None:
    await store.inbox.put(SPACE, ours.run, kind=InboxKind.MESSAGE, data="ours")
    lease = await claim_run(store, await store.runs.get(SPACE, ours.run))
    opening = await store.journal.open(lease)
    assert (opening.thread.id, opening.thread.space_id, opening.values) == (
        ours.thread,
        SPACE,
        {"state": {"mark": "ours"}},
    )
    assert [message.content for message in opening.messages] == ["ours"]
    assert "theirs" not in msgspec.json.encode(opening).decode()


async def test_an_id_used_in_one_space_is_free_in_another(store: Store, theirs: World) -> None:
    before = [await store.runs.get(OTHER, theirs.run), await store.artifacts.get(OTHER, theirs.artifact)]
    new = NewRun(
        thread=NewThread(id=theirs.thread),
        id=theirs.run,
        messages=[user("x", id=theirs.message)],
        idempotency_key="theirs",
    )
    made = await store.runs.create(SPACE, new)
    assert (made.replayed, made.run.id, made.run.thread_id, made.run.space_id) == (
        False,
        theirs.run,
        theirs.thread,
        SPACE,
    )
    file = await store.files.create(SPACE, NewFile(name="x", content=b"theirs", id=theirs.file))
    timer = await store.timers.set(SPACE, NewTimer(kind="x", due_at=LATER, id=theirs.timer))
    artifact = await store.artifacts.create(
        SPACE, theirs.run, NewArtifact(type=ArtifactType.DOC, title="x", content="x", id=theirs.artifact)
    )
    assert (file.space_id, timer.space_id, artifact.space_id, artifact.version) == (SPACE, SPACE, SPACE, 1)
    assert [await store.runs.get(OTHER, theirs.run), await store.artifacts.get(OTHER, theirs.artifact)] == before
