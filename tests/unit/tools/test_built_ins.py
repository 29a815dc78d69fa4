from pathlib import Path

import msgspec

from holdfast.domain.agent import Agent
from holdfast.domain.commit import Lease
from holdfast.domain.tool import ToolClass, ToolSpec, check_spec
from holdfast.sandbox.files.folders import WorkspaceFolders
from holdfast.sandbox.none import Refusing
from holdfast.tools.built_ins import SPECS, built_ins, command_tools, file_tools
from holdfast.tools.commands.commands import Commands
from holdfast.tools.registry import Catalog
from holdfast.tools.spawning import LibrarySpawner
from holdfast.tools.tool import Resumable, Tool

WAITING = {"agent_spawn", "ask_user", "sleep", "task_respond"}
READING = {"glob", "grep", "list_dir", "read_file", "task_status", "todo_read", "tool_search"}
WRITING = {"edit_file", "write_file"}


async def nobody(lease: Lease) -> list[Agent]:
    return []


def in_a_worker() -> list[Tool]:
    folders = WorkspaceFolders(Path())
    commands = Commands(Refusing("not here"), folders, workspace=Path())
    return [*built_ins(LibrarySpawner(nobody)), *file_tools(folders), *command_tools(commands)]


def test_every_built_in_has_its_place() -> None:
    specs = {tool.spec.name: tool.spec for tool in in_a_worker()}
    elsewhere = {"task_status", "tool_activate", "tool_search"}
    assert specs.keys() | elsewhere == {spec.name for spec in SPECS}
    assert specs.keys().isdisjoint(elsewhere)


def test_built_ins_are_transactional_but_for_bash_and_those_that_only_read_or_write_files() -> None:
    assert {spec.name for spec in SPECS if spec.read_only} == READING
    assert [spec.name for spec in SPECS if check_spec(spec).kind is ToolClass.EFFECTFUL] == ["bash"]
    for spec in SPECS:
        if spec.name == "bash":
            continue
        idempotent = spec.read_only or spec.name in WRITING
        assert check_spec(spec).kind is (ToolClass.IDEMPOTENT if idempotent else ToolClass.TRANSACTIONAL)


def test_those_that_wait_can_be_resumed_and_no_others() -> None:
    assert {tool.spec.name for tool in in_a_worker() if isinstance(tool, Resumable)} == WAITING


def test_an_agent_can_have_them_all() -> None:
    box = Catalog(in_a_worker()).toolbox(["*", "tool_search", "tool_activate"])
    assert len(box.all()) == len(SPECS) - 1


def test_a_spec_can_be_sent_elsewhere_and_back() -> None:
    assert msgspec.json.decode(msgspec.json.encode(SPECS), type=tuple[ToolSpec, ...]) == SPECS
