"""The limits and the example in the guide to files."""

import re
from typing import Final

import pytest

from holdfast.domain.working_path import MAX_PATH_BYTES, MAX_PATH_DEPTH
from holdfast.tools.builtin.catalog import BUILTIN_SPECS
from holdfast.tools.builtin.files import MAX_PASSAGE_CHARS, MAX_WRITE_CHARS
from holdfast.tools.builtin.search import DEFAULT_MATCHES, MAX_GLOB_FILES, MAX_LISTED_ENTRIES, MAX_MATCHES
from holdfast.tools.files.diff import MAX_DIFF_CHARS
from holdfast.tools.files.patterns import MAX_MATCH_CHARS, MAX_PATTERN_CHARS
from holdfast.tools.files.text import MAX_FILE_BYTES, MAX_LINE_CHARS, MAX_LINES, MAX_SHOWN_CHARS
from holdfast.tools.files.walk import MAX_SEARCH_BYTES, MAX_SEARCH_ENTRIES, MAX_SEARCH_SECONDS
from holdfast.tools.files.write import MAX_KNOWN_FILES
from holdfast.workspace.agent_file import AgentFile
from holdfast.workspace.json_files import decode_json
from tests.architecture.project import ROOT

GUIDE: Final = ROOT / "docs" / "guides" / "files.md"


@pytest.mark.parametrize(
    "row",
    [
        f"| a file that is read, edited or replaced | {MAX_FILE_BYTES:,} bytes |",
        f"| a text that is written | {MAX_WRITE_CHARS:,} characters |",
        f"| lines that are read at once | {MAX_LINES:,}, and at most {MAX_SHOWN_CHARS:,} characters |",
        f"| a line that is read | {MAX_LINE_CHARS:,} characters; the rest is cut |",
        f"| a line that `grep` shows | {MAX_MATCH_CHARS} characters; the rest is cut |",
        f"| entries that `list_dir` lists, and files that `glob` finds | {MAX_LISTED_ENTRIES:,} |",
        f"| lines that `grep` finds | {DEFAULT_MATCHES}, or up to {MAX_MATCHES:,} with `limit` |",
        f"| a search | {MAX_SEARCH_SECONDS:g} seconds, {MAX_SEARCH_ENTRIES:,} files and folders, "
        f"{MAX_SEARCH_BYTES:,} bytes |",
        f"| a pattern | {MAX_PATTERN_CHARS:,} characters |",
        f"| a path | {MAX_PATH_BYTES:,} bytes, {MAX_PATH_DEPTH} folders deep |",
        f"| a diff | {MAX_DIFF_CHARS:,} characters |",
        f"| files that a run knows | {MAX_KNOWN_FILES} |",
    ],
)
def test_the_limits_in_the_guide_are_those_of_the_code(row: str) -> None:
    assert row in GUIDE.read_text().splitlines()


def test_the_agent_in_the_guide_can_be_read() -> None:
    (example,) = re.findall(r"^```json agent.json\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    agent = decode_json(example, AgentFile, file="agent.json")
    assert agent.working_folder == "projects/site"
    assert set(agent.tools) <= {spec.name for spec in BUILTIN_SPECS}


def test_limits_on_one_row_of_the_guide_are_equal() -> None:
    assert MAX_LISTED_ENTRIES == MAX_GLOB_FILES
    assert MAX_WRITE_CHARS == MAX_PASSAGE_CHARS
