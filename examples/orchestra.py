"""A conductor plans a concert, has two sections work on it at once, asks you once, and reports with artifacts.

    python examples/orchestra.py [--answer "the garden"]

It works on a copy, so that it can be done again. The models are scripts: it needs no key, and nothing leaves the
machine.
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
from holdfast.bootstrap.workspace import DEFAULT_SPACE, Holdfast
from holdfast.domain.errors import Invalid
from holdfast.domain.interrupt import Interrupt

ORCHESTRA: Final = Path(__file__).parent / "orchestra"


async def main(answer: str | None) -> int:
    """Have a concert planned; return the exit code."""
    with tempfile.TemporaryDirectory(prefix="orchestra-") as folder:
        workspace = Path(shutil.copytree(ORCHESTRA, Path(folder, "orchestra")))
        async with holdfast.open(workspace) as here:
            wish = NewMessage(role=Role.USER, content="Plan a small concert.")
            new = NewRun(thread=NewThread(agent_type="conductor"), messages=[wish])
            run = (await here.runs.start(DEFAULT_SPACE, new)).run
            ended = await _accompany(here, run, answer)
            await _show(here, ended)
    return 0 if ended.status == "completed" else 1


async def _accompany(here: Holdfast, run: Run, answer: str | None) -> Run:
    """Answer what is asked, by the conductor or by whoever it waits for, until it has ended."""
    with here.watcher.watch(DEFAULT_SPACE, run.id) as watch:
        seq, head = 0, await watch.wait_past(0)
        while head is not None and not head.status.terminal:
            if head.status == "waiting":
                await _respond(here, run, answer)
            seq = head.last_event_seq
            head = await watch.wait_past(seq)
    return await here.store.runs.get(DEFAULT_SPACE, run.id)


async def _respond(here: Holdfast, run: Run, answer: str | None) -> None:
    """Ask the person at the terminal about each open question, until the answer fits."""
    for asked in await here.store.interrupts.open_for_run(DEFAULT_SPACE, run.id):
        print(f"?  {asked.message} {(asked.response_schema or {}).get('enum', '')}", flush=True)
        while not await _fits(here, run, asked, await _said() if answer is None else answer):
            if answer is not None:
                raise SystemExit("the answer does not fit")


async def _said() -> str:
    return await asyncio.to_thread(input, "   ")


async def _fits(here: Holdfast, run: Run, asked: Interrupt, said: str) -> bool:
    """Answer a question, and say whether it takes the answer."""
    try:
        await here.runs.respond(DEFAULT_SPACE, run.id, said.strip(), interrupt=asked.id, by="you")
    except Invalid as refusal:
        print(f"   {refusal.message}", flush=True)
        return False
    print(f"   {said.strip()}", flush=True)
    return True


async def _show(here: Holdfast, run: Run) -> None:
    """Print what was said and done by the conductor and by the sections, and what they made."""
    children = await here.store.runs.children(DEFAULT_SPACE, run.id)
    for each in (run, *children):
        print(f"\n{each.agent_type}: {each.input or 'Plan a small concert.'}")
        for message in await here.store.messages.of_run(DEFAULT_SPACE, each.id):
            for call in message.tool_calls:
                print(f"   →  {call.name} {call.arguments}")
            if message.role == Role.ASSISTANT and message.content:
                print(f"   {message.content}")
    for each in (run, *children):
        for made in (await here.store.artifacts.page(DEFAULT_SPACE, run=each.id)).items:
            artifact = await here.store.artifacts.get(DEFAULT_SPACE, made.id)
            print(f"\n# {artifact.title} (by {each.agent_type})\n\n{artifact.content}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--answer", help="what to say, where nobody is at the terminal")
    sys.exit(asyncio.run(main(parser.parse_args().answer)))
