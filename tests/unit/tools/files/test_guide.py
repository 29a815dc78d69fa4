"""What the guide to files says is true."""

import re
from typing import Final

import pytest

from holdfast.domain.working_path import MAX_PATH_BYTES, MAX_PATH_DEPTH
from holdfast.tools.built_ins import SPECS
from holdfast.tools.builtin.edit_file import MAX_PASSAGE
from holdfast.tools.builtin.glob import MAX_FOUND
from holdfast.tools.builtin.grep import DEFAULT_MATCHES, MAX_MATCHES
from holdfast.tools.builtin.list_dir import MAX_LISTED
from holdfast.tools.builtin.write_file import MAX_WRITTEN
from holdfast.tools.files.budget import MAX_BYTES, MAX_ENTRIES, SECONDS
from holdfast.tools.files.diffs import MAX_DIFF
from holdfast.tools.files.known import MAX_KNOWN
from holdfast.tools.files.lines import MAX_LINE, MAX_LINES, MAX_SHOWN
from holdfast.tools.files.patterns import MAX_PATTERN
from holdfast.tools.files.searching import MAX_ROW
from holdfast.tools.files.text import MAX_FILE
from holdfast.workspace.agent_files import AgentFile
from holdfast.workspace.typed_json import decode
from tests.architecture.project import ROOT

GUIDE: Final = ROOT / "docs" / "guides" / "files.md"


@pytest.mark.parametrize(
    "row",
    [
        f"| a file that is read, edited or replaced | {MAX_FILE:,} bytes |",
        f"| a text that is written | {MAX_WRITTEN:,} characters |",
        f"| lines that are read at once | {MAX_LINES:,}, and at most {MAX_SHOWN:,} characters |",
        f"| a line that is read | {MAX_LINE:,} characters; the rest is cut |",
        f"| a line that `grep` shows | {MAX_ROW} characters; the rest is cut |",
        f"| entries that `list_dir` lists, and files that `glob` finds | {MAX_LISTED:,} |",
        f"| lines that `grep` finds | {DEFAULT_MATCHES}, or up to {MAX_MATCHES:,} with `limit` |",
        f"| a search | {SECONDS:g} seconds, {MAX_ENTRIES:,} files and folders, {MAX_BYTES:,} bytes |",
        f"| a pattern | {MAX_PATTERN:,} characters |",
        f"| a path | {MAX_PATH_BYTES:,} bytes, {MAX_PATH_DEPTH} folders deep |",
        f"| a diff | {MAX_DIFF:,} characters |",
        f"| files that a run knows | {MAX_KNOWN} |",
    ],
)
def test_the_limits_in_the_guide_are_those_of_the_code(row: str) -> None:
    assert row in GUIDE.read_text().splitlines()


def test_the_agent_in_the_guide_can_be_read() -> None:
    (example,) = re.findall(r"^```json agent.json\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    agent = decode(example, AgentFile, file="agent.json")
    assert agent.working_folder == "projects/site"
    assert set(agent.tools) <= {spec.name for spec in SPECS}


def test_limits_that_are_told_together_are_the_same() -> None:
    assert MAX_LISTED == MAX_FOUND
    assert MAX_WRITTEN == MAX_PASSAGE
