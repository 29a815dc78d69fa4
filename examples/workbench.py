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
from holdfast import NewMessage, NewRun, NewThread, Role, Run
from holdfast.bootstrap.workspace import Holdfast
from holdfast.domain.space import DEFAULT_SPACE

WORKBENCH: Final = Path(__file__).parent / "workbench"
SECRET: Final = "PASSWORD=open-sesame\n"


async def main(answer: str | None) -> int:
    """Run the agent; return the exit code."""
    with tempfile.TemporaryDirectory(prefix="workbench-") as folder:
        workspace = Path(shutil.copytree(WORKBENCH, Path(folder, "workbench")))
        (workspace / "project" / ".env").write_text(SECRET)
        async with holdfast.open(workspace) as here:
            message = NewMessage(role=Role.USER, content="The tests fail. Please mend it.")
            new = NewRun(thread=NewThread(agent_type="mechanic"), messages=[message])
            run = (await here.runs.start(DEFAULT_SPACE, new)).run
            ended = await _answer_until_ended(here, run, answer)
            await _show(here, ended)
    return 0 if ended.status == "completed" else 1


async def _answer_until_ended(here: Holdfast, run: Run, answer: str | None) -> Run:
    """Answer the approval requests of the agent until the run has ended."""
    with here.watcher.watch(DEFAULT_SPACE, run.id) as watch:
        seq, head = 0, await watch.wait_past(0)
        while head is not None and not head.status.terminal:
            if head.status == "waiting":
                await _decide(here, run, answer)
            seq = head.last_event_seq
            head = await watch.wait_past(seq)
    return await here.store.runs.get(DEFAULT_SPACE, run.id)


async def _decide(here: Holdfast, run: Run, answer: str | None) -> None:
    """Ask the person at the terminal about each open interrupt."""
    for interrupt in await here.store.interrupts.of_run(DEFAULT_SPACE, run.id):
        if interrupt.status == "open":
            print(f"?  the agent asks: {interrupt.arguments} (rule: {interrupt.metadata['rule']})", flush=True)
            reply = answer or await asyncio.to_thread(input, "   approve or deny? ")
            decision = "approve" if reply.strip() == "approve" else "deny"
            print(f"   {decision}", flush=True)
            await here.runs.respond(DEFAULT_SPACE, run.id, {"decision": decision}, digest=interrupt.digest, by="you")


async def _show(here: Holdfast, run: Run) -> None:
    """Print the messages, tool calls and the report."""
    for message in await here.store.messages.of_run(DEFAULT_SPACE, run.id):
        for call in message.tool_calls:
            print(f"→  {call.name} {call.arguments}")
        if message.content:
            print(f"{message.role:>9}  " + str(message.content).replace("\n", "\n" + " " * 11))
    for listed in (await here.store.artifacts.page(DEFAULT_SPACE, run=run.id)).items:
        artifact = await here.store.artifacts.get(DEFAULT_SPACE, listed.id)
        print(f"\n{artifact.title}\n\n{artifact.content}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--answer", choices=["approve", "deny"], help="the decision, instead of asking at the terminal")
    sys.exit(asyncio.run(main(parser.parse_args().answer)))
