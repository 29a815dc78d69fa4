"""Workers and the queue: pools, what a worker may claim, what waits, and who works on what."""

import string
from collections.abc import Iterable, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from holdfast.domain.errors import Invalid
from holdfast.domain.ids import OwnerId, RunId, SpaceId, ThreadId
from holdfast.domain.instant import Instant
from holdfast.domain.limits import MAX_SAFE_INTEGER
from holdfast.domain.run import Priority, RunStatus

DEFAULT_POOL: Final = "default"
MAX_POOL_CHARS: Final = 63
POOL_PATTERN: Final = r"^[a-z0-9][a-z0-9_-]{0,62}\Z"
_POOL_CHARS: Final = frozenset(string.ascii_lowercase + string.digits + "-_")
MAX_POOLS: Final = 100
"""Pools of one worker or one key."""
MAX_WEIGHT: Final = 100
BEAT_SECONDS: Final = 5.0
"""Seconds between two notes that a worker lives, for people; the leases of its runs are renewed more often."""
WORKER_TIMEOUT_SECONDS: Final = 2 * BEAT_SECONDS + 1
"""Seconds after which a worker counts as gone: it missed two beats."""


class ClaimFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The runs that a worker may claim: of some pools, and of some spaces or, with null, of every space."""

    pools: tuple[str, ...] = (DEFAULT_POOL,)
    spaces: tuple[SpaceId, ...] | None = None


DEFAULT_CLAIM: Final = ClaimFilter()


def check_pools(pools: Iterable[str]) -> tuple[str, ...]:
    """Return the names of pools, each once, if they are valid."""
    found = tuple(dict.fromkeys(pools))
    if len(found) > MAX_POOLS:
        raise Invalid(f"a worker or a key may have at most {MAX_POOLS} pools", field="pools")
    for pool in found:
        if not 1 <= len(pool) <= MAX_POOL_CHARS or not _POOL_CHARS.issuperset(pool) or pool[0] in "-_":
            remedy = "use up to 63 lower-case letters, digits, `-` and `_`, and begin with a letter or a digit"
            raise Invalid(f"`{pool}` is not a valid name of a pool: {remedy}", field="pools")
    return found


class SpaceQueue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a space shares the workers with other spaces."""

    weight: Annotated[int, Meta(ge=1, le=MAX_WEIGHT)] = 1
    """Runs of the space that workers take in each round over the spaces that wait."""
    max_running: Annotated[int, Meta(ge=1, le=MAX_SAFE_INTEGER)] | None = None
    """Runs of the space at work at a time; null is no limit."""


def check_space_queue(queue: SpaceQueue) -> None:
    """Raise unless weight and limit are possible."""
    if not 1 <= queue.weight <= MAX_WEIGHT:
        raise Invalid(f"a space has a weight of 1 to {MAX_WEIGHT}", field="weight")
    if queue.max_running is not None and not 1 <= queue.max_running <= MAX_SAFE_INTEGER:
        raise Invalid(
            "a space has at least one run at work: pause its schedules and agents instead", field="max_running"
        )


class NewWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A process that executes runs."""

    id: OwnerId
    host: str
    pid: int
    version: str
    concurrency: int
    pools: Sequence[str] = (DEFAULT_POOL,)
    """The pools that it claims runs from."""


class HeldRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that a worker holds."""

    run_id: RunId
    thread_id: ThreadId
    agent_type: str
    title: str | None
    since: Instant | None
    lease_expires_at: Instant
    step: str | None
    """The model or tool of the newest step that has not settled."""


class WorkerStatus(NewWorker, frozen=True, kw_only=True):
    """A worker with the runs of one space that it holds."""

    started_at: Instant
    last_beat_at: Instant
    alive: bool
    """Whether it was heard of lately."""
    lost_leases: int
    """Leases that expired before it renewed them."""
    runs: list[HeldRun]
    other_runs: int
    """Runs of other spaces that it holds."""


class QueueCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of a space that have not ended, by status."""

    ready: int
    """Queued and claimable now."""
    delayed: int
    """Queued and claimable later."""
    pending: int
    running: int
    waiting: int


class QueuedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that waits for a worker, for a time, or for its base."""

    run_id: RunId
    thread_id: ThreadId
    agent_type: str
    title: str | None
    pool: str
    """The pool of workers that it waits for."""
    priority: Priority
    status: RunStatus
    reason: str | None
    queued_at: Instant | None
    wait_until: Instant | None
    attempt: int


class SpaceBacklog(msgspec.Struct, frozen=True, kw_only=True):
    """What waits and works in a space, and how it shares the workers."""

    space_id: SpaceId
    ready: int
    by_priority: dict[str, int]
    """Ready runs by priority."""
    oldest_ready_seconds: float
    delayed: int
    running: int
    weight: int
    max_running: int | None


class SpaceBacklogs(msgspec.Struct, frozen=True, kw_only=True):
    """The spaces with queued runs or runs at work, those whose oldest ready run waits longest first."""

    items: list[SpaceBacklog]
    total: int
    """All of these spaces, also those that are not among `items`."""


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """The queue of a space, in the order in which workers take it."""

    counts: QueueCounts
    by_priority: dict[str, int]
    """Ready runs by priority."""
    oldest_ready_seconds: float
    items: list[QueuedRun]
    next_cursor: str | None
