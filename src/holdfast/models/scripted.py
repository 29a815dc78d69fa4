"""A model that follows a script: deterministic, free, and without a network.

The turn that it plays is the request's `position`, so a call that is made again says the same again.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path
from typing import Final

from holdfast.domain.errors import ContextOverflow, HoldfastError, ModelRefused, ModelUnavailable, ScriptError
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import ToolCallId
from holdfast.domain.limits import ZERO_USAGE
from holdfast.domain.model_provider import DEFAULT_PROVIDER_TIMEOUT_SECONDS
from holdfast.models.scene import Scene
from holdfast.models.script import Script, ScriptedError, ScriptFile
from holdfast.models.summary import MOST_CHARACTERS, summarise
from holdfast.ports.model import (
    ModelCallPurpose,
    ModelDelta,
    ModelFinished,
    ModelRequest,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallStarted,
)

PASSING: Final = frozenset(
    {"RATE_LIMITED", "UNAVAILABLE", "OVERLOADED", "SERVER_ERROR", "TIMEOUT", "MODEL_UNAVAILABLE"}
)
"""Codes of scripted errors after which the same call may succeed."""


class ScriptedModel:
    """`Model` from a file."""

    price_known: Final = True  # it costs nothing
    patience: Final = DEFAULT_PROVIDER_TIMEOUT_SECONDS

    def __init__(self, name: str, path: Path) -> None:
        self.name: Final = name
        self._file = ScriptFile(path, called=name.partition(":")[2])
        self._script = self._file.read()
        self._scenes = [Scene(turn) for turn in self._script.turns]

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
        scene = self._scene(request)
        pause = scene.turn.delay_ms / 1000
        for line in scene.lines:
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
            raise _failure(scene.turn.error)
        yield scene.finished

    def _scene(self, request: ModelRequest) -> Scene:
        """Return what to play, or refuse."""
        script = self._current()
        if request.position < len(self._scenes):
            scene = self._scenes[request.position]
        elif script.after_last == "repeat":
            scene = self._scenes[-1]
        else:
            raise self._refusal(request, 'the script ends before it: add a turn, or set `after_last` to "repeat"')
        if scene.calls:
            self._check_tools(request, scene)
        if not scene.refers:
            return scene
        if unsaid := scene.unsaid(request.messages):
            raise self._refusal(request, f"it refers to `{unsaid[0]}`, and there is no such message yet")
        return scene.filled(request.messages)

    def _current(self) -> Script:
        script = self._file.read()
        if script is not self._script:
            self._script, self._scenes = script, [Scene(turn) for turn in script.turns]
        return script

    def _check_tools(self, request: ModelRequest, scene: Scene) -> None:
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
    most = min(MOST_CHARACTERS, request.settings.max_output_tokens or MOST_CHARACTERS)
    yield TextDelta(summarise(request.messages, most=most))
    yield ModelFinished(usage=ZERO_USAGE)


def _failure(error: ScriptedError) -> HoldfastError:
    message = error.message or f"the script says {error.code}"
    if error.code in PASSING:
        return ModelUnavailable(message, code=error.code)
    if error.code == ContextOverflow.code:
        return ContextOverflow(message, code=error.code)
    return ModelRefused(message, code=error.code)
