"""Where the shell of a run is: a value of the run, without which nobody understands what its next command means."""

import shlex
from collections.abc import Mapping
from typing import Final

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.working_path import WORKING_ROOT, WorkingPath, parse_working_path
from holdfast.tools.permissions.subjects import BASH, SUBJECTS
from holdfast.tools.values import written

VALUE: Final = "shell"


class Shell(msgspec.Struct, frozen=True, kw_only=True):
    """The shell of a run."""

    folder: str = WORKING_ROOT


def shell_folder(values: Mapping[str, Json]) -> WorkingPath:
    """Return where the next command begins, relative to the working folder."""
    try:
        return parse_working_path(msgspec.convert(values.get(VALUE) or {}, Shell).folder)
    except (Invalid, msgspec.ValidationError):
        return WORKING_ROOT  # nothing that we wrote


def at(folder: WorkingPath) -> dict[str, Json]:
    """Return the value of a run whose shell is there."""
    return {VALUE: written(Shell(folder=folder))}


def as_ruled(tool: str, arguments: dict[str, Json], values: Mapping[str, Json]) -> dict[str, Json]:
    """Return arguments as rules are to read them: they take a command to begin in the working folder."""
    argument = SUBJECTS[BASH].argument
    command, folder = arguments.get(argument), shell_folder(values)
    if tool != BASH or folder == WORKING_ROOT or not isinstance(command, str):
        return arguments
    return {**arguments, argument: f"cd {shlex.quote(folder)}\n{command}"}
