"""SQLite transactions. Their methods never suspend, so an operation runs to the end without an event loop."""

import os
import re
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from itertools import chain
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeVar, cast

from holdfast.domain.ids import ENTROPY_BYTES, SpaceId, ThreadId, sortable_id
from holdfast.domain.instant import Millis
from holdfast.store.statements import load_statements
from holdfast.store.transaction import JournalEntry, NewRunRow, Operation, Row, WakeHints

T = TypeVar("T")

STATEMENTS: Final = load_statements("sqlite", lambda index: f"?{index}")
MAX_ROWS_PER_STATEMENT: Final = 64

_VALUES_ROW: Final = re.compile(r"(?<=VALUES )\([^()]+\)")
_PLACEHOLDER_NUMBER: Final = re.compile(r"(?<=\?)\d+")
_PLACEHOLDER: Final = re.compile(r"\?(\d+)")
_UPDATE_FROM_VALUES: Final = re.compile(
    r"WITH (?P<table>\w+) \((?P<columns>[^()]+)\) AS \( ?VALUES \((?P<values>[^()]+)\) ?\) "
    r"(?P<update>UPDATE .+) FROM (?P=table) (?P<alias>\w) (?P<where>WHERE .+)"
)
_MULTI_ROW_STATEMENTS: Final = frozenset(
    name for name, statement in STATEMENTS.items() if _VALUES_ROW.search(statement.sql)
)


def _sql_for_one_row(sql: str) -> str:
    """Return the statement for a single row: an update from a `VALUES` table gets the values inline: faster."""
    update = _UPDATE_FROM_VALUES.fullmatch(sql)
    if update is None:
        return sql
    values = dict(zip(update["columns"].split(", "), update["values"].split(", "), strict=True))
    column = re.compile(rf"\b{update['alias']}\.(\w+)")
    return column.sub(lambda match: values[match[1]], f"{update['update']} {update['where']}")


class PositionalSql(NamedTuple):
    """A statement whose placeholders are all `?`: Python 3.12.0 to 3.12.3 warns of each `?1`, at ten times the cost."""

    sql: str
    arrange: Callable[[Sequence[Any]], Sequence[Any]] | None
    """Puts the parameters into the order of the placeholders; null if they have it."""

    @classmethod
    def of(cls, numbered: str) -> "PositionalSql":
        """Return a statement that was written with `?1`, `?2` and so on."""
        order = [int(number) - 1 for number in _PLACEHOLDER.findall(numbered)]
        arrange = None if order == [*range(len(order))] else itemgetter(*order)
        return cls(_PLACEHOLDER.sub("?", numbered), arrange)

    def execute(self, connection: sqlite3.Connection, values: Sequence[Any]) -> list[Row]:
        """Run the statement."""
        given = values if self.arrange is None else self.arrange(values)
        return connection.execute(self.sql, given).fetchall()


_SQL: Final = {name: PositionalSql.of(statement.sql) for name, statement in STATEMENTS.items()}
_ONE_ROW_SQL: Final = {
    name: PositionalSql.of(_sql_for_one_row(statement.sql)) for name, statement in STATEMENTS.items()
}


class SqliteTransaction:
    """Implements `Transaction`."""

    __slots__ = ("_connection", "new_runs", "lease_now", "now", "hints")

    def __init__(
        self, connection: sqlite3.Connection, now: Millis, new_runs: dict[int, NewRunRow] | None = None
    ) -> None:
        """Begin an operation; `new_runs` are those that earlier operations of the same transaction inserted."""
        self._connection = connection
        self.now = now
        self.lease_now: Millis | None = now
        self.new_runs = {} if new_runs is None else new_runs
        self.hints = WakeHints()

    async def lock_threads_by_name(self, threads: Sequence[tuple[SpaceId, ThreadId]]) -> None:
        """Do nothing: there is one writer."""

    async def lock(self, *, threads: Iterable[int] = (), runs: Iterable[int] = ()) -> bool:
        """Do nothing: there is one writer."""
        return False

    async def one(self, name: str, /, **parameters: Any) -> Row | None:
        """Run a statement and return its only row."""
        rows = await self.all(name, **parameters)
        return rows[0] if rows else None

    async def all(self, name: str, /, **parameters: Any) -> list[Row]:
        """Run a statement and return its rows."""
        statement = STATEMENTS[name]
        values = [parameters[parameter] for parameter in statement.parameters]
        return _SQL[name].execute(self._connection, values)

    async def run(self, name: str, /, **parameters: Any) -> None:
        """Run a statement that returns nothing."""
        await self.all(name, **parameters)

    async def many(self, name: str, rows: Sequence[tuple[Any, ...]]) -> list[Row]:
        """Run a statement for as many rows at a time as possible.

        Each execution releases the GIL, and the event loop may hold it longer than the statement takes.
        """
        if not rows:
            return []
        if len(rows) == 1:
            return _ONE_ROW_SQL[name].execute(self._connection, rows[0])
        max_rows = MAX_ROWS_PER_STATEMENT if name in _MULTI_ROW_STATEMENTS else 1
        found: list[Row] = []
        done = 0
        while done < len(rows):
            count = _chunk_size(min(max_rows, len(rows) - done))
            values = list(chain.from_iterable(rows[done : done + count]))
            found += _sql_for_rows(name, count).execute(self._connection, values)
            done += count
        return found

    async def append(self, entries: Sequence[JournalEntry], *, alone: bool = False) -> list[Row]:
        """Fence commits and number their events, then add the events."""
        fenced = [
            (len(entry.events), entry.consumed, entry.makes_progress, entry.run_key, entry.lease_number, entry.stops)
            for entry in entries
        ]
        heads = await self.many("fence", fenced)
        last = {row["run_key"]: row["last_event_seq"] for row in heads}
        rows = []
        for entry in entries:
            if entry.run_key in last:
                first = last[entry.run_key] - len(entry.events) + 1
                for seq, (type_, data) in enumerate(entry.events, start=first):
                    rows.append((entry.run_key, seq, type_, data, self.now))
        await self.many("add_events", rows)
        return heads

    def new_id(self, prefix: str) -> str:
        """Generate an id."""
        return sortable_id(prefix, at=self.now, entropy=os.urandom(ENTROPY_BYTES))


@cache
def _sql_for_rows(name: str, count: int) -> PositionalSql:
    """Return the SQL of a statement with `count` rows in its `VALUES`."""
    statement = STATEMENTS[name]

    def shifted(row: str, shift: int) -> str:
        return _PLACEHOLDER_NUMBER.sub(lambda number: str(int(number[0]) + shift), row)

    shifts = [index * len(statement.parameters) for index in range(count)]
    return PositionalSql.of(
        _VALUES_ROW.sub(lambda row: ", ".join(shifted(row[0], shift) for shift in shifts), statement.sql)
    )


def _chunk_size(rows: int) -> int:
    """Return the largest of 1, 2, 3, 4, 6, 8, 12 … that fits: few sizes to prepare, and few chunks for any count."""
    power = 1 << rows.bit_length() - 1
    return power + power // 2 if rows >= power + power // 2 else power


def run_operation(operation: Operation[T], transaction: SqliteTransaction) -> T:
    """Run an operation to its end."""
    return run_to_end(operation(transaction))


def run_to_end(awaitable: Awaitable[T]) -> T:
    """Run an awaitable that never suspends."""
    steps = awaitable.__await__()
    try:
        next(steps)
    except StopIteration as end:
        return cast(T, end.value)
    raise RuntimeError("an operation awaited something other than its transaction")
