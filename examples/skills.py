"""An agent uses the official skill `research-brief`, breaks its contract first, is told so, and then keeps it.

    python examples/skills.py

It works on a copy, so it can be repeated. The model is a script: no key is needed, and nothing leaves the machine.
"""

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

import holdfast
from holdfast import Role

SKILLS: Final = Path(__file__).parent / "skills"
REQUEST: Final = "Do some research on which sourdough starter keeps longest, and write a research brief with sources."


async def main() -> int:
    """Run the agent, and print what was chosen and what became of the contract; return the exit code."""
    with tempfile.TemporaryDirectory(prefix="skills-") as folder:
        workspace = Path(shutil.copytree(SKILLS, Path(folder, "skills")))
        async with holdfast.open(workspace) as hf:
            run = await hf.start("analyst", REQUEST)
            ended = await run.wait()
            kept = False
            for message in await run.messages():
                if message.role == Role.ASSISTANT and message.content:
                    print(f"   {message.content}")
            async for event in run.events():
                match event.data:
                    case {"name": "holdfast.skills", "value": {"active": active}}:
                        for skill in active:
                            print(f"chosen: {skill['name']} ({', '.join(skill['reasons'])})")
                    case {"name": "holdfast.skill_contract", "value": outcome}:
                        kept = outcome["kept"]
                        print(f"contract of {outcome['skill']}: {'kept' if kept else 'broken'}, {outcome['evidence']}")
                    case _:
                        pass
    return 0 if ended.status == "completed" and kept else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
