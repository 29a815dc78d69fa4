"""Schemathesis hooks that request objects of another space and check that no response shows them.

Schemathesis loads this module. The variable KNOWN names a file with the contents of the key's space and of the other.
"""

import os
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec
import schemathesis
from schemathesis import Case, CheckContext, HookContext, Response

from tests.api.auth.tenant import KnownContents

_CONTENTS: Final = msgspec.json.decode(Path(os.environ["KNOWN"]).read_bytes(), type=KnownContents)
_calls: Final = count()


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], **_: Any) -> None:
    """Put ids of the other space, ids of the own space and generated ids into the path in turn."""
    turn, kind = divmod(next(_calls), 3)
    if kind == 2:
        return
    contents = (_CONTENTS.foreign, _CONTENTS.own)[kind]
    for name in case.path_parameters or ():
        if ids := contents.ids.get(name):
            case.path_parameters[name] = ids[turn % len(ids)]


@schemathesis.check
def nothing_foreign(ctx: CheckContext, response: Response, case: Case[Any]) -> None:
    """Check that the response contains nothing of the other space."""
    text = response.content.decode("utf-8", "replace") + str(dict(response.headers))
    for mark in _CONTENTS.foreign.marks:
        assert mark not in text, f"{case.method} {case.path} shows `{mark}`"
