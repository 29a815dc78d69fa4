"""The environment of a command that an agent thought of: what is written here, and nothing of ours."""

from collections.abc import Mapping
from typing import Final

from holdfast.sandbox.request import DEFAULT_PATH

PASSED_ON: Final = ("LANG", "LC_ALL", "LC_CTYPE", "TZ")
"""What it has of the environment of its worker: how to write words and times."""
HOME: Final = "/tmp"  # inside, a folder of its own that is gone with it

_FIXED: Final = {
    "PATH": DEFAULT_PATH,
    "HOME": HOME,
    "TMPDIR": "/tmp",
    "USER": "agent",
    "LOGNAME": "agent",
    "SHELL": "/bin/bash",
    "TERM": "dumb",
    "GIT_TERMINAL_PROMPT": "0",
}


def environment(own: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a command with what is `given` to it, where `own` is that of this process."""
    passed = {name: own[name] for name in PASSED_ON if name in own}
    return {"LANG": "C.UTF-8", **passed, **_FIXED, **given}
