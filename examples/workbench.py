"""An agent fixes a small project, runs its tests in the sandbox, asks before it deletes a file, and reports.

    python examples/workbench.py [--answer approve|deny]

It works on a copy, so it can be repeated. The model is a script: no key is needed, and nothing leaves the machine. The
project has a file `.env` with a secret: the agent tries to read it, and a rule denies that.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

import holdfast
from holdfast import HoldfastApi, RunHandle

WORKBENCH: Final = Path(__file__).parent / "workbench"
SECRET: Final = "PASSWORD=open-sesame\n"


async def main(answer: str | None) -> int:
    """Run the agent; return the exit code."""
    with tempfile.TemporaryDirectory(prefix="workbench-") as folder:
        workspace = Path(shutil.copytree(WORKBENCH, Path(folder, "workbench")))
        (workspace / "project" / ".env").write_text(SECRET)
        async with holdfast.open(workspace) as hf:
            run = await hf.start("mechanic", "The tests fail. Please mend it.")
            while not (ended := await run.wait()).status.terminal:
                await _decide(run, answer)
            await _show(hf, run)
    return 0 if ended.status == "completed" else 1


async def _decide(run: RunHandle, answer: str | None) -> None:
    """Ask the person at the terminal about each open interrupt."""
    for interrupt in await run.interrupts():
        rule = (interrupt.metadata or {})["rule"]
        print(f"?  the agent asks: {interrupt.arguments} (rule: {rule})", flush=True)
        reply = answer or await asyncio.to_thread(input, "   approve or deny? ")
        decision = "approve" if reply.strip() == "approve" else "deny"
        print(f"   {decision}", flush=True)
        await run.respond({"decision": decision}, interrupt_id=interrupt.id, digest=interrupt.digest)


async def _show(hf: HoldfastApi, run: RunHandle) -> None:
    """Print the messages, tool calls and the report."""
    for message in await run.messages():
        for call in message.tool_calls:
            print(f"→  {call.name} {call.arguments}")
        if message.content:
            print(f"{message.role:>9}  " + str(message.content).replace("\n", "\n" + " " * 11))
    async for listed in run.artifacts():
        artifact = await hf.artifacts.get(listed.id)
        print(f"\n{artifact.title}\n\n{artifact.content}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--answer", choices=["approve", "deny"], help="the decision, instead of asking at the terminal")
    sys.exit(asyncio.run(main(parser.parse_args().answer)))
