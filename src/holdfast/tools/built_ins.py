"""The built-in tools, all of them."""

from typing import Final

from holdfast.domain.tool import ToolSpec
from holdfast.ports.runtime import SubagentRuns
from holdfast.ports.tools import WebSearch, WorkingFolders
from holdfast.tools.builtin import (
    agent_message,
    agent_send,
    agent_spawn,
    bash,
    edit_file,
    glob,
    grep,
    list_dir,
    read_file,
    task_create,
    task_spawn,
    task_status,
    task_subscribe,
    tool_activate,
    tool_search,
    web_fetch,
    web_search,
    write_file,
)
from holdfast.tools.builtin.ask_user import ASK_USER
from holdfast.tools.builtin.create_artifact import CREATE_ARTIFACT
from holdfast.tools.builtin.log_write import LOG_WRITE
from holdfast.tools.builtin.plan_block import PLAN_BLOCK
from holdfast.tools.builtin.plan_cancel import PLAN_CANCEL
from holdfast.tools.builtin.plan_check import PLAN_CHECK
from holdfast.tools.builtin.plan_complete import PLAN_COMPLETE
from holdfast.tools.builtin.plan_create import PLAN_CREATE
from holdfast.tools.builtin.plan_start import PLAN_START
from holdfast.tools.builtin.plan_update import PLAN_UPDATE
from holdfast.tools.builtin.sleep import SLEEP
from holdfast.tools.builtin.task_respond import TASK_RESPOND
from holdfast.tools.builtin.todo_read import TODO_READ
from holdfast.tools.builtin.todo_write import TODO_WRITE
from holdfast.tools.commands.commands import Commands
from holdfast.tools.messaging import Messages
from holdfast.tools.spawning import Spawner
from holdfast.tools.tool import Tool
from holdfast.tools.web.http import Http
from holdfast.tools.web.pages import Pages
from holdfast.tools.wrapped import wrapped

_STANDING: Final[tuple[Tool, ...]] = (
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
_WRAPPED: Final = tuple(wrapped(tool) for tool in _STANDING)

SPECS: Final[tuple[ToolSpec, ...]] = tuple(
    sorted(
        (
            *(tool.spec for tool in _STANDING),
            agent_message.SPEC,
            agent_send.SPEC,
            agent_spawn.SPEC,
            bash.SPEC,
            edit_file.SPEC,
            glob.SPEC,
            grep.SPEC,
            list_dir.SPEC,
            read_file.SPEC,
            task_create.SPEC,
            task_spawn.SPEC,
            task_status.SPEC,
            task_subscribe.SPEC,
            tool_activate.SPEC,
            tool_search.SPEC,
            web_fetch.SPEC,
            web_search.SPEC,
            write_file.SPEC,
        ),
        key=lambda spec: spec.name,
    )
)
"""What every built-in promises, by name, wherever it runs."""
BUILT_IN: Final = frozenset(spec.name for spec in SPECS)
OPTIONAL: Final = frozenset({web_search.SPEC.name})
"""Built-ins that are there only where the operator has set them up. An agent that names one is not wrong elsewhere."""


def built_ins(spawner: Spawner, peers: SubagentRuns) -> list[Tool]:
    """Return the built-ins that run in a worker, for a run whose children `spawner` makes and `peers` work beside.

    `tool_search` and `tool_activate` come with a `Toolbox`, `task_status` is a remote tool, and those that work on
    files or run commands are `file_tools` and `command_tools`, since not every worker has the folders.
    """
    messages = Messages(spawner, peers)
    together: list[Tool] = [
        agent_message.agent_message(messages),
        agent_send.agent_send(messages),
        agent_spawn.agent_spawn(spawner, peers),
        task_create.task_create(spawner, peers),
        task_spawn.task_spawn(spawner, peers),
        task_subscribe.task_subscribe(peers),
    ]
    return [*_WRAPPED, *map(wrapped, together)]


def web_tools(http: Http, pages: Pages, engine: WebSearch | None) -> list[Tool]:
    """Return the built-ins that reach the web; without an engine there is nothing to search with."""
    return [web_fetch.web_fetch(http, pages), *([] if engine is None else [web_search.web_search(engine)])]


def command_tools(commands: Commands) -> list[Tool]:
    """Return the built-ins that run commands."""
    return [bash.bash(commands)]


def file_tools(folders: WorkingFolders) -> list[Tool]:
    """Return the built-ins that work on files, each in the working folder of the agent that calls it."""
    return [
        edit_file.edit_file(folders),
        glob.glob(folders),
        grep.grep(folders),
        list_dir.list_dir(folders),
        read_file.read_file(folders),
        write_file.write_file(folders),
    ]
