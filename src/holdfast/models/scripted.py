"""Scripted model: deterministic, free, without a network. Reference: `docs/guides/scripted-model.md`.

The `position` of a request selects the turn to play, so a repeated call gives the same output.
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

DEFAULT_CONTEXT_WINDOW_TOKENS: Final = 128_000

_Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_TOKENS_PER_CALL)]
_Name = Annotated[str, msgspec.Meta(min_length=1)]
_Stamp: TypeAlias = tuple[int, int, int]


class ScriptedCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool call of the model."""

    name: _Name
    arguments: dict[str, Json] = {}


class ScriptedUsage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The token usage that a turn reports."""

    input_tokens: _Count = 0
    output_tokens: _Count = 0
    cost_usd: Annotated[float, msgspec.Meta(ge=0, le=1_000_000)] = 0.0
    """What the call is said to have cost, so that budgets and reports can be tried."""


class ScriptedError(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The error that a turn raises."""

    code: _Name
    message: str = ""


class ScriptTurn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One response of the model: reasoning, text, tool calls; then it fails, stalls or finishes."""

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
    """All responses of a scripted model."""

    turns: Annotated[list[ScriptTurn], msgspec.Meta(min_length=1)]
    after_last: Literal["repeat", "fail"] = "fail"
    context_window: Annotated[int, msgspec.Meta(ge=1)] = DEFAULT_CONTEXT_WINDOW_TOKENS


class ScriptFile:
    """A script file: parsed again only when the file has changed."""

    def __init__(self, path: Path, *, name: str | None = None) -> None:
        """Read the script at `path`; errors show `name`, so that clients do not learn the path."""
        self.name: Final = name or str(path)
        self._path: Final = str(path)
        self._stamp: _Stamp | None = None
        self._script: Script | None = None

    def read(self) -> Script:
        """Return the current script; raise `ScriptError` with the file and key if it is not readable or not valid."""
        try:
            status = stat(self._path)
            if not S_ISREG(status.st_mode):  # opening a pipe would wait for a writer
                raise ScriptError(f"script `{self.name}` cannot be read: it is not a file", file=self.name)
            stamp = status.st_mtime_ns, status.st_size, status.st_ino
            if self._script is None or stamp != self._stamp:
                self._script = parse_script(Path(self._path).read_bytes(), file=self.name)
                self._stamp = stamp
        except (OSError, ValueError) as exc:  # a `ValueError` means a NUL in the path
            reason = getattr(exc, "strerror", None) or exc
            raise ScriptError(f"script `{self.name}` cannot be read: {reason}", file=self.name) from exc
        return self._script


def parse_script(text: bytes | str, *, file: str) -> Script:
    """Parse a script; errors name `file`."""
    try:
        return _decoder.decode(text)
    except msgspec.ValidationError as exc:
        key, problem = _explain(str(exc))
        raise ScriptError(f"script `{file}`, `{key}`: {problem}", file=file, key=key) from exc
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        raise ScriptError(f"script `{file}` is not JSON: {exc}", file=file) from exc


_decoder = msgspec.json.Decoder(Script)
_ERROR_PATTERN: Final = re.compile(r"^(?P<problem>.*?)(?: - at `\$\.?(?P<key>[^`]*)`)?$", re.DOTALL)
_FIELD_PATTERN: Final = re.compile(r"field `(?P<name>[^`]*)`$")


def _explain(error: str) -> tuple[str, str]:
    """Return the key and the problem of a validation error."""
    match = _ERROR_PATTERN.match(error)
    problem, key = (match["problem"], match["key"] or "") if match else (error, "")
    if field := _FIELD_PATTERN.search(problem):
        key = f"{key}.{field['name']}".lstrip(".")
    return key or "$", problem[:1].lower() + problem[1:]


PLACEHOLDERS: Final[Mapping[str, Role]] = {"{$last_user}": Role.USER, "{$last_tool}": Role.TOOL}
"""Placeholders in a script for the text of the last message of a role."""

_PLACEHOLDER: Final = re.compile("|".join(map(re.escape, PLACEHOLDERS)))


class PreparedTurn:
    """A turn with its deltas, calls and end, ready to be streamed."""

    def __init__(self, turn: ScriptTurn) -> None:
        self.turn: Final = turn
        self.deltas: Final[list[ReasoningDelta | TextDelta]] = [
            *([ReasoningDelta(turn.think)] if turn.think else ()),
            *(TextDelta(piece) for piece in split_text(turn.say, turn.chunks)),
        ]
        self.calls: Final = [(call.name, msgspec.json.encode(call.arguments).decode()) for call in turn.call]
        self.finished: Final = ModelFinished(
            usage=Usage(
                input_tokens=turn.usage.input_tokens,
                output_tokens=turn.usage.output_tokens,
                cost_usd=turn.usage.cost_usd,
            ),
            reason="tool_calls" if turn.call else "stop",
        )
        self.placeholders: Final = frozenset(
            name for text in (turn.say, *(text for _, text in self.calls)) for name in _PLACEHOLDER.findall(text)
        )

    def missing_placeholders(self, messages: Sequence[Message | NewMessage]) -> list[str]:
        """Return the placeholders without a message yet."""
        return [name for name in sorted(self.placeholders) if last_text(messages, PLACEHOLDERS[name]) is None]

    def fill(self, messages: Sequence[Message | NewMessage]) -> "PreparedTurn":
        """Return the turn with its placeholders replaced; placeholders in the replacements stay as they are."""
        texts = {name: last_text(messages, PLACEHOLDERS[name]) or "" for name in self.placeholders}

        def fill(text: str) -> str:
            return _PLACEHOLDER.sub(lambda name: texts[name[0]], text)

        calls = [ScriptedCall(name=call.name, arguments=_fill_json(call.arguments, fill)) for call in self.turn.call]
        return PreparedTurn(msgspec.structs.replace(self.turn, say=fill(self.turn.say), call=calls))


def split_text(text: str, count: int) -> list[str]:
    """Split `text` into `count` nearly equal pieces, or fewer where one would be empty."""
    count = min(count, len(text))
    return [text[index * len(text) // count : (index + 1) * len(text) // count] for index in range(count)]


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
    """`Model` that plays a script file."""

    price_known: Final = True  # it costs nothing
    address: Final = None
    idle_timeout_seconds: Final = DEFAULT_PROVIDER_TIMEOUT_SECONDS

    def __init__(self, name: str, path: Path) -> None:
        self.name: Final = name
        self._file = ScriptFile(path, name=name.partition(":")[2])
        self._script = self._file.read()
        self._turns = [PreparedTurn(turn) for turn in self._script.turns]

    @property
    def context_window(self) -> int:
        """The context window set in the script, or the default."""
        return self._current().context_window

    def cost(self, *, input_tokens: int, output_tokens: int) -> float | None:
        """Return zero: a script is free."""
        return 0.0

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelDelta]]:
        """Play the turn at the position of the request."""
        return aclosing(_summary(request) if request.purpose is ModelCallPurpose.SUMMARY else self._play(request))

    async def _play(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        prepared = self._turn(request)
        delay = prepared.turn.delay_ms / 1000
        for delta in prepared.deltas:
            if delay and type(delta) is TextDelta:
                await asyncio.sleep(delay)
            yield delta
        for index, (name, arguments) in enumerate(prepared.calls):
            id = ToolCallId(derived_id("call", key=f"{request.run_id}.{request.position}", index=index))
            yield ToolCallStarted(id, name)
            yield ToolArgumentsDelta(id, arguments)
        if prepared.turn.stall:
            await asyncio.get_running_loop().create_future()
        if prepared.turn.error is not None:
            raise _scripted_error(prepared.turn.error)
        yield prepared.finished

    def _turn(self, request: ModelRequest) -> PreparedTurn:
        """Return the turn of a request with its placeholders filled, or raise `ScriptError`."""
        script = self._current()
        if request.position < len(self._turns):
            turn = self._turns[request.position]
        elif script.after_last == "repeat":
            turn = self._turns[-1]
        else:
            raise self._error(request, 'the script has no such turn: add one, or set `after_last` to "repeat"')
        tools = {tool.name for tool in request.tools} if turn.calls else ()
        for name, _ in turn.calls:
            if name not in tools:
                names = ", ".join(f"`{tool}`" for tool in sorted(tools)) or "none"
                raise self._error(request, f"it calls `{name}`, and the tools of this call are: {names}")
        if not turn.placeholders:
            return turn
        if missing := turn.missing_placeholders(request.messages):
            raise self._error(request, f"it refers to `{missing[0]}`, and there is no such message yet")
        return turn.fill(request.messages)

    def _current(self) -> Script:
        script = self._file.read()
        if script is not self._script:
            self._script, self._turns = script, [PreparedTurn(turn) for turn in script.turns]
        return script

    def _error(self, request: ModelRequest, reason: str) -> ScriptError:
        return ScriptError(
            f"script `{self._file.name}`, run `{request.run_id}`, turn {request.position}: {reason}",
            script=self._file.name,
            run_id=request.run_id,
            turn=request.position,
        )


async def _summary(request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
    # A token is seldom less than a character, so so many characters fit in as many tokens.
    max_chars = min(MAX_SUMMARY_CHARS, request.settings.max_output_tokens or MAX_SUMMARY_CHARS)
    yield TextDelta(summarise(request.messages, max_chars=max_chars))
    yield ModelFinished(usage=ZERO_USAGE)


def _scripted_error(error: ScriptedError) -> HoldfastError:
    message = error.message or f"scripted error {error.code}"
    if error.code in RETRYABLE_CODES:
        return ModelUnavailable(message, code=error.code)
    if error.code == ContextOverflow.code:
        return ContextOverflow(message, code=error.code)
    return ModelRefused(message, code=error.code)
