"""`bash`: a shell command in the working folder. Where it went with `cd` is a value of the run."""

import secrets
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta
from msgspec.structs import replace

from holdfast.domain.errors import Invalid
from holdfast.domain.tool import ToolClass, ToolReach
from holdfast.domain.working_path import MAX_PATH_BYTES, WORKING_ROOT, WorkingPath, parse_working_path
from holdfast.ports.sandbox import ProcessResult
from holdfast.tools.commands.commands import Commands
from holdfast.tools.commands.endings import output_of, told
from holdfast.tools.commands.outside import words_from_outside
from holdfast.tools.commands.shell_folder import at, shell_folder
from holdfast.tools.commands.trespasses import with_trespasses
from holdfast.tools.permissions.subjects import BASH
from holdfast.tools.schema import Arguments, spec_of
from holdfast.tools.tool import Call, Outcome
from holdfast.tools.typed import TypedTool

MAX_COMMAND: Final = 100_000
"""Characters."""
DEFAULT_SECONDS: Final = 120
MOST_SECONDS: Final = 3_600
MOST_ERRORS: Final = 4_000
"""Bytes that are told of why no shell could begin."""
MARGIN: Final = 60.0
"""Seconds that a call has beside those of its command, to start it and to see that all of it is gone."""
GONE: Final = "`{}` is gone, so nothing was run: the shell is back in the working folder"

# Both outputs are one, in the order in which they come. What was the second then says where the shell is at its end, in
# words that begin with what nobody can guess.
_SCRIPT: Final = """\
exec 3>&2 2>&1
trap 'printf "%s%s" {mark} "$PWD" >&3' EXIT
eval "$1"
"""


class Bash(Arguments, frozen=True, kw_only=True):
    """Run a shell command in your working folder, and read what it writes.

    The next one begins where you went with `cd`.
    """

    command: Annotated[str, Meta(min_length=1, max_length=MAX_COMMAND, description="The command, as bash reads it.")]
    timeout_seconds: Annotated[
        int, Meta(ge=1, le=MOST_SECONDS, description="How long it may take before it is killed.")
    ] = DEFAULT_SECONDS


SPEC: Final = spec_of(
    Bash, name=BASH, kind=ToolClass.EFFECTFUL, timeout=MOST_SECONDS + MARGIN, reach=ToolReach.COMMANDS
)


def bash(commands: Commands) -> TypedTool[Bash]:
    """Return the tool."""

    async def run(call: Call, asked: Bash) -> Outcome:
        folder = shell_folder(call.values)
        if not await commands.has(call, folder):
            # Meant for that folder, it might do harm in another.
            return Outcome(content=GONE.format(folder), failed=True, values=at(WORKING_ROOT))
        mark = secrets.token_hex(16)
        ran = await commands.run(
            call,
            ["/bin/bash", "-c", _SCRIPT.format(mark=mark), "bash", asked.command],
            folder=folder,
            seconds=asked.timeout_seconds,
            heard=lambda piece: not piece.startswith(mark.encode()),
        )
        ended = ran.ended
        now = _folder(ended, mark, root=commands.root(call)) or folder
        notes = told(ended, timeout=asked.timeout_seconds)
        if now != WORKING_ROOT:
            notes.append(f"the shell is in `{now}`")
        outcome = Outcome(
            content=f"{_output(ended, mark)}[{'; '.join(notes)}]",
            failed=ended.exit_code != 0,
            untrusted=words_from_outside(asked.command, root=commands.root(call), network=commands.has_network(call)),
            values=at(now) if now != folder else {},
        )
        return with_trespasses(outcome, call, BASH, ran.trespasses)

    return TypedTool(replace(SPEC, reach=commands.reach), Bash, run=run)


def _output(ended: ProcessResult, mark: str) -> str:
    """Return what was written, with an end of line; where no shell came to its end, also why it could not begin."""
    output = output_of(ended.output, dropped=ended.dropped)
    if mark.encode() not in ended.errors:
        output += ended.errors[-MOST_ERRORS:].decode(errors="replace")
    return output if not output or output.endswith("\n") else f"{output}\n"


def _folder(ended: ProcessResult, mark: str, *, root: Path) -> WorkingPath | None:
    """Return where the next command begins, if the shell could say where it was at its end.

    One that has left the working folder comes back to it.
    """
    _, said, place = ended.errors.decode(errors="replace").rpartition(mark)
    if not said:
        return None
    try:
        return parse_working_path(str(Path(place[: 2 * MAX_PATH_BYTES]).relative_to(root)))
    except (Invalid, ValueError):
        return WORKING_ROOT
