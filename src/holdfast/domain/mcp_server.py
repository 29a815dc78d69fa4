"""An MCP server, as an agent or the settings declare it: a program to start, or an address to call.

Its tools are called `mcp__<server>__<tool>`. What it says is never trusted: its tools are effectful until the
operator says otherwise, and what it claims of them can only take something away.
"""

import re
from enum import StrEnum
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from holdfast.domain.errors import Invalid
from holdfast.domain.idempotency import request_digest
from holdfast.domain.working_path import FolderName

DEFAULT_CALL_SECONDS: Final = 120.0
MCP_TOOL_PREFIX: Final = "mcp__"
"""What the names of all tools of MCP servers begin with."""
ENV_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""Stands for a variable of the environment that Holdfast itself runs in."""

_NAME_DESCRIPTION: Final = "1 to 24 letters, digits, `-` or single `_`, beginning with a letter or a digit"
_COMMAND_DEFAULTS: Final[dict[str, object]] = {
    "args": [],
    "env": {},
    "cwd": None,
    "reads": [],
    "network": False,
    "sandbox": "on",
}
_URL_DEFAULTS: Final[dict[str, object]] = {"headers": {}}

McpServerName: TypeAlias = Annotated[
    str,
    Meta(pattern=r"^(?!.*__)[A-Za-z0-9]([A-Za-z0-9_-]{0,22}[A-Za-z0-9-])?\Z", extra={"expected": _NAME_DESCRIPTION}),
]
VariableName: TypeAlias = Annotated[
    str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\Z", extra={"expected": "the name of an environment variable"})
]
ReadablePath: TypeAlias = Annotated[
    str, Meta(pattern=r"^/[^\x00]+\Z", extra={"expected": "an absolute path, such as `/opt/node`"})
]
HeaderName: TypeAlias = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z", extra={"expected": "the name of a header"})
]
HeaderValue: TypeAlias = Annotated[
    str, Meta(pattern=r"^[\x20-\x7e]*\Z", extra={"expected": "a text of printable ASCII characters"})
]
McpUrl: TypeAlias = Annotated[
    str, Meta(pattern=r"^https?://[!-.0-~]", extra={"expected": "an address that begins with http:// or https://"})
]
McpCommand: TypeAlias = Annotated[
    str, Meta(pattern=r"^[^\x00]+\Z", extra={"expected": "a program, without a NUL character"})
]
_Argument: TypeAlias = Annotated[
    str, Meta(pattern=r"^[^\x00]*\Z", extra={"expected": "a text without a NUL character"})
]


class McpToolClass(StrEnum):
    """What the operator says of a tool."""

    READ_ONLY = "read_only"
    """It changes nothing anywhere."""
    IDEMPOTENT = "idempotent"
    """Under the same key, which it is given, it may be called again."""
    EFFECTFUL = "effectful"
    """Nobody knows what a call did that was cut off."""


class McpServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a server is and what may be used of it: either `command` or `url`."""

    command: Annotated[
        McpCommand | None,
        Meta(description="The program to start. `./` at its beginning, or at that of an argument, is the workspace."),
    ] = None
    args: Annotated[list[_Argument], Meta(max_length=200, description="The arguments of the program.")] = []
    env: Annotated[
        dict[VariableName, _Argument],
        Meta(description="All of its environment; `${NAME}` stands for a variable that Holdfast runs with."),
    ] = {}
    cwd: Annotated[
        FolderName | None,
        Meta(description="The folder of the workspace that it works in; without it, one of its own that is kept."),
    ] = None
    reads: Annotated[
        list[ReadablePath], Meta(max_length=100, description="What else of the machine it may read, in its sandbox.")
    ] = []
    network: Annotated[bool, Meta(description="Whether its sandbox has the network.")] = False
    sandbox: Annotated[
        Literal["on", "off"], Meta(description="Whether it runs in a sandbox; off, it has all rights of the server.")
    ] = "on"
    url: Annotated[McpUrl | None, Meta(description="The address of a server that speaks streamable HTTP.")] = None
    headers: Annotated[
        dict[HeaderName, HeaderValue],
        Meta(description="What is sent with every request; `${NAME}` stands for a variable that Holdfast runs with."),
    ] = {}
    timeout_seconds: Annotated[
        Annotated[float, Meta(gt=0, le=86_400)], Meta(description="How long a call may take.")
    ] = DEFAULT_CALL_SECONDS
    tools: Annotated[
        list[str] | None, Meta(description="The tools that may be used, as the server calls them; null is all.")
    ] = None
    classes: Annotated[
        dict[str, McpToolClass],
        Meta(description="What is known of a tool, as the server calls it; every other one is effectful."),
    ] = {}

    def __post_init__(self) -> None:
        if (self.command is None) == (self.url is None):
            raise Invalid("give either `command`, to start a program, or `url`, to call a server")
        usual = _COMMAND_DEFAULTS if self.command is None else _URL_DEFAULTS
        for field, value in usual.items():
            if getattr(self, field) != value:
                needed = "command" if self.command is None else "url"
                raise Invalid(f"only a server with a `{needed}` has `{field}`", field=field)


def server_identity(server: McpServer) -> str:
    """Return what makes a server the one that it is: another program or address is another server."""
    return request_digest([server.command, server.args, server.cwd, server.url])


def env_references(server: McpServer) -> list[str]:
    """Return the variables that a server is given of the environment that Holdfast runs in."""
    texts = [*server.env.values(), *server.headers.values()]
    return [name for text in texts for name in ENV_REFERENCE.findall(text)]


def server_tool_prefix(server: str) -> str:
    """Return what the names of all tools of a server begin with."""
    return f"{MCP_TOOL_PREFIX}{server}__"


def server_of_tool(tool_name: str) -> str | None:
    """Return the server that the name of a tool, or the beginning of some names, is about."""
    server, parted, _ = tool_name.removeprefix(MCP_TOOL_PREFIX).partition("__")
    return server if tool_name.startswith(MCP_TOOL_PREFIX) and parted else None


def pattern_names_server(pattern: str, server: str) -> bool:
    """Say whether a name of tools, such as `mcp__github__*`, can be about tools of a server."""
    prefix = server_tool_prefix(server)
    return pattern.startswith(prefix) or (pattern.endswith("*") and prefix.startswith(pattern[:-1]))
