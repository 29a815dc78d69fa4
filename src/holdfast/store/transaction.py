"""The interface between store operations and the database that runs them.

An operation is an `async def` over a `Transaction`. PostgreSQL awaits it on a connection. SQLite runs it to the end in
its writer thread, where nothing ever waits. So one implementation of each operation serves both databases.

`WakeHints` collects the wake-up hints of a transaction, which the database publishes on the bus after the commit.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Iterator, Sequence
from functools import wraps
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.domain.commit import RunSnapshot
from holdfast.domain.errors import HoldfastError, NotFound
from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.instant import Millis
from holdfast.domain.run import Run
from holdfast.ports.bus import MAX_LOG_APPENDS_PER_HINT, WakeHint
from holdfast.ports.log import LogAppend

T = TypeVar("T")
P = ParamSpec("P")
BatchItem = TypeVar("BatchItem")
BatchResult = TypeVar("BatchResult")


class Row(Protocol):
    """A result row: iterate over its values, or look one up by column name."""

    def __getitem__(self, key: str, /) -> Any: ...

    def __iter__(self) -> Iterator[Any]: ...

    def keys(self) -> Iterable[str]:
        """Return the column names, in the order of the values."""


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The events a commit appends to its run's log, and the conditions that the fence checks."""

    run_key: int
    lease_number: int
    events: Sequence[tuple[str, str]]
    """Type and JSON of each event."""
    consumed: int = 0
    """Number of inbox items that the commit consumes."""
    makes_progress: bool = False
    """Whether a step settles or the run starts to wait, which resets the run's attempt count."""
    stops: bool = False
    """Whether the run stops reading its inbox, because it waits or ends."""


