"""The tool registry: the catalog of all tools, and the toolset of one agent."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.ids import RunId
from holdfast.domain.mcp_server import MCP_TOOL_PREFIX, server_of_tool
from holdfast.domain.tool import REMOTE_METHOD_PREFIX, check_tool_spec
from holdfast.tools.builtin.catalog import BUILTIN_NAMES, OPTIONAL_BUILTINS
from holdfast.tools.builtin.tool_search import tool_activate, tool_search
from holdfast.tools.content import did_you_mean
from holdfast.tools.exposure import DEFAULT_EXPOSURE, DISCOVERY_TOOLS, ToolExposure, exceeds_limit, visible_tools
from holdfast.tools.middleware import with_standard_middleware
from holdfast.tools.tool import Tool, ToolContext

SHADOWED_REASON: Final = "a local tool of this name wins"
DUPLICATE_REASON: Final = "another remote tool has this name"


class Toolset:
    """The tools of one agent. If there are too many to show at once, it includes the discovery tools."""

    def __init__(
        self,
        tools: Iterable[Tool],
        *,
        discovery: Iterable[str] = (),
        remote_names: Iterable[str] = (),
        offline: Iterable[Tool] = (),
        exposure: ToolExposure = DEFAULT_EXPOSURE,
    ) -> None:
        """Hold `tools`; `offline` tools are not shown but can be called, since they may be back by then."""
        self._tools = {tool.spec.name: tool for tool in tools}
        self._offline = {tool.spec.name: tool for tool in offline}
        self.remote_names = frozenset(remote_names)
        """Tools of third parties, which run elsewhere."""
        self._exposure = exposure
        self._exceeds_limit = exceeds_limit(self._tools.values(), exposure)
        discovery_names = DISCOVERY_TOOLS if self._exceeds_limit else tuple(discovery)
        if discovery_names:
            specs = [tool.spec for tool in self._tools.values()]
            search = tool_search(specs, visible_names=self._visible_names)
            activate = tool_activate(specs, visible_names=self._visible_names, limit=exposure.limit)
            created = {tool.spec.name: with_standard_middleware(tool) for tool in (search, activate)}
            self._tools |= {name: created[name] for name in discovery_names}

    def merged_with(self, others: Iterable[Tool]) -> "Toolset":
        """Return a toolset with the tools of both; on a name clash, this one's tool wins."""
        return Toolset(
            [
                *(tool for name, tool in self._tools.items() if name not in DISCOVERY_TOOLS),
                *(tool for tool in others if tool.spec.name not in {*self._tools, *DISCOVERY_TOOLS}),
            ],
            discovery=[name for name in DISCOVERY_TOOLS if name in self._tools],
            remote_names=self.remote_names,
            offline=self._offline.values(),
            exposure=self._exposure,
        )

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of every tool that the agent may use."""
        return frozenset(self._tools)

    def all(self) -> list[Tool]:
        """Return every tool that the agent may use."""
        return list(self._tools.values())

    def visible(self, *, values: Mapping[str, Json], run_id: RunId) -> list[Tool]:
        """Return the tools that the model is shown now."""
        if not self._exceeds_limit:
            return self.all()
        return visible_tools(self._tools.values(), values=values, run_id=run_id, exposure=self._exposure)

    def find(self, name: str) -> Tool:
        """Return a tool, visible or not: an agent may call any tool of its own."""
        tool = self._tools.get(name) or self._offline.get(name)
        if tool is None:
            raise NotFound(f"there is no tool `{name}`{did_you_mean(name, self._tools)}", name=name)
        return tool

    def _visible_names(self, call: ToolContext) -> frozenset[str]:
        return frozenset(tool.spec.name for tool in self.visible(values=call.values, run_id=call.run.id))


class ToolCatalog:
    """All tools by name; `rejected` has the remote tools that were left out, with the reason."""

    def __init__(
        self, local: Iterable[Tool], *, remote: Iterable[Tool] = (), offline: Callable[[str], Tool] | None = None
    ) -> None:
        """Hold these tools; `offline` creates a placeholder for a remote tool that is not offered now."""
        self._tools: dict[str, Tool] = {}
        self._offline = offline
        self.rejected: dict[str, str] = {}
        for tool in local:
            name = check_tool_spec(tool.spec).name
            if name in self._tools or name in DISCOVERY_TOOLS:
                raise Invalid(f"there are two local tools `{name}`: rename one", field="name")
            self._tools[name] = tool
        self._local = {*self._tools, *DISCOVERY_TOOLS}
        for tool in remote:
            self._add_remote(tool)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def toolset(self, patterns: Sequence[str], *, exposure: ToolExposure = DEFAULT_EXPOSURE) -> Toolset:
        """Return the tools that an agent names: `name`, or `prefix*` for all names with that prefix.

        A prefix may match nothing, and a remote tool may be offline. Any other unknown name raises `Invalid`.
        """
        names = dict.fromkeys(name for pattern in patterns for name in self._matching_names(pattern))
        offline = [] if self._offline is None else [self._offline(name) for name in patterns if self._is_offline(name)]
        remote = [name for name in names if name not in self._local and name not in BUILTIN_NAMES]
        return Toolset(
            [self._tools[name] for name in names if name not in DISCOVERY_TOOLS],
            discovery=[name for name in names if name in DISCOVERY_TOOLS],
            remote_names=[*remote, *(tool.spec.name for tool in offline)],
            offline=offline,
            exposure=exposure,
        )

    def _matching_names(self, pattern: str) -> list[str]:
        prefix, star, rest = pattern.partition("*")
        if star and not rest:
            return sorted(name for name in self._tools if name.startswith(prefix))
        if pattern in self._tools or pattern in DISCOVERY_TOOLS:
            return [pattern]
        check_tool_pattern(pattern, known=[*self._tools, *DISCOVERY_TOOLS])
        return []

    def _is_offline(self, name: str) -> bool:
        return _is_remote(name) and name not in self._tools

    def _add_remote(self, tool: Tool) -> None:
        """Add a tool of a third party, or record why it is rejected."""
        name = tool.spec.name
        if name in self._local or name in self._tools:
            self.rejected[name] = SHADOWED_REASON if name in self._local else DUPLICATE_REASON
            return
        try:
            check_tool_spec(tool.spec)
        except Invalid as error:
            self.rejected[name] = error.message
        else:
            self._tools[name] = tool


def check_tool_pattern(pattern: str, *, known: Collection[str]) -> None:
    """Raise `Invalid` for a pattern that names no tool; a prefix may match nothing, and a remote tool be offline."""
    if pattern in known or pattern in DISCOVERY_TOOLS or pattern in OPTIONAL_BUILTINS or _is_remote(pattern):
        return
    _, star, rest = pattern.partition("*")
    if star and rest:
        raise Invalid(f"`{pattern}` is not a valid tool name: a `*` is only allowed at the end", field="tools")
    if not star:
        raise Invalid(f"there is no tool `{pattern}`{did_you_mean(pattern, known)}", field="tools", name=pattern)


def _is_remote(name: str) -> bool:
    return "*" not in name and (name.startswith(REMOTE_METHOD_PREFIX) or server_of_tool(name) is not None)


def is_dynamic(pattern: str) -> bool:
    """Return whether a tool pattern, such as `remote__*`, can match tools of clients or MCP servers."""
    prefix, star, _ = pattern.partition("*")
    dynamic = (REMOTE_METHOD_PREFIX, MCP_TOOL_PREFIX)
    return prefix.startswith(dynamic) or (star != "" and any(each.startswith(prefix) for each in dynamic))
