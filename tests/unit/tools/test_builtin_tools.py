from pathlib import Path
from typing import cast

import msgspec

from holdfast.agent.context.tokens import EstimatedTokens
from holdfast.domain.agent import Agent
from holdfast.domain.commit import Lease
from holdfast.domain.tool import ToolClass, ToolSpec, check_tool_spec, reaches_outside
from holdfast.ports.runtime import MemoryLibrary
from holdfast.ports.tools import SearchResult
from holdfast.sandbox.detection import RefusingSandbox
from holdfast.sandbox.processes import SupervisedProcesses
from holdfast.sandbox.working_folders import WorkspaceFolders
from holdfast.skills.prompt import SkillRenderer
from holdfast.tools.builtin.catalog import BUILTIN_SPECS, builtin_tools, command_tools, file_tools, web_tools
from holdfast.tools.child_runs import WorkspaceSpawner
from holdfast.tools.commands.command_runner import CommandRunner
from holdfast.tools.registry import ToolCatalog
from holdfast.tools.run_catalogs import RunCatalogs
from holdfast.tools.tool import ResumableTool, Tool
from holdfast.tools.web.client import GuardedResolver, SystemResolver, WebClient
from holdfast.tools.web.fetch import MarkdownConverter
from tests.unit.tools.builtin.fake_library import FakeLibrary
from tests.unit.tools.builtin.fake_subagents import FakeSubagents

WAITING = {"agent_message", "agent_spawn", "ask_user", "sleep", "task_respond", "task_subscribe"}
READING = {
    "list_reminders",
    *("glob", "grep", "list_dir", "read_file", "task_status", "todo_read", "tool_search", "web_fetch", "web_search"),
    *("graph_search_memory", "memory_read", "memory_search", "provenance_lookup", "recall", "semantic_search_memory"),
    "timeline_search",
    *("skill_catalog", "skill_context", "skill_describe", "skill_get", "skill_list"),
}
SETTING = {"complete_reminder", "dismiss_reminder", "set_reminder"}
"""Tools of the control plane that change reminders."""
WRITING = {"edit_file", "memory_write", "write_file"}

NEEDS = {
    "remember": "text, type, importance?, tags?, occurred_at?, supersedes?, standing?",
    "recall": "query, type?, limit?",
    "semantic_search_memory": (
        "query, target?, top_k?, threshold?, type?, thread_id?, since?, until?, include_superseded?"
    ),
    "graph_search_memory": "start_node_id, max_depth?, relation_types?, limit?",
    "provenance_lookup": "abstract_node_id",
    "timeline_search": "from?, to?, session_id?, entity?, limit?, order?",
    "memory_read": "path?, scope?, from_line?, lines?",
    "memory_write": "text, path?, scope?, mode?, old?, etag?",
    "memory_search": "query, scope?, limit?",
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
    "create_artifact": "type?, title?, content?, path?, file_id?, metadata?, artifact_id?",
    "agent_spawn": "agent, input, wait?",
    "task_create": "agent, input, priority?",
    "task_status": "task_id",
    "tool_search": "query",
    "tool_activate": "name",
}
"""The parameters of tools without a sandbox: stored scripts and conversations have such calls."""


class Nothing:
    """`WebSearch` that finds nothing."""

    async def search(self, query: str, *, limit: int) -> list[SearchResult]:
        return []


async def nobody(lease: Lease) -> list[Agent]:
    return []


def in_a_worker() -> list[Tool]:
    folders = WorkspaceFolders(Path())
    commands = CommandRunner(RefusingSandbox("not here"), folders, workspace=Path())
    return [
        *builtin_tools(
            WorkspaceSpawner(nobody),
            FakeSubagents(),
            FakeLibrary(),
            cast(MemoryLibrary, None),
            skills=RunCatalogs(FakeLibrary()),
            skill_renderer=SkillRenderer(EstimatedTokens()),
        ),
        *file_tools(folders),
        *command_tools(commands),
        *web_tools(WebClient(GuardedResolver(SystemResolver())), MarkdownConverter(SupervisedProcesses()), Nothing()),
    ]


def arguments(spec: ToolSpec) -> str:
    needed, known = spec.parameters.get("required", ()), spec.parameters.get("properties", {})
    assert spec.parameters["additionalProperties"] is False
    return ", ".join(name if name in needed else f"{name}?" for name in known)


def test_every_built_in_has_a_spec() -> None:
    specs = {tool.spec.name: tool.spec for tool in in_a_worker()}
    elsewhere = {"task_status", "tool_activate", "tool_search", "list_reminders", *SETTING}
    assert specs.keys() | elsewhere == {spec.name for spec in BUILTIN_SPECS}
    assert specs.keys().isdisjoint(elsewhere)


def test_built_ins_are_transactional_but_for_bash_and_those_that_only_read_or_write_files() -> None:
    assert {spec.name for spec in BUILTIN_SPECS if spec.read_only} == READING
    assert [spec.name for spec in BUILTIN_SPECS if check_tool_spec(spec).kind is ToolClass.EFFECTFUL] == ["bash"]
    for spec in BUILTIN_SPECS:
        if spec.name == "bash":
            continue
        idempotent = spec.read_only or spec.name in WRITING | SETTING
        assert check_tool_spec(spec).kind is (ToolClass.IDEMPOTENT if idempotent else ToolClass.TRANSACTIONAL)


def test_the_parameters_of_built_ins_are_stable() -> None:
    assert {spec.name: arguments(spec) for spec in BUILTIN_SPECS if spec.name in NEEDS} == NEEDS


def test_only_the_web_tools_are_untrusted() -> None:
    assert {spec.name for spec in BUILTIN_SPECS if spec.untrusted} == {"web_fetch", "web_search"}
    assert {spec.name for spec in BUILTIN_SPECS if reaches_outside(spec, network=True)} == {"bash", *SETTING}
    assert {spec.name for spec in BUILTIN_SPECS if reaches_outside(spec, network=False)} == SETTING


def test_an_agent_may_name_web_search_without_an_engine() -> None:
    tools = [tool for tool in in_a_worker() if tool.spec.name != "web_search"]
    box = ToolCatalog(tools).toolset(["web_search", "log_write"])
    assert [tool.spec.name for tool in box.all()] == ["log_write"]


def test_only_waiting_tools_are_resumable() -> None:
    assert {tool.spec.name for tool in in_a_worker() if isinstance(tool, ResumableTool)} == WAITING


def test_an_agent_can_have_all_built_ins() -> None:
    box = ToolCatalog(in_a_worker()).toolset(["*", "tool_search", "tool_activate"])
    assert len(box.all()) == len(BUILTIN_SPECS) - 1 - len(SETTING | {"list_reminders"})


def test_a_spec_survives_encoding() -> None:
    assert msgspec.json.decode(msgspec.json.encode(BUILTIN_SPECS), type=tuple[ToolSpec, ...]) == BUILTIN_SPECS