class NewRunRow(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A run inserted by this transaction, so that a claim in the same transaction need not read it back."""

    run: Run
    space_key: int
    thread_key: int
    parent_key: int | None
    snapshot: Callable[[], RunSnapshot | None]
    """Build the run's snapshot; returns `None` if that needs a read."""


class Transaction(Protocol):
    """An atomic transaction: its changes are applied all or not at all, and are invisible until the commit."""

    now: Millis
    """This process's clock, read when the transaction starts and again after each lock."""

    lease_now: Millis | None
    """The clock that leases are measured by; `None` to use the database's own clock."""

    new_runs: dict[int, NewRunRow]
    """Claimable runs that this transaction inserted, by key."""

    hints: "WakeHints"
    """Wake-up hints to publish after the commit."""

    async def lock_threads_by_name(self, threads: Sequence[tuple[SpaceId, ThreadId]]) -> None:
        """Lock threads by space and id, and lock their spaces against deletion."""

    async def lock(self, *, threads: Iterable[int] = (), runs: Iterable[int] = ()) -> bool:
        """Lock rows against all other writers until the transaction ends: threads first, then run heads, each by key.

        Return whether others may have written to them before the lock, so that earlier reads must be repeated.
        """

    async def one(self, name: str, /, **parameters: Any) -> Row | None:
        """Run a statement and return its only row, if it has one."""

    async def all(self, name: str, /, **parameters: Any) -> Sequence[Row]:
        """Run a statement and return its rows."""

    async def run(self, name: str, /, **parameters: Any) -> None:
        """Run a statement that returns nothing."""

    async def many(self, name: str, rows: Sequence[tuple[Any, ...]]) -> Sequence[Row]:
        """Run a statement for each of `rows`, as one statement where the database can. No two rows may share a key."""

    async def append(self, entries: Sequence[JournalEntry], *, alone: bool = False) -> Sequence[Row]:
        """Fence commits of different runs, number and add their events, and return the heads of accepted commits.

        A commit is rejected if its lease was lost, or if its run would stop while its inbox has unread items. With
        `alone` this is the transaction's only statement, so the database may already have committed it on return.
        """

    def new_id(self, prefix: str) -> str:
        """Generate an id."""


class Batch(msgspec.Struct, Generic[BatchItem, BatchResult], frozen=True, kw_only=True, eq=False):
    """An operation that is applied to the items of many callers at once.

    Items with the same `key` are never applied in the same call, and keep their order. If `apply` fails for several
    items, its changes are rolled back and it is called for each item alone.
    """

    enqueues: bool = False
    """Whether it queues runs. A single-process database announces that beforehand, so that workers can claim the runs
    in the transaction that creates them."""
    durable: bool = True
    """Whether the transaction must be on disk before callers get their results. If not, a local database may sync it
    with the next transaction: a power failure that loses it also kills this process."""
    key: Callable[[BatchItem], Hashable]
    apply: Callable[[Transaction, Sequence[BatchItem]], Awaitable[Sequence[BatchResult | HoldfastError]]]


Operation: TypeAlias = Callable[[Transaction], Awaitable[T]]


class Database(Protocol):
    """Runs operations. Each method returns once the outcome is on disk."""

    async def read(self, operation: Operation[T], *, quick: bool = False) -> T:
        """Run `operation` on a consistent snapshot, without waiting for writers.

        `quick` declares that it reads a few small rows by key, so the database may run it on the calling thread.
        """

    async def write(self, operation: Operation[T], *, enqueues: bool = False) -> T:
        """Run `operation` in a transaction; if others share the transaction, it still fails or rolls back alone.

        `enqueues` means the same as in `Batch`.
        """

    async def write_and_scrub(self, operation: Operation[T]) -> T:
        """Run `operation` in a transaction, then remove what it deleted from the files of a local database.

        A server's database is vacuumed: its files and its log may hold deleted bytes for a while.
        """

    def submit_to_batch(self, batch: Batch[BatchItem, BatchResult], item: BatchItem) -> Awaitable[BatchResult]:
        """Apply `item` together with other waiting items of `batch`; it succeeds or fails alone."""


class JoinedDatabase:
    """Runs operations in a transaction that is open already, so that several ports can share it."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    async def read(self, operation: Operation[T], *, quick: bool = False) -> T:
        """Run `operation` in the transaction."""
        return await operation(self._tx)

    async def write(self, operation: Operation[T], *, enqueues: bool = False) -> T:
        """Run `operation` in the transaction."""
        return await operation(self._tx)

    async def write_and_scrub(self, operation: Operation[T]) -> T:
        """Refuse: the files can be scrubbed only after the transaction."""
        raise RuntimeError("a joined transaction cannot scrub the files of its database")

    async def submit_to_batch(self, batch: Batch[BatchItem, BatchResult], item: BatchItem) -> BatchResult:
        """Apply `item` alone, in the transaction."""
        (outcome,) = await batch.apply(self._tx, [item])
        if isinstance(outcome, HoldfastError):
            raise outcome
        return outcome


class RetryTransaction(Exception):
    """The locks taken were not enough: run the operation again from the start."""


def resolve(future: asyncio.Future[Any], outcome: Any) -> None:
    """Resolve a caller's future with a result or an error, unless the caller has cancelled it."""
    if future.done():
        return
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


async def find_row(tx: Transaction, statement: str, noun: str, /, **parameters: Any) -> Row:
    """Run a statement and return its only row, or raise `NotFound` for the `noun` with the parameter `id`."""
    row = await tx.one(statement, **parameters)
    if row is None:
        raise NotFound(f"there is no {noun} `{parameters['id']}`", id=parameters["id"])
    return row


async def store_time(tx: Transaction) -> Millis:
    """Return the time by the clock that leases, timers and expiries are measured by.

    A duration counts from this time, and not from the clock of the process, which may be another one.
    """
    if tx.lease_now is not None:
        return tx.lease_now
    row = await tx.one("store_time", now=None)
    assert row is not None
    return Millis(row["now"])


class SqlPort:
    """Base class of the store's ports."""

    def __init__(self, database: Database) -> None:
        self._database = database


Port = TypeVar("Port", bound=SqlPort)
_PortMethod: TypeAlias = Callable[Concatenate[Port, P], Coroutine[Any, Any, T]]
_TransactionMethod: TypeAlias = Callable[Concatenate[Port, Transaction, P], Coroutine[Any, Any, T]]


def reads(method: _TransactionMethod[Port, P, T]) -> _PortMethod[Port, P, T]:
    """Run a port's method in a read transaction, passed to it as `tx`; callers leave that argument out."""

    @wraps(method)
    async def read(port: Port, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await port._database.read(lambda tx: method(port, tx, *args, **kwargs))

    return _hide_transaction(read)


def quick_reads(method: _TransactionMethod[Port, P, T]) -> _PortMethod[Port, P, T]:
    """Run a port's method in a read transaction, as `reads`; it reads a few small rows by key."""

    @wraps(method)
    async def read(port: Port, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await port._database.read(lambda tx: method(port, tx, *args, **kwargs), quick=True)

    return _hide_transaction(read)


def writes(method: _TransactionMethod[Port, P, T]) -> _PortMethod[Port, P, T]:
    """Run a port's method in a write transaction, passed to it as `tx`; callers leave that argument out."""

    @wraps(method)
    async def write(port: Port, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await port._database.write(lambda tx: method(port, tx, *args, **kwargs))

    return _hide_transaction(write)


def _hide_transaction(method: _PortMethod[Port, P, T]) -> _PortMethod[Port, P, T]:
    """Give a method the signature that its callers see, which is the signature of the port."""
    signature = inspect.signature(method)
    visible = [parameter for parameter in signature.parameters.values() if parameter.name != "tx"]
    method.__signature__ = signature.replace(parameters=visible)  # type: ignore[attr-defined]
    return method


MAX_INLINE_EVENT_CHARS: Final = 32 * 1024
"""Characters of event JSON that a hint carries per append. Beyond that it carries the head only."""


class WakeHints:
    """Collects the wake-up hints of a transaction."""

    __slots__ = ("delayed", "deliveries", "emptied", "ended", "grown", "news", "queue", "runs", "timers")

    def __init__(self) -> None:
        self.runs: set[tuple[SpaceId, RunId]] = set()
        self.ended: set[tuple[SpaceId, RunId]] = set()
        self.grown: list[LogAppend] = []
        self.queue = False
        self.emptied = False
        self.delayed = False
        self.news = False
        self.deliveries = False
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
        deliveries: bool = False,
        timers: bool = False,
    ) -> None:
        """Add a hint; `emptied` cancels an earlier `queue` hint."""
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
        self.deliveries = self.deliveries or deliveries
        self.timers = self.timers or timers

    def merge(self, other: "WakeHints") -> None:
        """Add the hints of a later operation."""
        self.runs |= other.runs
        self.ended |= other.ended
        self.grown += other.grown
        self.queue = other.queue or (self.queue and not other.emptied)
        self.delayed = self.delayed or other.delayed
        self.news = self.news or other.news
        self.deliveries = self.deliveries or other.deliveries
        self.timers = self.timers or other.timers

    def build(self) -> WakeHint | None:
        """Return one hint for all of them, or `None` if there are none."""
        flags = (self.queue, self.delayed, self.news, self.deliveries, self.timers)
        if not (self.runs or self.ended or any(flags)):
            return None
        return WakeHint(
            runs=frozenset(self.runs),
            ended=frozenset(self.ended),
            grown=tuple(self.grown[-MAX_LOG_APPENDS_PER_HINT:]),
            queue=self.queue,
            delayed=self.delayed,
            news=self.news,
            deliveries=self.deliveries,
            timers=self.timers,
        )
