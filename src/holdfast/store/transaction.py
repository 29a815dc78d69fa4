"""The interface between store operations and the database that runs them.

An operation is an `async def` over a `Transaction`. PostgreSQL awaits it on a connection. SQLite runs it to the end in
its writer thread, where nothing ever waits. So one implementation of each operation serves both databases.

`WakeBuilder` collects the wake-ups of a transaction, which the database publishes on the bus after the commit.
"""

from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.domain.commit import RunSnapshot
from holdfast.domain.errors import HoldfastError
from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.instant import Millis
from holdfast.domain.run import Run
from holdfast.ports.bus import MAX_LOG_APPENDS_PER_HINT, WakeHint
from holdfast.ports.log import LogAppend

T = TypeVar("T")
BatchItem = TypeVar("BatchItem")
BatchResult = TypeVar("BatchResult")


class Row(Protocol):
    """A row of a result: its values in order, and by column."""

    def __getitem__(self, key: str, /) -> Any: ...

    def __iter__(self) -> Iterator[Any]: ...

    def keys(self) -> Iterable[str]:
        """Return the names of the columns, in the same order."""


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What a commit adds to its run's log, and what it must be let through with."""

    run_key: int
    lease_number: int
    events: Sequence[tuple[str, str]]
    """Type and JSON."""
    consumed: int = 0
    """How many inbox items it reads."""
    makes_progress: bool = False
    """Whether a step settles or the run begins to wait: it does not kill its workers."""
    stops: bool = False
    """Whether the run stops reading its inbox."""


