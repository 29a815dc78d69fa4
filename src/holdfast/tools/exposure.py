"""Which tools a model is shown, when an agent may use more than it should have to read about.

Up to a number of tools all are shown. Beyond it a core is, with `tool_search` and `tool_activate`: what they activate
is shown until the run ends. That is kept in the value `tools` of the run, together with the id of the run, because
values go over to the runs that continue it.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import RunId
from holdfast.tools.tool import Tool

VALUE: Final = "tools"
FINDERS: Final = ("tool_search", "tool_activate")
CORE: Final = frozenset(
    {
        *FINDERS,
        "agent_spawn",
        "ask_user",
        "bash",
        "create_artifact",
        "edit_file",
        "glob",
        "grep",
        "list_dir",
        "plan_block",
        "plan_cancel",
        "plan_check",
        "plan_complete",
        "plan_create",
        "plan_start",
        "plan_update",
        "read_file",
        "task_create",
        "task_respond",
        "task_status",
        "todo_read",
        "todo_write",
        "web_fetch",
        "web_search",
        "write_file",
    }
)
DEFAULT_LIMIT: Final = 40


class Exposure(msgspec.Struct, frozen=True, kw_only=True):
    """How many tools are shown at once, and which when there are more."""

    limit: int = DEFAULT_LIMIT
    core: frozenset[str] = CORE

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise Invalid("a model must be shown at least one tool", field="limit")


DEFAULT: Final = Exposure()


class Active(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that a run has activated."""

    run_id: RunId
    active: tuple[str, ...] = ()


def active(values: Mapping[str, Json], run_id: RunId) -> Active:
    """Return what the run has activated; what another run had does not count."""
    try:
        found = msgspec.convert(values.get(VALUE), Active)
    except msgspec.ValidationError:
        return Active(run_id=run_id)  # there is none yet, or nothing that we wrote
    return found if found.run_id == run_id else Active(run_id=run_id)


def visible(
    tools: Iterable[Tool], *, values: Mapping[str, Json], run_id: RunId, exposure: Exposure = DEFAULT
) -> list[Tool]:
    """Return those of an agent's tools that its model is shown now."""
    every = list(tools)
    if not crowded(every, exposure):
        return every
    shown = exposure.core.union(FINDERS, active(values, run_id).active)
    return [tool for tool in every if tool.spec.name in shown]


def crowded(tools: Iterable[Tool], exposure: Exposure) -> bool:
    """Whether these are too many to be shown at once. The tools to find tools with do not count."""
    return sum(tool.spec.name not in FINDERS for tool in tools) > exposure.limit
