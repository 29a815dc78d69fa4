"""The rows of an agent's run without Holdfast: the minimum to make durable, in as many commits."""

import json
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.bulk import EVENTS, MESSAGES, OUTBOX, RUN_HEADS, RUN_IDS, RUNS, Columns, insert, run_row
from benchmarks.floors import Floor

CHUNKS = 20
WORDS = "word " * 42
EVENTS_OF_A_RUN = 7

_KEYS = count(1)
_CLAIM = "UPDATE run_heads SET lease_number = lease_number + 1 WHERE run_key "
_DATA = json.dumps({"type": "TEXT_MESSAGE_CONTENT", "timestamp": 1, "messageId": "msg_1", "delta": WORDS})
_STEPS: Columns = {
    "run_key": "BIGINT",
    "number": "BIGINT",
    "kind": "TEXT",
    "name": "TEXT",
    "key": "TEXT",
    "state": "TEXT",
    "attempt": "BIGINT",
    "effectful": "BIGINT",
    "started_at": "BIGINT",
}
_CONTEXTS: Columns = {"run_key": "BIGINT", "step": "BIGINT", "snapshot": "JSON"}


class BareRun:
    """Runs of three awaited commits each, or more with streamed output.

    With a `loop` also the rows that the agent loop adds: a step, and its context.
    """

    def __init__(self, floor: Floor, database: str | Path, *, loop: bool = True) -> None:
        self._floor = floor
        self._loop = loop
        self._keys = _KEYS
        tables = {
            "runs": RUNS,
            "run_ids": RUN_IDS,
            "run_heads": RUN_HEADS,
            "messages": MESSAGES,
            "events": EVENTS,
            "steps": _STEPS,
            "contexts": _CONTEXTS,
            "outbox": OUTBOX,
        }
        self._into = {name: insert(name, columns, database) for name, columns in tables.items()}
        self._claim = _CLAIM + ("= ?" if isinstance(database, Path) else "= ANY($1::BIGINT[])")

    async def run(self) -> None:
        """Make the same number of commits of the same rows."""
        key = await self.create()
        await self.claim(key)
        await self.finish(key, events=EVENTS_OF_A_RUN)

    async def create(self) -> int:
        """Commit a new run, and return its key."""
        key = next(self._keys)
        await self._floor.write(
            [
                (self._into["runs"], [run_row(key)]),
                (self._into["run_ids"], [(1, f"run_{key}", key)]),
                (self._into["run_heads"], [(key, "completed", 60_000, 1, 1, 1)]),
                (self._into["messages"], [self._message(key, 0)]),
                (self._into["events"], [(key, 1, "RUN_STARTED", _DATA, 1)]),
            ]
        )
        return key

    async def claim(self, key: int) -> None:
        """Commit the claim of a run."""
        await self._floor.write([(self._claim, [(key,)])])

    async def say(self, key: int, *, after: int, events: int) -> None:
        """Commit streamed events."""
        await self._floor.write([(self._into["events"], self._events(key, after=after, events=events))])

    async def finish(self, key: int, *, after: int = 1, events: int) -> None:
        """Commit the last events and the end."""
        thought = [
            (self._into["steps"], [(key, 1, "model", "scripted", f"run_{key}.1", "done", 1, 0, 1)]),
            (self._into["contexts"], [(key, 1, "{}")]),
        ]
        await self._floor.write(
            [
                (self._into["events"], self._events(key, after=after, events=events)),
                (self._into["messages"], [self._message(key, 1)]),
                *(thought if self._loop else ()),
                (self._into["outbox"], [(1, "run.completed", f"run_{key}", "thr", "{}", 1)]),
            ]
        )

    def _events(self, key: int, *, after: int, events: int) -> list[tuple[Any, ...]]:
        return [(key, after + number, "TEXT_MESSAGE_CONTENT", _DATA, 1) for number in range(1, events + 1)]

    def _message(self, key: int, number: int) -> tuple[Any, ...]:
        return 1, key, f"msg_{key}_{number}", 2 * key + number, "user", f'"{WORDS}"', "{}", 1
