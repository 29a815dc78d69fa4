"""The catalog of built-in tools: their specs by name, and how each group is created."""

from typing import Final

from holdfast.domain.tool import ToolSpec
from holdfast.ports.runtime import Library, MemoryLibrary, SubagentRuns
from holdfast.ports.tools import WebSearch, WorkingFolders
from holdfast.skills.prompt import SkillRenderer
from holdfast.tools.builtin.agents import (
    AGENT_MESSAGE_SPEC,
    AGENT_SEND_SPEC,
    AGENT_SPAWN_SPEC,
    agent_message,
    agent_send,
    agent_spawn,
)
from holdfast.tools.builtin.files import EDIT_FILE_SPEC, READ_FILE_SPEC, WRITE_FILE_SPEC, read_and_write_tools
from holdfast.tools.builtin.memory import MEMORY_SPECS, memory_tools
from holdfast.tools.builtin.memory_files import MEMORY_FILE_SPECS, memory_file_tools
from holdfast.tools.builtin.notes import CREATE_ARTIFACT_SPEC, LOG_WRITE, TODO_READ, TODO_WRITE, create_artifact
from holdfast.tools.builtin.plan import (
    PLAN_BLOCK,
    PLAN_CANCEL,
    PLAN_CHECK,
    PLAN_COMPLETE,
    PLAN_CREATE,
    PLAN_START,
    PLAN_UPDATE,
)
from holdfast.tools.builtin.reminders import (
    COMPLETE_REMINDER_SPEC,
    DISMISS_REMINDER_SPEC,
    LIST_REMINDERS_SPEC,
    SET_REMINDER_SPEC,
)
from holdfast.tools.builtin.search import GLOB_SPEC, GREP_SPEC, LIST_DIR_SPEC, search_tools
from holdfast.tools.builtin.shell import BASH_SPEC, bash
from holdfast.tools.builtin.skills import SKILL_SPECS, skill_tools
from holdfast.tools.builtin.tasks import (
    TASK_CREATE_SPEC,
    TASK_SPAWN_SPEC,
    TASK_STATUS_SPEC,
    TASK_SUBSCRIBE_SPEC,
    task_create,
    task_spawn,
    task_subscribe,
)
from holdfast.tools.builtin.tool_search import TOOL_ACTIVATE_SPEC, TOOL_SEARCH_SPEC
from holdfast.tools.builtin.waiting import ASK_USER, SLEEP, TASK_RESPOND
from holdfast.tools.builtin.web import WEB_FETCH_SPEC, WEB_SEARCH_SPEC, web_fetch, web_search
from holdfast.tools.child_runs import WorkspaceSpawner
from holdfast.tools.commands.command_runner import CommandRunner
from holdfast.tools.middleware import with_standard_middleware
from holdfast.tools.run_catalogs import RunCatalogs
from holdfast.tools.tool import Tool
from holdfast.tools.web.client import WebClient
from holdfast.tools.web.fetch import MarkdownConverter

_STATELESS_TOOLS: Final[tuple[Tool, ...]] = (
    ASK_USER,
    LOG_WRITE,
    PLAN_BLOCK,
    PLAN_CANCEL,
    PLAN_CHECK,
    PLAN_COMPLETE,
    PLAN_CREATE,
    PLAN_START,
    PLAN_UPDATE,
    SLEEP,
    TASK_RESPOND,
    TODO_READ,
    TODO_WRITE,
)
_WRAPPED_STATELESS_TOOLS: Final = tuple(with_standard_middleware(tool) for tool in _STATELESS_TOOLS)

BUILTIN_SPECS: Final[tuple[ToolSpec, ...]] = tuple(
    sorted(
        (
            *(tool.spec for tool in _STATELESS_TOOLS),
            *MEMORY_SPECS,
            *MEMORY_FILE_SPECS,
            AGENT_MESSAGE_SPEC,
            AGENT_SEND_SPEC,
            AGENT_SPAWN_SPEC,
            BASH_SPEC,
            COMPLETE_REMINDER_SPEC,
            CREATE_ARTIFACT_SPEC,
            DISMISS_REMINDER_SPEC,
            EDIT_FILE_SPEC,
            GLOB_SPEC,
            GREP_SPEC,
            LIST_DIR_SPEC,
            LIST_REMINDERS_SPEC,
            READ_FILE_SPEC,
            SET_REMINDER_SPEC,
            *SKILL_SPECS,
            TASK_CREATE_SPEC,
            TASK_SPAWN_SPEC,
            TASK_STATUS_SPEC,
            TASK_SUBSCRIBE_SPEC,
            TOOL_ACTIVATE_SPEC,
            TOOL_SEARCH_SPEC,
            WEB_FETCH_SPEC,
            WEB_SEARCH_SPEC,
            WRITE_FILE_SPEC,
        ),
        key=lambda spec: spec.name,
    )
)
"""The specs of all built-in tools, by name."""
BUILTIN_NAMES: Final = frozenset(spec.name for spec in BUILTIN_SPECS)
OPTIONAL_BUILTINS: Final = frozenset({WEB_SEARCH_SPEC.name})
"""Built-ins that the operator must set up; an agent may name one that is not available."""


def builtin_tools(
    spawner: WorkspaceSpawner,
    subagents: SubagentRuns,
    library: Library,
    memory: MemoryLibrary,
    folders: WorkingFolders | None = None,
    *,
    skills: RunCatalogs,
    skill_renderer: SkillRenderer,
) -> list[Tool]:
    """Return the built-ins that run in every worker.

    `tool_search` and `tool_activate` belong to a `Toolset`; `task_status` and the reminder tools are remote. The tools
    that need files or commands are in `file_tools` and `command_tools`, since not every worker has the folders.
    """
    tools: list[Tool] = [
        agent_message(spawner, subagents),
        agent_send(spawner, subagents),
        agent_spawn(spawner, subagents),
        create_artifact(library, folders),
        *memory_tools(memory),
        *memory_file_tools(memory),
        task_create(spawner, subagents),
        task_spawn(spawner, subagents),
        task_subscribe(subagents),
        *skill_tools(skills, skill_renderer),
    ]
    return [*_WRAPPED_STATELESS_TOOLS, *map(with_standard_middleware, tools)]


def web_tools(http: WebClient, converter: MarkdownConverter, engine: WebSearch | None) -> list[Tool]:
    """Return the built-ins that use the web; `web_search` only with a search engine."""
    return [web_fetch(http, converter), *([] if engine is None else [web_search(engine)])]


def command_tools(commands: CommandRunner) -> list[Tool]:
    """Return the built-ins that run commands."""
    return [bash(commands)]


def file_tools(folders: WorkingFolders) -> list[Tool]:
    """Return the built-ins that use files, in order of name."""
    return sorted([*read_and_write_tools(folders), *search_tools(folders)], key=lambda tool: tool.spec.name)
