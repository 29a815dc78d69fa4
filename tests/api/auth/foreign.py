"""What schemathesis is told when it explores with one key: what others have, to ask for and never to see.

It is loaded by schemathesis itself. KNOWN names a file with what is in the space of the key, and what is in the other.
"""

import os
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec
import schemathesis
from schemathesis import Case, CheckContext, HookContext, Response

from tests.api.auth.tenant import Known

_KNOWN: Final = msgspec.json.decode(Path(os.environ["KNOWN"]).read_bytes(), type=Known)
_calls: Final = count()


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], **_: Any) -> None:
    """Ask for something foreign, and for something that is there, now and then."""
    turn, kind = divmod(next(_calls), 3)
    if kind == 2:
        return
    known = (_KNOWN.foreign, _KNOWN.own)[kind]
    for name in case.path_parameters or ():
        if ids := known.ids.get(name):
            case.path_parameters[name] = ids[turn % len(ids)]


@schemathesis.check
def nothing_foreign(ctx: CheckContext, response: Response, case: Case[Any]) -> None:
    """Find nothing of the other space in any answer."""
    seen = response.content.decode("utf-8", "replace") + str(dict(response.headers))
    for mark in _KNOWN.foreign.marks:
        assert mark not in seen, f"{case.method} {case.path} shows `{mark}`"
