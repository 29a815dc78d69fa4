"""A server whose agents have no memory does not load what only recall needs, and indexes nothing."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio, sys
from benchmarks.agents import opened, run_agent
from holdfast.domain.space import DEFAULT_SPACE

async def main():
    async with opened(PATH) as holdfast:
        await run_agent(holdfast)
        await asyncio.sleep(1.2)  # two rounds of the indexer
        print([name for name in ("numpy", "wordllama", "tokenizers", "safetensors") if name in sys.modules])
        print((await holdfast.recall.status(DEFAULT_SPACE)).items)

from pathlib import Path
PATH = Path(sys.argv[1])
asyncio.run(main())
"""


def test_a_workspace_without_memory_loads_no_vectors_and_indexes_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "holdfast.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout.split("\n")[:2], done.returncode) == (["[]", "0"], 0), done.stderr
