"""The tool registry: all tools that exist, and the toolset of one agent."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    """The tools of one agent. With too many to be shown at once, it has those to find the others with."""

    def __init__(
        self,
        tools: Iterable[Tool],
        *,
        discovery: Iterable[str] = (),
        remote_names: Iterable[str] = (),
        offline: Iterable[Tool] = (),
        exposure: ToolExposure = DEFAULT_EXPOSURE,
    ) -> None:
        """Hold `tools`; those that are `away` can be called, since they may be back by then, but are not shown."""
        self._tools = {tool.spec.name: tool for tool in tools}
        self._offline = {tool.spec.name: tool for tool in offline}
        self.remote_names = frozenset(remote_names)
        """Tools of others, which run elsewhere."""
        self._exposure = exposure
        self._exceeds_limit = exceeds_limit(self._tools.values(), exposure)
        wanted = DISCOVERY_TOOLS if self._exceeds_limit else tuple(discovery)
        if wanted:
            made = self._discovery_tools()
            self._tools |= {name: made[name] for name in wanted}

    def merged_with(self, others: Iterable[Tool]) -> "Toolset":
        """Return a toolbox with the tools of others beside these, which win where two have the same name."""
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

    def all(self) -> list[Tool]:
        """Return every tool that the agent may use."""
        return list(self._tools.values())

    def visible(self, *, values: Mapping[str, Json], run_id: RunId) -> list[Tool]:
        """Return the tools that the model is shown now."""
        if not self._exceeds_limit:
            return self.all()
        return visible_tools(self._tools.values(), values=values, run_id=run_id, exposure=self._exposure)

    def find(self, name: str) -> Tool:
        """Return the tool, shown or not: an agent may use what it may use."""
        found = self._tools.get(name) or self._offline.get(name)
        if found is None:
            raise NotFound(f"there is no tool `{name}`{did_you_mean(name, self._tools)}", name=name)
        return found

    def _discovery_tools(self) -> dict[str, Tool]:
        specs = [tool.spec for tool in self._tools.values()]
        search = tool_search(specs, visible_names=self._visible_names)
        activate = tool_activate(specs, visible_names=self._visible_names, limit=self._exposure.limit)
        return {tool.spec.name: with_standard_middleware(tool) for tool in (search, activate)}

    def _visible_names(self, call: ToolContext) -> frozenset[str]:
        return frozenset(tool.spec.name for tool in self.visible(values=call.values, run_id=call.run.id))


class ToolCatalog:
    """All tools, by name. What is left out of it, and why, is in `left_out`."""

    def __init__(
        self, local: Iterable[Tool], *, remote: Iterable[Tool] = (), offline: Callable[[str], Tool] | None = None
    ) -> None:
        """List tools; `away` makes the one of a remote method that nobody offers now."""
        self._tools: dict[str, Tool] = {}
        self._offline = offline
        self.rejected: dict[str, str] = {}
        for tool in local:
            self._add_local(tool)
        self._local = {*self._tools, *DISCOVERY_TOOLS}
        for tool in remote:
            self._add_remote(tool)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def toolset(self, wanted: Sequence[str], *, exposure: ToolExposure = DEFAULT_EXPOSURE) -> Toolset:
        """Return the tools that an agent names: `name`, or `prefix*` for all whose names begin so.

        A prefix may fit nothing, since what it stands for comes and goes, and so do remote methods. Any other name that
        is not there is `Invalid`.
        """
        names = dict.fromkeys(name for pattern in wanted for name in self._matching_names(pattern))
        away = [] if self._offline is None else [self._offline(name) for name in wanted if self._is_offline(name)]
        return Toolset(
            [self._tools[name] for name in names if name not in DISCOVERY_TOOLS],
            discovery=[name for name in names if name in DISCOVERY_TOOLS],
            remote_names=[*filter(self._is_remote, names), *(tool.spec.name for tool in away)],
            offline=away,
            exposure=exposure,
        )

    def _matching_names(self, pattern: str) -> list[str]:
        prefix, star, rest = pattern.partition("*")
        if star and not rest:
            return sorted(name for name in self._tools if name.startswith(prefix))
        if pattern in self._tools or pattern in DISCOVERY_TOOLS:
            return [pattern]
        if self._is_offline(pattern) or pattern in OPTIONAL_BUILTINS:
            return []
        if star:
            raise Invalid(f"`{pattern}` is no name of tools: a `*` may stand at the end only", field="tools")
        hint = did_you_mean(pattern, [*self._tools, *DISCOVERY_TOOLS])
        raise Invalid(f"there is no tool `{pattern}`{hint}", field="tools", name=pattern)

    def _is_remote(self, name: str) -> bool:
        return name not in self._local and name not in BUILTIN_NAMES

    def _is_offline(self, name: str) -> bool:
        comes_and_goes = name.startswith(REMOTE_METHOD_PREFIX) or server_of_tool(name) is not None
        return comes_and_goes and "*" not in name and name not in self._tools

    def _add_local(self, tool: Tool) -> None:
        name = check_tool_spec(tool.spec).name
        if name in self._tools or name in DISCOVERY_TOOLS:
            raise Invalid(f"there are two local tools `{name}`: rename one", field="name")
        self._tools[name] = tool

    def _add_remote(self, tool: Tool) -> None:
        """Add a tool of somebody else; one that cannot be used does not keep the others away."""
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


def is_dynamic(pattern: str) -> bool:
    """Say whether a name of tools, such as `remote__*`, can be about those of clients or of MCP servers."""
    prefix, star, _ = pattern.partition("*")
    theirs = (REMOTE_METHOD_PREFIX, MCP_TOOL_PREFIX)
    return prefix.startswith(theirs) or (star != "" and any(each.startswith(prefix) for each in theirs))
