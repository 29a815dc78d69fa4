"""The built-in tools, all of them."""

from typing import Final

from holdfast.domain.tool import ToolSpec
from holdfast.tools.builtin import agent_spawn, task_create, task_status, tool_activate, tool_search
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
from holdfast.tools.spawning import Spawner
from holdfast.tools.tool import Tool
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
            agent_spawn.SPEC,
            task_create.SPEC,
            task_status.SPEC,
            tool_activate.SPEC,
            tool_search.SPEC,
        ),
        key=lambda spec: spec.name,
    )
)
"""What every built-in promises, by name, wherever it runs."""


def built_ins(spawner: Spawner) -> list[Tool]:
    """Return the built-ins that run in a worker, for a run whose children `spawner` makes.

    `tool_search` and `tool_activate` come with a `Toolbox`, and `task_status` is a remote tool.
    """
    return [*_WRAPPED, wrapped(agent_spawn.agent_spawn(spawner)), wrapped(task_create.task_create(spawner))]
