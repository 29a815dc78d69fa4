"""What is done around every tool, in this order."""

from holdfast.tools.bounded import bounded
from holdfast.tools.checked import checked
from holdfast.tools.explained import explained
from holdfast.tools.timed import timed
from holdfast.tools.tool import Tool


def wrapped(tool: Tool) -> Tool:
    """Return `tool` with its arguments checked, its time limited, its errors explained and its output bounded."""
    return bounded(explained(timed(checked(tool))))
