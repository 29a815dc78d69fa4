"""The seam between what the store does and the database that does it.

An operation is an `async def` over a `Transaction`. PostgreSQL awaits it on a connection; SQLite runs it in its
writer thread, where nothing ever has to wait, so that both keep every promise by the same code.
"""

from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from holdfast.domain.errors import HoldfastError
from holdfast.domain.ids import RunId, SpaceId, ThreadId
from holdfast.domain.instant import Millis
from holdfast.domain.opening import Opening
from holdfast.domain.run import Run
from holdfast.ports.event_log import Growth

T = TypeVar("T")
Item = TypeVar("Item")
Result = TypeVar("Result")


class Row(Protocol):
    """A row of a result: its values in order, and by column."""

    def __getitem__(self, key: str, /) -> Any: ...

    def __iter__(self) -> Iterator[Any]: ...

    def keys(self) -> Iterable[str]:
        """Return the names of the columns, in the same order."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What a commit adds to its run's log, and what it must be let through with."""

    run_key: int
    lease_number: int
    events: Sequence[tuple[str, str]]
    """Type and JSON."""
    consumed: int = 0
    """How many inbox items it reads."""
    progresses: bool = False
    """Whether a step settles or the run begins to wait: it does not kill its workers."""
    stops: bool = False
    """Whether the run stops reading its inbox."""


class Newborn(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A run that its transaction has made: whoever claims it there need not read it."""

    run: Run
    space_key: int
    thread_key: int
    parent_key: int | None
    opening: Callable[[], Opening | None]
    """Tells where it stands, if that needs no reading either."""


class Transaction(Protocol):
    """All of it happens, or nothing. Nobody else sees it before it has happened."""

    now: Millis
    """This process's time, the same for the whole operation from the last lock on."""

    lease_now: Millis | None
    """The time that leases are measured by; `None` where the database has a clock of its own."""

    born: dict[int, Newborn]
    """The runs that it has made and that may be claimed, by key."""

    async def lock_named(self, threads: Sequence[tuple[SpaceId, ThreadId]]) -> None:
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

    async def append(self, entries: Sequence[Entry], *, alone: bool = False) -> Sequence[Row]:
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
        grown: Growth | None = None,
        queue: bool = False,
        emptied: bool = False,
        delayed: bool = False,
        news: bool = False,
        timers: bool = False,
    ) -> None:
        """Tell those who watch, once this has happened; that the queue was `emptied` only takes back what was said."""


class Batch(msgspec.Struct, Generic[Item, Result], frozen=True, kw_only=True, eq=False):
    """Work of one kind that is done for many callers at once.

    Two items of one `name` are not done in one go, and those of one name are done in order. If `apply` fails for
    several items, what it did is taken back, and it is called for each alone.
    """

    queues: bool = False
    """Whether it puts runs into the queue. A database of one process says so beforehand, so that they may be claimed
    in the transaction that makes them."""
    lasting: bool = True
    """Whether it must be on disk before anybody is told; otherwise a database on this machine may let it go there with
    whatever comes next, as what a power failure then takes back it takes from this process too."""
    name: Callable[[Item], Hashable]
    apply: Callable[[Transaction, Sequence[Item]], Awaitable[Sequence[Result | HoldfastError]]]


Operation: TypeAlias = Callable[[Transaction], Awaitable[T]]


class Database(Protocol):
    """Runs operations. Each method returns once the outcome is on disk."""

    async def read(self, operation: Operation[T], *, quick: bool = False) -> T:
        """Run `operation` on a consistent view, without waiting for writers.

        With `quick` it reads a few small rows by their keys, so that a database may do it at once where it is called.
        """

    async def write(self, operation: Operation[T], *, queues: bool = False) -> T:
        """Run `operation` in a transaction of its own, or in one that it shares with others and can leave alone.

        Whether it `queues` says the same as of a batch.
        """

    def together(self, batch: Batch[Item, Result], item: Item) -> Awaitable[Result]:
        """Do `item` together with whatever else of its kind is waiting; it fails or holds alone."""


class Again(Exception):
    """The locks taken were not enough: run the operation again from the start."""
