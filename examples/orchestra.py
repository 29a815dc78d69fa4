"""A conductor agent plans a concert with two child agents in parallel, asks you one question, and writes artifacts.

    python examples/orchestra.py [--answer "the garden"]

It works on a copy, so it can be repeated. The models are scripts: no key is needed, and nothing leaves the machine.
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
from holdfast.domain.errors import Invalid
from holdfast.domain.space import DEFAULT_SPACE

ORCHESTRA: Final = Path(__file__).parent / "orchestra"


async def main(answer: str | None) -> int:
    """Run the conductor; return the exit code."""
    with tempfile.TemporaryDirectory(prefix="orchestra-") as folder:
        workspace = Path(shutil.copytree(ORCHESTRA, Path(folder, "orchestra")))
        async with holdfast.open(workspace) as here:
            message = NewMessage(role=Role.USER, content="Plan a small concert.")
            new = NewRun(thread=NewThread(agent_type="conductor"), messages=[message])
            run = (await here.runs.start(DEFAULT_SPACE, new)).run
            ended = await _answer_until_ended(here, run, answer)
            await _show(here, ended)
    return 0 if ended.status == "completed" else 1


async def _answer_until_ended(here: Holdfast, run: Run, answer: str | None) -> Run:
    """Answer the questions of the conductor and its child agents until the run has ended."""
    with here.watcher.watch(DEFAULT_SPACE, run.id) as watch:
        seq, head = 0, await watch.wait_past(0)
        while head is not None and not head.status.terminal:
            if head.status == "waiting":
                await _respond(here, run, answer)
            seq = head.last_event_seq
            head = await watch.wait_past(seq)
    return await here.store.runs.get(DEFAULT_SPACE, run.id)


async def _respond(here: Holdfast, run: Run, answer: str | None) -> None:
    """Ask the person at the terminal about each open interrupt, until the response is valid."""
    for interrupt in await here.store.interrupts.open_for_run(DEFAULT_SPACE, run.id):
        print(f"?  {interrupt.message} {(interrupt.response_schema or {}).get('enum', '')}", flush=True)
        while True:
            response = (await asyncio.to_thread(input, "   ") if answer is None else answer).strip()
            try:
                await here.runs.respond(DEFAULT_SPACE, run.id, response, interrupt=interrupt.id, by="you")
            except Invalid as error:
                print(f"   {error.message}", flush=True)
                if answer is not None:
                    raise SystemExit("the answer is not valid") from error
            else:
                print(f"   {response}", flush=True)
                break


async def _show(here: Holdfast, run: Run) -> None:
    """Print the messages, tool calls and artifacts of the conductor and its child agents."""
    children = await here.store.runs.children(DEFAULT_SPACE, run.id)
    for each in (run, *children):
        print(f"\n{each.agent_type}: {each.input or 'Plan a small concert.'}")
        for message in await here.store.messages.of_run(DEFAULT_SPACE, each.id):
            for call in message.tool_calls:
                print(f"   →  {call.name} {call.arguments}")
            if message.role == Role.ASSISTANT and message.content:
                print(f"   {message.content}")
    for each in (run, *children):
        for listed in (await here.store.artifacts.page(DEFAULT_SPACE, run=each.id)).items:
            artifact = await here.store.artifacts.get(DEFAULT_SPACE, listed.id)
            print(f"\n# {artifact.title} (by {each.agent_type})\n\n{artifact.content}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--answer", help="the answer, instead of asking at the terminal")
    sys.exit(asyncio.run(main(parser.parse_args().answer)))
