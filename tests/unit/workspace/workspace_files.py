"""Helpers of workspace tests: writing files, and a fake monotonic clock."""

import json
from pathlib import Path
from typing import Any

from holdfast.workspace.folder import Workspace
from holdfast.workspace.reload import POLL_INTERVAL_SECONDS, SETTLE_SECONDS


class FakeClock:
    """A monotonic clock that tests advance."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def next_poll(self) -> None:
        """Advance to the next poll."""
        self.now += POLL_INTERVAL_SECONDS

    def settle(self) -> None:
        """Advance until unchanged files count as settled."""
        self.now += SETTLE_SECONDS


def write_agent(workspace: Workspace, name: str = "bot", *, says: str = "Help people.", **settings: Any) -> Path:
    """Write the files of an agent and return its folder."""
    folder = workspace.agents / name
    folder.mkdir(exist_ok=True)
    write_json(folder / "agent.json", {"model": "scripted:script.json", **settings})
    (folder / "AGENT.md").write_text(says, encoding="utf-8")
    return folder


def write_json(file: Path, value: Any) -> None:
    """Write a value as JSON."""
    file.write_text(json.dumps(value), encoding="utf-8")


def replace(file: Path, text: str) -> None:
    """Replace a file atomically, as careful editors do."""
    temporary = file.with_name(f".{file.name}.swp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(file)
