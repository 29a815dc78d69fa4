"""The agents of the tests and the pictures: those of `showcase`, and a few that a test needs."""

import json
import shutil
from pathlib import Path
from typing import Final

from holdfast.domain.content import Json

SHOWCASE: Final = Path(__file__).parent / "showcase"
LONG_ANSWER: Final = " ".join(f"word{number}" for number in range(700))
"""Plain words, so that the text of the page is the text of the log."""
_PUSH: Final[Json] = {"name": "bash", "arguments": {"command": "git push origin v1"}}
_LIST: Final[Json] = {"name": "list_dir", "arguments": {"path": "."}}
_AGENTS: Final[dict[str, Json]] = {
    "echo": {"turns": [{"say": "{$last_user}"}], "after_last": "repeat"},
    "writer": {"turns": [{"say": LONG_ANSWER, "chunks": 350, "delay_ms": 12}], "after_last": "repeat"},
    "asker": {"turns": [{"call": [_PUSH]}, {"say": "Result: {$last_tool}"}]},
    "chooser": {
        "turns": [
            {"call": [{"name": "ask_user", "arguments": {"question": "Which colour?", "options": ["red", "green"]}}]},
            {"say": "It will be {$last_tool}."},
        ]
    },
    "failing": {"turns": [{"error": {"code": "MODEL_REFUSED", "message": "the model says no"}}]},
    "busy": {"turns": [*[{"call": [_LIST] * 60}] * 167, {"say": "done"}]},
    # A tool, an argument and a file name that would run if they were more than text.
    "mimic": {
        "turns": [
            {"call": [{"name": "<img src=x onerror=window.pwned=1>", "arguments": {"path": "<svg onload=pwned=1>"}}]},
            {"call": [{"name": "list_dir", "arguments": {"path": "<script>window.pwned=1</script>"}}]},
            {"say": "{$last_tool} <img src=x onerror=window.pwned=1>"},
        ]
    },
    "halting": {"turns": [{"say": LONG_ANSWER[: len(LONG_ANSWER) // 2], "chunks": 100, "delay_ms": 20, "stall": True}]},
    "staller": {"turns": [{"say": "one moment", "stall": True}]},
}


def write_script(folder: Path, agent: str, script: Json) -> None:
    """Write what the model of an agent answers."""
    (folder / "agents" / agent / "script.json").write_text(json.dumps(script))


def write_workspace(folder: Path) -> None:
    """Write the workspace that the tests serve."""
    shutil.copytree(SHOWCASE, folder)
    for name, script in _AGENTS.items():
        agent = folder / "agents" / name
        agent.mkdir()
        settings: Json = {
            "model": "scripted:script.json",
            "tools": ["ask_user", "bash", "list_dir"],
            "limits": {"max_iterations": 200},
            "permissions": {"ask": ["bash(git push *)"]},
        }
        (agent / "AGENT.md").write_text("Do as you are told.")
        (agent / "agent.json").write_text(json.dumps(settings))
        write_script(folder, name, script)
    broken = folder / "agents" / "oven"
    broken.mkdir()
    (broken / "AGENT.md").write_text("Watch the oven.")
    (broken / "agent.json").write_text('{"model": "openai:gpt-5", "tols": ["bash"]}')
