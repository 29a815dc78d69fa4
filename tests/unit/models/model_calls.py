"""Helpers to call a model and read its deltas."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.domain.ids import RunId
from holdfast.domain.message import Message, NewMessage
from holdfast.models.scripted import ScriptedModel
from holdfast.ports.model import (
    Model,
    ModelDelta,
    ModelFinished,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolArgumentsDelta,
    ToolCallStarted,
    ToolDefinition,
)
from tests.builders import user

RUN: Final = RunId("run_1")
CALL_TIMEOUT_SECONDS: Final = 20
"""Seconds after which a call counts as hung."""


def model_request(*messages: Message | NewMessage, tools: Sequence[str] = (), **fields: Any) -> ModelRequest:
    """Return a request with these messages and tools."""
    offered = [ToolDefinition(name=name, description=f"Does {name}.", parameters={"type": "object"}) for name in tools]
    return ModelRequest(
        **{"run_id": RUN, "system": "Be brief.", "messages": messages or [user("hi")], "tools": offered, **fields}
    )


async def deltas(model: Model, request: ModelRequest | None = None) -> list[ModelDelta]:
    """Return all deltas of a call."""
    async with asyncio.timeout(CALL_TIMEOUT_SECONDS), model.stream(request or model_request()) as stream:
        return [delta async for delta in stream]


def scripted(folder: Path, *turns: dict[str, Any], **script: Any) -> ScriptedModel:
    """Return a scripted model with these turns."""
    path = folder / "script.json"
    path.write_bytes(msgspec.json.encode({"turns": turns, **script}))
    return ScriptedModel("scripted:script.json", path)


def text(output: Sequence[ModelDelta]) -> str:
    """Return the text of all deltas."""
    return "".join(delta.text for delta in output if isinstance(delta, TextDelta))


def thoughts(output: Sequence[ModelDelta]) -> str:
    """Return the reasoning of all deltas."""
    return "".join(delta.text for delta in output if isinstance(delta, ReasoningDelta))


def calls(output: Sequence[ModelDelta]) -> list[tuple[str, Any]]:
    """Return the called tools with their arguments."""
    arguments: dict[str, str] = {}
    names: dict[str, str] = {}
    for delta in output:
        if isinstance(delta, ToolCallStarted):
            assert delta.id not in names
            names[delta.id] = delta.name
            arguments[delta.id] = ""
        elif isinstance(delta, ToolArgumentsDelta):
            arguments[delta.id] += delta.arguments
    return [(name, msgspec.json.decode(arguments[id] or "{}")) for id, name in names.items()]


def finished(output: Sequence[ModelDelta]) -> ModelFinished:
    """Return the last delta, which ends the call."""
    *before, last = output
    assert not any(isinstance(delta, ModelFinished) for delta in before)
    assert isinstance(last, ModelFinished)
    return last
