"""What schemathesis is told when it explores with one key: what others have, to ask for and never to see.

It is loaded by schemathesis itself. FOREIGN names a file with `ids`, by the parameters that they are put into, and
`marks`, which stand in everything that the other space has.
"""

import os
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec
import schemathesis
from schemathesis import Case, CheckContext, HookContext, Response

from tests.api.auth.tenant import Foreign

_FOREIGN: Final = msgspec.json.decode(Path(os.environ["FOREIGN"]).read_bytes(), type=Foreign)
_calls: Final = count()


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], **_: Any) -> None:
    """Ask for something foreign now and then."""
    turn = next(_calls)
    if turn % 2:
        return
    for name in case.path_parameters or ():
        if foreign := _FOREIGN.ids.get(name):
            case.path_parameters[name] = foreign[turn // 2 % len(foreign)]


@schemathesis.check
def nothing_foreign(ctx: CheckContext, response: Response, case: Case[Any]) -> None:
    """Find nothing of the other space in any answer."""
    seen = response.content.decode("utf-8", "replace") + str(dict(response.headers))
    for mark in _FOREIGN.marks:
        assert mark not in seen, f"{case.method} {case.path} shows `{mark}`"
