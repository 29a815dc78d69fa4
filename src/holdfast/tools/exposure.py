"""Tool exposure: which of an agent's tools its model is shown, when there are too many to show all.

Up to the limit all tools are shown. Above it, a core set is shown together with `tool_search` and `tool_activate`; an
activated tool stays visible until the run ends. Activated tools are stored in the run value `tools` together with the
run id, because runs that continue this one inherit its values.
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
DEFAULT_VISIBLE_TOOLS: Final = 64
"""Enough for all built-in tools and a dozen of the agent's own, which it would not see otherwise."""


class ToolExposure(msgspec.Struct, frozen=True, kw_only=True):
    """How many tools are shown at once, and which ones if there are more."""

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
    """Return the tools that this run has activated, ignoring those inherited from another run."""
    try:
        activated = msgspec.convert(values.get(TOOLS_VALUE), ActivatedTools)
    except msgspec.ValidationError:
        return ActivatedTools(run_id=run_id)  # not set, or not written by us
    return activated if activated.run_id == run_id else ActivatedTools(run_id=run_id)


def visible_tools(
    tools: Iterable[Tool], *, values: Mapping[str, Json], run_id: RunId, exposure: ToolExposure = DEFAULT_EXPOSURE
) -> list[Tool]:
    """Return the tools that the model is shown now."""
    all_tools = list(tools)
    if not exceeds_limit(all_tools, exposure):
        return all_tools
    visible = exposure.core.union(DISCOVERY_TOOLS, activated_tools(values, run_id).active)
    return [tool for tool in all_tools if tool.spec.name in visible]


def exceeds_limit(tools: Iterable[Tool], exposure: ToolExposure) -> bool:
    """Return whether these are too many tools to show at once, not counting the discovery tools."""
    return sum(tool.spec.name not in DISCOVERY_TOOLS for tool in tools) > exposure.limit
