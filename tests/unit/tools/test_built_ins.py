from pathlib import Path

import msgspec

from holdfast.domain.agent import Agent
from holdfast.domain.commit import Lease
from holdfast.domain.tool import ToolClass, ToolSpec, check_tool_spec, reaches_outside
from holdfast.ports.tools import SearchResult
from holdfast.sandbox.files.folders import WorkspaceFolders
from holdfast.sandbox.none import Refusing
from holdfast.sandbox.processes import SupervisedProcesses
from holdfast.tools.built_ins import SPECS, built_ins, command_tools, file_tools, web_tools
from holdfast.tools.commands.commands import Commands
from holdfast.tools.registry import Catalog
from holdfast.tools.spawning import LibrarySpawner
from holdfast.tools.tool import Resumable, Tool
from holdfast.tools.web.addresses import Addresses, SystemResolver
from holdfast.tools.web.http import Http
from holdfast.tools.web.pages import Pages
from tests.unit.tools.builtin.office import Office

WAITING = {"agent_message", "agent_spawn", "ask_user", "sleep", "task_respond", "task_subscribe"}
READING = {
    *("glob", "grep", "list_dir", "read_file", "task_status", "todo_read", "tool_search", "web_fetch", "web_search"),
}
WRITING = {"edit_file", "write_file"}

NEEDS = {
    "sleep": "seconds",
    "log_write": "message",
    "todo_read": "",
    "todo_write": "items",
    "ask_user": "question, options?",
    "task_respond": "message",
    "plan_create": "title, description?, priority?, plan?, position?, subtasks?",
    "plan_update": "task_id, title?, description?, priority?, plan?, position?, subtasks?",
    "plan_start": "task_id",
    "plan_check": "task_id, subtask",
    "plan_complete": "task_id, conclusion",
    "plan_block": "task_id, reason",
    "plan_cancel": "task_id, reason",
    "create_artifact": "type, title, content",
    "agent_spawn": "agent, input, wait?",
    "task_create": "agent, input, priority?",
    "task_status": "task_id",
    "tool_search": "query",
    "tool_activate": "name",
}
"""What those that need no sandbox are called with: scripts and conversations hold such calls."""


class Nothing:
    """`WebSearch` that finds nothing."""

    async def search(self, query: str, *, limit: int) -> list[SearchResult]:
        return []


async def nobody(lease: Lease) -> list[Agent]:
    return []


def in_a_worker() -> list[Tool]:
    folders = WorkspaceFolders(Path())
    commands = Commands(Refusing("not here"), folders, workspace=Path())
    return [
        *built_ins(LibrarySpawner(nobody), Office()),
        *file_tools(folders),
        *command_tools(commands),
        *web_tools(Http(Addresses(SystemResolver())), Pages(SupervisedProcesses()), Nothing()),
    ]


def arguments(spec: ToolSpec) -> str:
    needed, known = spec.parameters.get("required", ()), spec.parameters.get("properties", {})
    assert spec.parameters["additionalProperties"] is False
    return ", ".join(name if name in needed else f"{name}?" for name in known)


def test_every_built_in_has_its_place() -> None:
    specs = {tool.spec.name: tool.spec for tool in in_a_worker()}
    elsewhere = {"task_status", "tool_activate", "tool_search"}
    assert specs.keys() | elsewhere == {spec.name for spec in SPECS}
    assert specs.keys().isdisjoint(elsewhere)


def test_built_ins_are_transactional_but_for_bash_and_those_that_only_read_or_write_files() -> None:
    assert {spec.name for spec in SPECS if spec.read_only} == READING
    assert [spec.name for spec in SPECS if check_tool_spec(spec).kind is ToolClass.EFFECTFUL] == ["bash"]
    for spec in SPECS:
        if spec.name == "bash":
            continue
        idempotent = spec.read_only or spec.name in WRITING
        assert check_tool_spec(spec).kind is (ToolClass.IDEMPOTENT if idempotent else ToolClass.TRANSACTIONAL)


def test_what_they_are_called_with_stays_the_same() -> None:
    assert {spec.name: arguments(spec) for spec in SPECS if spec.name in NEEDS} == NEEDS


def test_what_others_wrote_comes_only_from_those_that_say_so() -> None:
    assert {spec.name for spec in SPECS if spec.untrusted} == {"web_fetch", "web_search"}
    assert {spec.name for spec in SPECS if reaches_outside(spec, network=True)} == {"bash"}
    assert not any(reaches_outside(spec, network=False) for spec in SPECS)


def test_an_agent_may_name_a_search_that_nobody_has_set_up() -> None:
    tools = [tool for tool in in_a_worker() if tool.spec.name != "web_search"]
    box = Catalog(tools).toolbox(["web_search", "log_write"])
    assert [tool.spec.name for tool in box.all()] == ["log_write"]


def test_those_that_wait_can_be_resumed_and_no_others() -> None:
    assert {tool.spec.name for tool in in_a_worker() if isinstance(tool, Resumable)} == WAITING


def test_an_agent_can_have_them_all() -> None:
    box = Catalog(in_a_worker()).toolbox(["*", "tool_search", "tool_activate"])
    assert len(box.all()) == len(SPECS) - 1


def test_a_spec_can_be_sent_elsewhere_and_back() -> None:
    assert msgspec.json.decode(msgspec.json.encode(SPECS), type=tuple[ToolSpec, ...]) == SPECS
