"""Tool exposure: which of an agent's tools its model is shown, when there are too many to show all.

Up to the limit all tools are shown. Above it, a core set is shown together with `tool_search` and `tool_activate`; an
activated tool stays visible until the run ends. Activated tools are kept in the run value `tools` together with the
run id, because values pass to runs that continue this one.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import RunId
from holdfast.tools.tool import Tool

TOOLS_VALUE: Final = "tools"
DISCOVERY_TOOLS: Final = ("tool_search", "tool_activate")
CORE_TOOLS: Final = frozenset(
    {
        *DISCOVERY_TOOLS,
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
DEFAULT_VISIBLE_TOOLS: Final = 40


class ToolExposure(msgspec.Struct, frozen=True, kw_only=True):
    """How many tools are shown at once, and which when there are more."""

    limit: int = DEFAULT_VISIBLE_TOOLS
    core: frozenset[str] = CORE_TOOLS

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise Invalid("a model must be shown at least one tool", field="limit")


DEFAULT_EXPOSURE: Final = ToolExposure()


class ActivatedTools(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that a run has activated."""

    run_id: RunId
    active: tuple[str, ...] = ()


def activated_tools(values: Mapping[str, Json], run_id: RunId) -> ActivatedTools:
    """Return what the run has activated; what another run had does not count."""
    try:
        found = msgspec.convert(values.get(TOOLS_VALUE), ActivatedTools)
    except msgspec.ValidationError:
        return ActivatedTools(run_id=run_id)  # there is none yet, or nothing that we wrote
    return found if found.run_id == run_id else ActivatedTools(run_id=run_id)


def visible_tools(
    tools: Iterable[Tool], *, values: Mapping[str, Json], run_id: RunId, exposure: ToolExposure = DEFAULT_EXPOSURE
) -> list[Tool]:
    """Return those of an agent's tools that its model is shown now."""
    every = list(tools)
    if not exceeds_limit(every, exposure):
        return every
    shown = exposure.core.union(DISCOVERY_TOOLS, activated_tools(values, run_id).active)
    return [tool for tool in every if tool.spec.name in shown]


def exceeds_limit(tools: Iterable[Tool], exposure: ToolExposure) -> bool:
    """Whether these are too many to be shown at once. The tools to find tools with do not count."""
    return sum(tool.spec.name not in DISCOVERY_TOOLS for tool in tools) > exposure.limit
