"""What tests of a workspace need: somebody who edits its files, and seconds that pass when they say so."""

import json
from pathlib import Path
from typing import Any

from holdfast.workspace.folder import Workspace
from holdfast.workspace.reload import POLL_INTERVAL_SECONDS, SETTLE_SECONDS


class Seconds:
    """A monotonic clock in the hands of a test."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def pass_a_look(self) -> None:
        """Go on until files are looked at again."""
        self.now += POLL_INTERVAL_SECONDS

    def settle(self) -> None:
        """Go on until what has not changed is taken for settled."""
        self.now += SETTLE_SECONDS


def write_agent(workspace: Workspace, name: str = "bot", *, says: str = "Help people.", **settings: Any) -> Path:
    """Write the files of an agent and return its folder."""
    folder = workspace.agents / name
    folder.mkdir(exist_ok=True)
    write_json(folder / "agent.json", {"model": "scripted:script.json", **settings})
    (folder / "AGENT.md").write_text(says, encoding="utf-8")
    return folder


def write_json(file: Path, value: Any) -> None:
    """Write a file as a program does."""
    file.write_text(json.dumps(value), encoding="utf-8")


def replace(file: Path, text: str) -> None:
    """Write a file as a careful editor does: beside the old one, then in its place."""
    beside = file.with_name(f".{file.name}.swp")
    beside.write_text(text, encoding="utf-8")
    beside.replace(file)
