"""A reminder survives a restart and reaches the next turn.

    python examples/habits/reminder.py

An agent sets a reminder for two seconds from now, and the workspace is closed before it is due. After that time it is
opened again: the reminder is triggered late instead of never, and the next turn of the thread gets it. The model is a
script: no key is needed, and nothing leaves the machine.
"""

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Final

import holdfast

AGENTS: Final = Path(__file__).parent / "agents"
REMINDER: Final = "take the bread out of the oven"


async def main() -> int:
    """Set a reminder, restart, and show what the next turn gets; return the exit code."""
    with tempfile.TemporaryDirectory(prefix="habits-") as folder:
        workspace = Path(folder)
        shutil.copytree(AGENTS, workspace / "agents")
        async with holdfast.open(workspace) as hf:
            first = await (await hf.start("assistant", f"Remind me to {REMINDER}.")).wait()
            print(f"agent: {first.output}", flush=True)
        print("closed: nothing runs when it is due", flush=True)
        await asyncio.sleep(3)
        async with holdfast.open(workspace) as hf:
            async for notification in hf.notifications.follow(after=0):
                if notification.kind == "reminder.triggered":
                    print(f"opened again: triggered at {notification.created_at}", flush=True)
                    break
            run = await hf.start(None, "I am back.", thread=first.thread_id, model="scripted:back.json")
            second = await run.wait()
            context = (await run.context()).context
            assert context is not None
            note = str(context.messages[-1].content)
            print(f"sent to the model with the next turn:\n{note}\nagent: {second.output}", flush=True)
            return 0 if REMINDER in note else 1


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
