"""An MCP server written with the SDK: `sdk_server.py` uses stdio, `sdk_server.py PORT` HTTP."""

import os
import sys
from typing import Annotated

from mcp.server.mcpserver import Context, Elicit, Image, MCPServer, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

server = MCPServer("sdk")


class Person(BaseModel):
    """The requested input."""

    name: str


class Sum(BaseModel):
    """The result of `add`."""

    total: int


async def ask_name(what: str) -> Elicit[Person]:
    """Ask for a name."""
    return Elicit(f"Who has the {what}?", Person)


@server.tool()
def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(total=a + b)


@server.tool()
def fail() -> str:
    """Fail."""
    raise ToolError("it is broken")


@server.tool()
def picture() -> list[str | Image]:
    """Show a picture."""
    return ["look:", Image(data=b"\x89PNG no more", format="png")]


@server.tool()
def find(what: str, person: Annotated[Person, Resolve(ask_name)]) -> str:
    """Find out who has something."""
    return f"{person.name} has the {what}"


@server.tool()
async def learn(skill: str, ctx: Context) -> str:
    """Learn to do something else."""
    server.add_tool(lambda: f"did {skill}", name=skill, description=f"Does {skill}.")
    await ctx.notify_tools_changed()
    return "learned"


@server.tool()
def die() -> str:
    """Die in the middle of a call."""
    os._exit(3)


@server.tool()
def whoami(ctx: Context) -> str:
    """Say who calls."""
    headers = ctx.headers or {}
    return headers.get("authorization", "nobody")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
