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
from holdfast import HoldfastApi, Invalid, Role, RunHandle

ORCHESTRA: Final = Path(__file__).parent / "orchestra"


async def main(answer: str | None) -> int:
    """Run the conductor; return the exit code."""
    with tempfile.TemporaryDirectory(prefix="orchestra-") as folder:
        workspace = Path(shutil.copytree(ORCHESTRA, Path(folder, "orchestra")))
        async with holdfast.open(workspace) as hf:
            run = await hf.start("conductor", "Plan a small concert.")
            while not (ended := await run.wait()).status.terminal:
                await _respond(run, answer)
            await _show(hf, run)
    return 0 if ended.status == "completed" else 1


async def _respond(run: RunHandle, answer: str | None) -> None:
    """Ask the person at the terminal about each open interrupt, until the response is valid."""
    for interrupt in await run.interrupts():
        print(f"?  {interrupt.message} {(interrupt.response_schema or {}).get('enum', '')}", flush=True)
        while True:
            response = (await asyncio.to_thread(input, "   ") if answer is None else answer).strip()
            try:
                await run.respond(response, interrupt_id=interrupt.id)
            except Invalid as error:
                print(f"   {error.message}", flush=True)
                if answer is not None:
                    raise SystemExit("the answer is not valid") from error
            else:
                print(f"   {response}", flush=True)
                break


async def _show(hf: HoldfastApi, run: RunHandle) -> None:
    """Print the messages, tool calls and artifacts of the conductor and its child agents."""
    runs = [await run.get(), *[child async for child in run.children()]]
    for each in runs:
        print(f"\n{each.agent_type}: {each.input}")
        for message in await hf.run(each.id).messages():
            for call in message.tool_calls:
                print(f"   →  {call.name} {call.arguments}")
            if message.role == Role.ASSISTANT and message.content:
                print(f"   {message.content}")
    for each in runs:
        async for listed in hf.run(each.id).artifacts():
            artifact = await hf.artifacts.get(listed.id)
            print(f"\n# {artifact.title} (by {each.agent_type})\n\n{artifact.content}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--answer", help="the answer, instead of asking at the terminal")
    sys.exit(asyncio.run(main(parser.parse_args().answer)))
