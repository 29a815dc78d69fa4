"""What is done around every tool, in this order."""

from holdfast.tools.attributed import attributed
from holdfast.tools.bounded import bounded
from holdfast.tools.checked import checked
from holdfast.tools.explained import explained
from holdfast.tools.redaction import Redaction, redacted
from holdfast.tools.timed import timed
from holdfast.tools.tool import Tool


def wrapped(tool: Tool, *, redaction: Redaction | None = None) -> Tool:
    """Return `tool` with its arguments checked, its time limited, its errors explained and its output bounded.

    With a `redaction`, secrets are taken out of what it answers, before anything is cut off. Answers that others wrote
    say so.
    """
    answering = explained(timed(checked(tool)))
    return attributed(bounded(answering if redaction is None else redacted(answering, redaction)))
