"""Invariants of the log that hold in every database at any time, whatever was killed before."""

import re
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final

from holdfast.domain.events import decode_event
from holdfast.domain.run import RunStatus
from holdfast.testing.stream_verifier import IllegalStream, verify_stream
from tests.support.database_probe import Probe

_RULE: Final = re.compile(r"^-- rule: (.+)$", re.MULTILINE)


class BrokenLog(AssertionError):
    """The log breaks these rules."""


async def check_log(probe: Probe) -> None:
    """Raise `BrokenLog` unless every rule holds for all committed rows, and every stream is legal.

    Streams are legal if their events are created with a `Stream`.
    """
    _report([*await _broken_rules(probe), *await _illegal_streams(probe)])


async def check_rows(probe: Probe) -> None:
    """Raise `BrokenLog` unless every rule holds; the streams are not read."""
    _report(await _broken_rules(probe))


def _report(broken: list[str]) -> None:
    if broken:
        raise BrokenLog("\n".join(broken))


async def _broken_rules(probe: Probe) -> list[str]:
    violations = {rule: await probe.rows(sql) for rule, sql in _RULES.items()}
    return [f"{rule}: {[dict(row) for row in rows[:5]]}" for rule, rows in violations.items() if rows]


async def _illegal_streams(probe: Probe) -> list[str]:
    illegal = []
    rows = await probe.rows(_STREAMS)
    for _, events in groupby(rows, key=itemgetter("run_key")):
        stream = list(events)
        run, status = stream[0]["id"], RunStatus(stream[0]["status"])
        try:
            verify_stream([decode_event(event["data"].encode()) for event in stream], complete=status.terminal)
        except IllegalStream as exc:
            illegal.append(f"the stream of run `{run}`, which is {status}, is illegal: {exc}")
    return illegal


def _statements() -> dict[str, str]:
    _, *parts = _RULE.split(Path(__file__).with_suffix(".sql").read_text())
    return dict(zip(parts[::2], parts[1::2], strict=True))


_RULES: Final = _statements()
_STREAMS: Final = _RULES.pop("streams")
