"""An agent remembers over two threads and a restart, says why, and forgets on request.

    python examples/memory/remember.py

The model is a script: no key is needed, and nothing leaves the machine. A real model reads the id of a memory in its
prompt; here the example does, and writes it into the script.
"""

import asyncio
import json
import shutil
import tempfile
from pathlib import Path
from typing import Final

import holdfast
from holdfast.domain.content import Json

AGENTS: Final = Path(__file__).parent / "agents"
FACT: Final = "allergic to peanuts"


async def main() -> int:
    """Tell something, restart, ask for it on another thread, ask why, and forget it; return the exit code."""
    with tempfile.TemporaryDirectory(prefix="memory-") as folder:
        workspace = Path(folder)
        shutil.copytree(AGENTS, workspace / "agents")
        async with holdfast.open(workspace) as hf:
            told = await hf.ask("companion", "By the way, I am allergic to peanuts.")
            print(f"first thread: {told}", flush=True)
        print("closed, and opened again", flush=True)
        async with holdfast.open(workspace) as hf:
            assert isinstance(hf, holdfast.Client)
            answer, known = await ask(hf, "What am I allergic to?", "answer.json")
            print(f"second thread, in the prompt: {known}\nagent: {answer}", flush=True)
            memory = next(word.strip("[]") for word in known.split() if word.startswith("[mem_"))
            script = {
                "turns": [
                    {"call": [{"name": "provenance_lookup", "arguments": {"abstract_node_id": memory}}]},
                    {"say": "Because of this: {$last_tool}"},
                ]
            }
            (workspace / "agents/companion/why.json").write_text(json.dumps(script))
            why, _ = await ask(hf, "Why do you think so?", "why.json")
            print(f"agent: {why}", flush=True)
            receipt = await hf.send("POST", "/memories/forget", dict[str, Json], body={"ids": [memory]})
            print(f"forgotten: {receipt['memories']} memories, {receipt['messages']} messages", flush=True)
            forgotten, left = await ask(hf, "Is there anything that I am allergic to?", "answer.json")
            print(f"third thread, in the prompt: {left or 'nothing'}\nagent: {forgotten}", flush=True)
            remembered = FACT in known and FACT in answer and "I am allergic to peanuts" in why
            return 0 if remembered and FACT not in left and FACT not in forgotten else 1


async def ask(hf: holdfast.Client, question: str, script: str) -> tuple[str, str]:
    """Return the answer on a new thread, and what was recalled into the prompt."""
    run = await hf.start("companion", question, model=f"scripted:{script}")
    answer = str(await run.result())
    context = (await run.context()).context
    assert context is not None
    return answer, next((segment.text for segment in context.segments if segment.name == "memories"), "")


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
