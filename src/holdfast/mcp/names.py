"""What a model calls the tools of a server: `mcp__<server>__<tool>`, in letters that every provider takes."""

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from holdfast.domain.mcp_server import server_tool_prefix

LONGEST: Final = 64
"""Characters of the name of a tool."""

_NO_LETTER: Final = re.compile(r"[^A-Za-z0-9_-]")


def tool_names(server: str, tools: Iterable[str]) -> dict[str, str]:
    """Return the name that a model calls each tool by; no two have the same, and each depends on nothing else."""
    prefix = server_tool_prefix(server)
    return {tool: prefix + _fitting(tool, room=LONGEST - len(prefix)) for tool in tools}


def _fitting(tool: str, *, room: int) -> str:
    """Return the name as it is where that can be, and otherwise with a number that tells it from those alike."""
    plain = _NO_LETTER.sub("_", tool)
    if plain == tool and 0 < len(tool) <= room:
        return tool
    mark = "-" + sha256(tool.encode()).hexdigest()[:8]
    return plain[: room - len(mark)] + mark
