"""A script: what a scripted model says, turn by turn. `docs/guides/scripted-model.md` is its reference."""

import re
from os import stat
from pathlib import Path
from stat import S_ISREG
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import ScriptError
from holdfast.domain.limits import MAX_TOKENS_PER_CALL

DEFAULT_CONTEXT_WINDOW: Final = 128_000

_Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_TOKENS_PER_CALL)]
_Name = Annotated[str, msgspec.Meta(min_length=1)]
_Stamp: TypeAlias = tuple[int, int, int]


class ScriptedCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool that the model asks for."""

    name: _Name
    arguments: dict[str, Json] = {}


class ScriptedUsage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a turn claims to have used."""

    input_tokens: _Count = 0
    output_tokens: _Count = 0


class ScriptedError(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a turn fails."""

    code: _Name
    message: str = ""


class Turn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One answer of the model: it thinks, speaks, calls, and then fails, stalls or is done."""

    say: str = ""
    chunks: Annotated[int, msgspec.Meta(ge=1)] = 1
    delay_ms: Annotated[float, msgspec.Meta(ge=0)] = 0
    think: str = ""
    call: list[ScriptedCall] = []
    usage: ScriptedUsage = ScriptedUsage()
    error: ScriptedError | None = None
    stall: bool = False

    def __post_init__(self) -> None:
        if self.stall and self.error is not None:
            raise ValueError("a turn cannot have both `error` and `stall`")


class Script(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that a scripted model will say."""

    turns: Annotated[list[Turn], msgspec.Meta(min_length=1)]
    after_last: Literal["repeat", "fail"] = "fail"
    context_window: Annotated[int, msgspec.Meta(ge=1)] = DEFAULT_CONTEXT_WINDOW


class ScriptFile:
    """A script on disk: parsed once for each state that the file is in."""

    def __init__(self, path: Path, *, called: str | None = None) -> None:
        """Read the script at `path`; in errors it is `called` as clients call it, who need not know where it is."""
        self.name: Final = called or str(path)
        self._path: Final = path
        self._place: Final = str(path)
        self._seen: _Stamp | None = None
        self._script: Script | None = None

    def read(self) -> Script:
        """Return the script as it is now; one that cannot be read is a `ScriptError` that names file and key."""
        stamp = self._stamp()
        if self._script is None or stamp != self._seen:
            self._script = parse(self._bytes(), file=self.name)
            self._seen = stamp
        return self._script

    def _stamp(self) -> _Stamp:
        try:
            found = stat(self._place)
        except (OSError, ValueError) as exc:  # a name with a NUL is no name of a file
            raise self._unreadable(exc) from exc
        if not S_ISREG(found.st_mode):  # to open a pipe would wait for a writer
            raise ScriptError(f"script `{self.name}` cannot be read: it is no file", file=self.name)
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _bytes(self) -> bytes:
        try:
            return self._path.read_bytes()
        except OSError as exc:
            raise self._unreadable(exc) from exc

    def _unreadable(self, exc: OSError | ValueError) -> ScriptError:
        why = getattr(exc, "strerror", None) or exc
        return ScriptError(f"script `{self.name}` cannot be read: {why}", file=self.name)


def parse(text: bytes | str, *, file: str) -> Script:
    """Return the script that `text` is; `file` is named in errors."""
    try:
        return _decoder.decode(text)
    except msgspec.ValidationError as exc:
        key, complaint = _complaint(str(exc))
        raise ScriptError(f"script `{file}`, `{key}`: {complaint}", file=file, key=key) from exc
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        raise ScriptError(f"script `{file}` is not JSON: {exc}", file=file) from exc


_decoder = msgspec.json.Decoder(Script)
_PLACE: Final = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<where>[^`]*)`)?$", re.DOTALL)
_FIELD: Final = re.compile(r"field `(?P<name>[^`]*)`$")


def _complaint(error: str) -> tuple[str, str]:
    """Return the key that a validation error is about, and what is wrong with it."""
    found = _PLACE.match(error)
    what, where = (found["what"], found["where"] or "") if found else (error, "")
    if field := _FIELD.search(what):
        where = f"{where}.{field['name']}".lstrip(".")
    return where or "$", what[:1].lower() + what[1:]
