"""An MCP server, as an agent or the settings declare it: a program to start, or a URL to call.

Its tools are named `mcp__<server>__<tool>`. A server is never trusted: its tools are effectful unless the operator
declares otherwise, and its own annotations can only restrict them.
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
"""Name prefix of every MCP tool."""
ENV_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A reference to a variable in the environment of Holdfast itself."""

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
    str, Meta(pattern=r"^https?://[!-.0-~]", extra={"expected": "a URL that begins with http:// or https://"})
]
McpCommand: TypeAlias = Annotated[
    str, Meta(pattern=r"^[^\x00]+\Z", extra={"expected": "a program, without a NUL character"})
]
_Argument: TypeAlias = Annotated[
    str, Meta(pattern=r"^[^\x00]*\Z", extra={"expected": "a text without a NUL character"})
]


class McpToolClass(StrEnum):
    """The class of a tool, as the operator declares it."""

    READ_ONLY = "read_only"
    IDEMPOTENT = "idempotent"
    """It may be called again with the same idempotency key."""
    EFFECTFUL = "effectful"
    """The outcome of an interrupted call is unknown."""


class McpServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Connection and tools of a server: either `command` or `url`."""

    command: Annotated[
        McpCommand | None,
        Meta(description="The program to start. A leading `./` of it or of an argument is the workspace."),
    ] = None
    args: Annotated[list[_Argument], Meta(max_length=200, description="The arguments of the program.")] = []
    env: Annotated[
        dict[VariableName, _Argument],
        Meta(description="Its environment variables; `${NAME}` is replaced by a variable of Holdfast's environment."),
    ] = {}
    cwd: Annotated[
        FolderName | None,
        Meta(description="Its working folder, one per space; by default a persistent folder of its own."),
    ] = None
    reads: Annotated[
        list[ReadablePath],
        Meta(max_length=100, description="Other paths of the machine that its sandbox may read."),
    ] = []
    network: Annotated[bool, Meta(description="Whether its sandbox has network; `npx` and `uvx` need it.")] = False
    sandbox: Annotated[
        Literal["on", "off"],
        Meta(description="Whether it runs in a sandbox; off, it has all rights of the server."),
    ] = "on"
    url: Annotated[McpUrl | None, Meta(description="The URL of a server that speaks streamable HTTP.")] = None
    headers: Annotated[
        dict[HeaderName, HeaderValue],
        Meta(description="Headers of every request; `${NAME}` is replaced by a variable of Holdfast's environment."),
    ] = {}
    timeout_seconds: Annotated[
        Annotated[float, Meta(gt=0, le=86_400)], Meta(description="Timeout of a call, in seconds.")
    ] = DEFAULT_CALL_SECONDS
    tools: Annotated[list[str] | None, Meta(description="Usable tools, by the server's names; null allows all.")] = None
    classes: Annotated[
        dict[str, McpToolClass],
        Meta(description="Class of each tool, by the server's names; the default is effectful."),
    ] = {}

    def __post_init__(self) -> None:
        if (self.command is None) == (self.url is None):
            raise Invalid("give either `command`, to start a program, or `url`, to call a server")
        other, defaults = ("command", _COMMAND_DEFAULTS) if self.command is None else ("url", _URL_DEFAULTS)
        for field, value in defaults.items():
            if getattr(self, field) != value:
                raise Invalid(f"`{field}` requires `{other}`: remove it", field=field)


def server_identity(server: McpServer) -> str:
    """Return a digest that identifies the server: another program or URL is another server."""
    return request_digest([server.command, server.args, server.cwd, server.url])


def env_references(server: McpServer) -> list[str]:
    """Return the names of the environment variables that the settings of a server refer to."""
    texts = [*server.env.values(), *server.headers.values()]
    return [name for text in texts for name in ENV_REFERENCE.findall(text)]


def server_tool_prefix(server: str) -> str:
    """Return the name prefix of all tools of a server."""
    return f"{MCP_TOOL_PREFIX}{server}__"


def server_of_tool(tool_name: str) -> str | None:
    """Return the server of an MCP tool name or of a prefix of such names; null if there is none."""
    server, separator, _ = tool_name.removeprefix(MCP_TOOL_PREFIX).partition("__")
    return server if tool_name.startswith(MCP_TOOL_PREFIX) and separator else None


def pattern_names_server(pattern: str, server: str) -> bool:
    """Return whether a tool name pattern, such as `mcp__github__*`, can match tools of `server`."""
    prefix = server_tool_prefix(server)
    return pattern.startswith(prefix) or (pattern.endswith("*") and prefix.startswith(pattern[:-1]))
