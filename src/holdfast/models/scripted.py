"""A scripted model: deterministic, free, and without a network. Reference: `docs/guides/scripted-model.md`.

The turn it plays is the request's `position`, so a repeated call gives the same output.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from os import stat
from pathlib import Path
from stat import S_ISREG
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import ContextOverflow, HoldfastError, ModelRefused, ModelUnavailable, ScriptError
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import ToolCallId
from holdfast.domain.limits import MAX_TOKENS_PER_CALL, ZERO_USAGE, Usage
from holdfast.domain.message import Message, NewMessage, Role
from holdfast.domain.model_provider import DEFAULT_PROVIDER_TIMEOUT_SECONDS
from holdfast.models.text import MAX_SUMMARY_CHARS, last_text, summarise
from holdfast.ports.model import (
    ModelCallPurpose,
    ModelDelta,
    ModelFinished,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallStarted,
)

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


class ScriptTurn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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

    turns: Annotated[list[ScriptTurn], msgspec.Meta(min_length=1)]
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
            self._script = parse_script(self._bytes(), file=self.name)
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


def parse_script(text: bytes | str, *, file: str) -> Script:
    """Return the script that `text` is; `file` is named in errors."""
    try:
        return _decoder.decode(text)
    except msgspec.ValidationError as exc:
        key, complaint = _explain(str(exc))
        raise ScriptError(f"script `{file}`, `{key}`: {complaint}", file=file, key=key) from exc
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        raise ScriptError(f"script `{file}` is not JSON: {exc}", file=file) from exc


_decoder = msgspec.json.Decoder(Script)
_ERROR_PATTERN: Final = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<where>[^`]*)`)?$", re.DOTALL)
_FIELD_PATTERN: Final = re.compile(r"field `(?P<name>[^`]*)`$")


def _explain(error: str) -> tuple[str, str]:
    """Return the key that a validation error is about, and what is wrong with it."""
    found = _ERROR_PATTERN.match(error)
    what, where = (found["what"], found["where"] or "") if found else (error, "")
    if field := _FIELD_PATTERN.search(what):
        where = f"{where}.{field['name']}".lstrip(".")
    return where or "$", what[:1].lower() + what[1:]


PLACEHOLDERS: Final[Mapping[str, Role]] = {"{$last_user}": Role.USER, "{$last_tool}": Role.TOOL}
"""What stands in a script for what was said last."""

_PLACEHOLDER: Final = re.compile("|".join(map(re.escape, PLACEHOLDERS)))


class PreparedTurn:
    """What a turn says, ready to be given out."""

    def __init__(self, turn: ScriptTurn) -> None:
        self.turn: Final = turn
        self.deltas: Final = _text_deltas(turn)
        self.calls: Final = [(call.name, msgspec.json.encode(call.arguments).decode()) for call in turn.call]
        self.finished: Final = ModelFinished(
            usage=Usage(input_tokens=turn.usage.input_tokens, output_tokens=turn.usage.output_tokens, cost_usd=0.0),
            reason="tool_calls" if turn.call else "stop",
        )
        self.placeholders: Final = frozenset(
            mark for text in (turn.say, *(text for _, text in self.calls)) for mark in _PLACEHOLDER.findall(text)
        )

    def missing_placeholders(self, messages: Sequence[Message | NewMessage]) -> list[str]:
        """Return the marks that have nothing to stand for yet."""
        return [mark for mark in sorted(self.placeholders) if last_text(messages, PLACEHOLDERS[mark]) is None]

    def fill(self, messages: Sequence[Message | NewMessage]) -> "PreparedTurn":
        """Return the scene with what was said in place of its marks; what was said is not looked through again."""
        said = {mark: last_text(messages, PLACEHOLDERS[mark]) or "" for mark in self.placeholders}
        return PreparedTurn(_fill_turn(self.turn, lambda text: _PLACEHOLDER.sub(lambda mark: said[mark[0]], text)))


def split_text(text: str, count: int) -> list[str]:
    """Split `text` into `count` nearly equal pieces, or fewer where one would be empty."""
    count = min(count, len(text))
    return [text[index * len(text) // count : (index + 1) * len(text) // count] for index in range(count)]


def _text_deltas(turn: ScriptTurn) -> list[ReasoningDelta | TextDelta]:
    thoughts = [ReasoningDelta(turn.think)] if turn.think else []
    return [*thoughts, *(TextDelta(piece) for piece in split_text(turn.say, turn.chunks))]


def _fill_turn(turn: ScriptTurn, fill: Callable[[str], str]) -> ScriptTurn:
    calls = [ScriptedCall(name=call.name, arguments=_fill_json(call.arguments, fill)) for call in turn.call]
    return msgspec.structs.replace(turn, say=fill(turn.say), call=calls)


def _fill_json(value: Json, fill: Callable[[str], str]) -> Json:
    if isinstance(value, str):
        return fill(value)
    if isinstance(value, dict):
        return {key: _fill_json(item, fill) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill_json(item, fill) for item in value]
    return value


RETRYABLE_CODES: Final = frozenset(
    {"RATE_LIMITED", "UNAVAILABLE", "OVERLOADED", "SERVER_ERROR", "TIMEOUT", "MODEL_UNAVAILABLE"}
)
"""Codes of scripted errors after which the same call may succeed."""


class ScriptedModel:
    """`Model` from a file."""

    price_known: Final = True  # it costs nothing
    idle_timeout_seconds: Final = DEFAULT_PROVIDER_TIMEOUT_SECONDS

    def __init__(self, name: str, path: Path) -> None:
        self.name: Final = name
        self._file = ScriptFile(path, called=name.partition(":")[2])
        self._script = self._file.read()
        self._turns = [PreparedTurn(turn) for turn in self._script.turns]

    @property
    def context_window(self) -> int:
        """What the script says, or the default."""
        return self._current().context_window

    def cost(self, *, input_tokens: int, output_tokens: int) -> float | None:
        """Return nothing: a script is free."""
        return 0.0

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelDelta]]:
        """Play the turn of the script that the request is at."""
        return aclosing(_summary(request) if request.purpose is ModelCallPurpose.SUMMARY else self._play(request))

    async def _play(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        scene = self._turn(request)
        pause = scene.turn.delay_ms / 1000
        for line in scene.deltas:
            if pause and type(line) is TextDelta:
                await asyncio.sleep(pause)
            yield line
        for index, (name, arguments) in enumerate(scene.calls):
            id = ToolCallId(derived_id("call", key=f"{request.run_id}.{request.position}", index=index))
            yield ToolCallStarted(id, name)
            yield ToolArgumentsDelta(id, arguments)
        if scene.turn.stall:
            await asyncio.get_running_loop().create_future()
        if scene.turn.error is not None:
            raise _scripted_error(scene.turn.error)
        yield scene.finished

    def _turn(self, request: ModelRequest) -> PreparedTurn:
        """Return what to play, or refuse."""
        script = self._current()
        if request.position < len(self._turns):
            scene = self._turns[request.position]
        elif script.after_last == "repeat":
            scene = self._turns[-1]
        else:
            raise self._refusal(request, 'the script ends before it: add a turn, or set `after_last` to "repeat"')
        if scene.calls:
            self._check_tools(request, scene)
        if not scene.placeholders:
            return scene
        if unsaid := scene.missing_placeholders(request.messages):
            raise self._refusal(request, f"it refers to `{unsaid[0]}`, and there is no such message yet")
        return scene.fill(request.messages)

    def _current(self) -> Script:
        script = self._file.read()
        if script is not self._script:
            self._script, self._turns = script, [PreparedTurn(turn) for turn in script.turns]
        return script

    def _check_tools(self, request: ModelRequest, scene: PreparedTurn) -> None:
        offered = {tool.name for tool in request.tools}
        for name, _ in scene.calls:
            if name not in offered:
                names = ", ".join(f"`{offer}`" for offer in sorted(offered)) or "none"
                raise self._refusal(request, f"it calls `{name}`, and the tools of this call are: {names}")

    def _refusal(self, request: ModelRequest, reason: str) -> ScriptError:
        return ScriptError(
            f"script `{self._file.name}`, run `{request.run_id}`, turn {request.position}: {reason}",
            script=self._file.name,
            run_id=request.run_id,
            turn=request.position,
        )


async def _summary(request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
    # A token is seldom less than a character, so a bound in tokens holds when it is counted in characters.
    most = min(MAX_SUMMARY_CHARS, request.settings.max_output_tokens or MAX_SUMMARY_CHARS)
    yield TextDelta(summarise(request.messages, max_chars=most))
    yield ModelFinished(usage=ZERO_USAGE)


def _scripted_error(error: ScriptedError) -> HoldfastError:
    message = error.message or f"the script says {error.code}"
    if error.code in RETRYABLE_CODES:
        return ModelUnavailable(message, code=error.code)
    if error.code == ContextOverflow.code:
        return ContextOverflow(message, code=error.code)
    return ModelRefused(message, code=error.code)
