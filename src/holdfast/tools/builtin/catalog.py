"""The catalog of built-in tools: their specs by name, and how each group is created."""

from typing import Final

from holdfast.domain.tool import ToolSpec
from holdfast.ports.runtime import SubagentRuns
from holdfast.ports.tools import WebSearch, WorkingFolders
from holdfast.tools.builtin.agents import (
    AGENT_MESSAGE_SPEC,
    AGENT_SEND_SPEC,
    AGENT_SPAWN_SPEC,
    AgentMessenger,
    agent_message,
    agent_send,
    agent_spawn,
)
from holdfast.tools.builtin.files import (
    EDIT_FILE_SPEC,
    READ_FILE_SPEC,
    WRITE_FILE_SPEC,
    edit_file,
    read_file,
    write_file,
)
from holdfast.tools.builtin.notes import CREATE_ARTIFACT, LOG_WRITE, TODO_READ, TODO_WRITE
from holdfast.tools.builtin.people import ASK_USER, TASK_RESPOND
from holdfast.tools.builtin.plan import (
    PLAN_BLOCK,
    PLAN_CANCEL,
    PLAN_CHECK,
    PLAN_COMPLETE,
    PLAN_CREATE,
    PLAN_START,
    PLAN_UPDATE,
)
from holdfast.tools.builtin.search import GLOB_SPEC, GREP_SPEC, LIST_DIR_SPEC, glob, grep, list_dir
from holdfast.tools.builtin.shell import BASH_SPEC, bash
from holdfast.tools.builtin.sleep import SLEEP
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
from holdfast.tools.builtin.web import WEB_FETCH_SPEC, WEB_SEARCH_SPEC, web_fetch, web_search
from holdfast.tools.child_runs import Spawner
from holdfast.tools.commands.command_runner import CommandRunner
from holdfast.tools.middleware import with_standard_middleware
from holdfast.tools.tool import Tool
from holdfast.tools.web.client import WebClient
from holdfast.tools.web.fetch import MarkdownConverter

_STATELESS_TOOLS: Final[tuple[Tool, ...]] = (
    ASK_USER,
    CREATE_ARTIFACT,
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
            AGENT_MESSAGE_SPEC,
            AGENT_SEND_SPEC,
            AGENT_SPAWN_SPEC,
            BASH_SPEC,
            EDIT_FILE_SPEC,
            GLOB_SPEC,
            GREP_SPEC,
            LIST_DIR_SPEC,
            READ_FILE_SPEC,
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
"""What every built-in promises, by name, wherever it runs."""
BUILTIN_NAMES: Final = frozenset(spec.name for spec in BUILTIN_SPECS)
OPTIONAL_BUILTINS: Final = frozenset({WEB_SEARCH_SPEC.name})
"""Built-ins that are there only where the operator has set them up. An agent that names one is not wrong elsewhere."""


def builtin_tools(spawner: Spawner, peers: SubagentRuns) -> list[Tool]:
    """Return the built-ins that run in a worker, for a run whose children `spawner` makes and `peers` work beside.

    `tool_search` and `tool_activate` come with a `Toolbox`, `task_status` is a remote tool, and those that work on
    files or run commands are `file_tools` and `command_tools`, since not every worker has the folders.
    """
    messages = AgentMessenger(spawner, peers)
    together: list[Tool] = [
        agent_message(messages),
        agent_send(messages),
        agent_spawn(spawner, peers),
        task_create(spawner, peers),
        task_spawn(spawner, peers),
        task_subscribe(peers),
    ]
    return [*_WRAPPED_STATELESS_TOOLS, *map(with_standard_middleware, together)]


def web_tools(http: WebClient, pages: MarkdownConverter, engine: WebSearch | None) -> list[Tool]:
    """Return the built-ins that reach the web; without an engine there is nothing to search with."""
    return [web_fetch(http, pages), *([] if engine is None else [web_search(engine)])]


def command_tools(commands: CommandRunner) -> list[Tool]:
    """Return the built-ins that run commands."""
    return [bash(commands)]


def file_tools(folders: WorkingFolders) -> list[Tool]:
    """Return the built-ins that work on files, each in the working folder of the agent that calls it."""
    return [
        edit_file(folders),
        glob(folders),
        grep(folders),
        list_dir(folders),
        read_file(folders),
        write_file(folders),
    ]
