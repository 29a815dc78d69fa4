"""`python -m benchmarks [--seconds N] [--json] [--backend NAME] [NAME …]`."""

import argparse
import asyncio
import sys

import msgspec

from benchmarks import agents, claims, events, http_runs, http_streams, long_threads, providers, reads, runs, tools
from benchmarks.databases import BACKENDS

MEASURES = {
    "events": events.measure,
    "runs": runs.measure,
    "reads": reads.measure,
    "claims": claims.measure,
    "agents": agents.measure,
    "long-threads": long_threads.measure,
    "providers": providers.measure,
    "tools": tools.measure,
    "http": http_runs.measure,
    "server": http_streams.measure,
}


def main() -> None:
    """Measure, and print what was measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What Holdfast costs, beside its floor.")
    parser.add_argument("names", nargs="*", choices=[*MEASURES, []], help="what to measure (default: everything)")
    parser.add_argument("--backend", choices=BACKENDS, help="on what (default: both)")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each line may take (default: 3)")
    parser.add_argument("--json", action="store_true", help="print JSON lines instead of tables")
    arguments = parser.parse_args()
    for name in arguments.names or MEASURES:
        for backend in [arguments.backend] if arguments.backend else BACKENDS:
            print(f"measuring {name} on {backend} …", file=sys.stderr, flush=True)
            table = asyncio.run(MEASURES[name](backend, seconds=arguments.seconds))
            print(msgspec.json.encode(table).decode() if arguments.json else table.render(), flush=True)


if __name__ == "__main__":
    main()
