"""`python -m benchmarks [--seconds N] [--json] [--backend NAME] [NAME …]`."""

import argparse
import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any

import msgspec

from benchmarks import (
    agents,
    claims,
    console,
    events,
    habits,
    http_keys,
    http_runs,
    http_streams,
    http_surfaces,
    long_threads,
    mcp,
    providers,
    reads,
    recall,
    remote,
    runs,
    skills,
    together,
    tools,
)
from benchmarks.databases import BACKENDS
from benchmarks.table import Table

MEASURES: dict[str, Callable[..., Coroutine[Any, Any, Table | list[Table]]]] = {
    "events": events.measure,
    "runs": runs.measure,
    "reads": reads.measure,
    "claims": claims.measure,
    "habits": habits.measure,
    "agents": agents.measure,
    "together": together.measure,
    "long-threads": long_threads.measure,
    "providers": providers.measure,
    "skills": skills.measure,
    "http": http_runs.measure,
    "keys": http_keys.measure,
    "surfaces": http_surfaces.measure,
    "server": http_streams.measure,
    "recall": recall.measure,
    "remote": remote.measure,
}
WITHOUT_STORE: dict[str, Callable[..., Coroutine[Any, Any, Table | list[Table]]]] = {
    "tools": tools.measure,
    "mcp": mcp.measure,
    "skill-choice": skills.measure_quality,
    "console": console.measure,
}
"""Measures without a store, which run once."""


def main() -> None:
    """Run the measures and print their tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="The cost of Holdfast and its floor.")
    parser.add_argument("names", nargs="*", choices=[*MEASURES, *WITHOUT_STORE, []], help="the measures (default: all)")
    parser.add_argument("--backend", choices=BACKENDS, help="the database (default: both)")
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds per row (default: 3)")
    parser.add_argument("--json", action="store_true", help="print JSON lines instead of tables")
    arguments = parser.parse_args()
    for name in arguments.names or [*MEASURES, *WITHOUT_STORE]:
        for measure in _measures(name, [arguments.backend] if arguments.backend else BACKENDS, arguments.seconds):
            result = asyncio.run(measure)
            for table in result if isinstance(result, list) else [result]:
                print(msgspec.json.encode(table).decode() if arguments.json else table.render(), flush=True)


def _measures(name: str, backends: Iterable[str], seconds: float) -> Iterator[Coroutine[Any, Any, Table | list[Table]]]:
    if name in WITHOUT_STORE:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        yield WITHOUT_STORE[name](seconds=seconds)
        return
    for backend in backends:
        print(f"measuring {name} on {backend} …", file=sys.stderr, flush=True)
        yield MEASURES[name](backend, seconds=seconds)


if __name__ == "__main__":
    main()