class NewRunRow(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A run that its transaction has made: whoever claims it there need not read it."""

    run: Run
    space_key: int
    thread_key: int
    parent_key: int | None
    opening: Callable[[], RunSnapshot | None]
    """Tells where it stands, if that needs no reading either."""


class Transaction(Protocol):
    """All of it happens, or nothing. Nobody else sees it before it has happened."""

    now: Millis
    """This process's time, the same for the whole operation from the last lock on."""

    lease_now: Millis | None
    """The time that leases are measured by; `None` where the database has a clock of its own."""

    new_runs: dict[int, NewRunRow]
    """The runs that it has made and that may be claimed, by key."""

    async def lock_threads_by_name(self, threads: Sequence[tuple[SpaceId, ThreadId]]) -> None:
        """Hold threads by their names, and their spaces against being deleted."""

    async def lock(self, *, threads: Iterable[int] = (), runs: Iterable[int] = ()) -> bool:
        """Hold these against all other writers until the end: threads first, then the heads of runs, each by key.

        Return whether others may have written meanwhile, so that what was read of them must be read again.
        """

    async def one(self, name: str, /, **parameters: Any) -> Row | None:
        """Run a statement and return its only row, if it has one."""

    async def all(self, name: str, /, **parameters: Any) -> Sequence[Row]:
        """Run a statement and return its rows."""

    async def run(self, name: str, /, **parameters: Any) -> None:
        """Run a statement that returns nothing."""

    async def many(self, name: str, rows: Sequence[tuple[Any, ...]]) -> Sequence[Row]:
        """Run a statement for each of `rows`, as one where the database can. No two rows may name the same thing."""

    async def append(self, entries: Sequence[JournalEntry], *, alone: bool = False) -> Sequence[Row]:
        """Fence and number commits of different runs, add their events, and return the heads of those let through.

        One is not let through if its lease has moved on, or if its run would stop with something unread. With `alone`
        this is all that the transaction does, so that a database may have done it for good when this returns.
        """

    def new_id(self, prefix: str) -> str:
        """Make an id."""

    def wake(
        self,
        *,
        run: tuple[SpaceId, RunId] | None = None,
        ended: tuple[SpaceId, RunId] | None = None,
        grown: LogAppend | None = None,
        queue: bool = False,
        emptied: bool = False,
        delayed: bool = False,
        news: bool = False,
        timers: bool = False,
    ) -> None:
        """Tell those who watch, once this has happened; that the queue was `emptied` only takes back what was said."""


class Batch(msgspec.Struct, Generic[BatchItem, BatchResult], frozen=True, kw_only=True, eq=False):
    """Work of one kind that is done for many callers at once.

    Two items of one `name` are not done in one go, and those of one name are done in order. If `apply` fails for
    several items, what it did is taken back, and it is called for each alone.
    """

    enqueues: bool = False
    """Whether it puts runs into the queue. A database of one process says so beforehand, so that they may be claimed
    in the transaction that makes them."""
    durable: bool = True
    """Whether it must be on disk before anybody is told; otherwise a database on this machine may let it go there with
    whatever comes next, as what a power failure then takes back it takes from this process too."""
    name: Callable[[BatchItem], Hashable]
    apply: Callable[[Transaction, Sequence[BatchItem]], Awaitable[Sequence[BatchResult | HoldfastError]]]


Operation: TypeAlias = Callable[[Transaction], Awaitable[T]]


class Database(Protocol):
    """Runs operations. Each method returns once the outcome is on disk."""

    async def read(self, operation: Operation[T], *, quick: bool = False) -> T:
        """Run `operation` on a consistent view, without waiting for writers.

        With `quick` it reads a few small rows by their keys, so that a database may do it at once where it is called.
        """

    async def write(self, operation: Operation[T], *, enqueues: bool = False) -> T:
        """Run `operation` in a transaction of its own, or in one that it shares with others and can leave alone.

        Whether it `queues` says the same as of a batch.
        """

    def submit_to_batch(self, batch: Batch[BatchItem, BatchResult], item: BatchItem) -> Awaitable[BatchResult]:
        """Do `item` together with whatever else of its kind is waiting; it fails or holds alone."""


class RetryTransaction(Exception):
    """The locks taken were not enough: run the operation again from the start."""


MAX_INLINE_EVENT_CHARS: Final = 32 * 1024
"""Bytes past which what a log grew by must be read, and only how far it is is told."""


class WakeBuilder:
    """Hints, gathered."""

    __slots__ = ("delayed", "emptied", "ended", "grown", "news", "queue", "runs", "timers")

    def __init__(self) -> None:
        self.runs: set[tuple[SpaceId, RunId]] = set()
        self.ended: set[tuple[SpaceId, RunId]] = set()
        self.grown: list[LogAppend] = []
        self.queue = False
        self.emptied = False
        self.delayed = False
        self.news = False
        self.timers = False

    def add(
        self,
        *,
        run: tuple[SpaceId, RunId] | None = None,
        ended: tuple[SpaceId, RunId] | None = None,
        grown: LogAppend | None = None,
        queue: bool = False,
        emptied: bool = False,
        delayed: bool = False,
        news: bool = False,
        timers: bool = False,
    ) -> None:
        """Remember one more."""
        if run is not None:
            self.runs.add(run)
        if grown is not None:
            self.runs.add(grown.head.name)
            self.grown.append(grown if grown.size <= MAX_INLINE_EVENT_CHARS else replace(grown, events=()))
        if ended is not None:
            self.ended.add(ended)
        self.queue = queue or (self.queue and not emptied)
        self.emptied = self.emptied or emptied
        self.delayed = self.delayed or delayed
        self.news = self.news or news
        self.timers = self.timers or timers

    def merge(self, other: "WakeBuilder") -> None:
        """Remember what another has that comes after this."""
        self.runs |= other.runs
        self.ended |= other.ended
        self.grown += other.grown
        self.queue = other.queue or (self.queue and not other.emptied)
        self.delayed = self.delayed or other.delayed
        self.news = self.news or other.news
        self.timers = self.timers or other.timers

    def build(self) -> WakeHint | None:
        """Return all of it as one hint."""
        if not (self.runs or self.ended or self.queue or self.delayed or self.news or self.timers):
            return None
        return WakeHint(
            runs=frozenset(self.runs),
            ended=frozenset(self.ended),
            grown=tuple(self.grown[-MAX_LOG_APPENDS_PER_HINT:]),
            queue=self.queue,
            delayed=self.delayed,
            news=self.news,
            timers=self.timers,
        )
