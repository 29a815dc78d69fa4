"""Short ways to ask a model."""

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
PATIENCE: Final = 20
"""Seconds after which a call that should have ended is a hang."""


def asking(*messages: Message | NewMessage, tools: Sequence[str] = (), **fields: Any) -> ModelRequest:
    """Return a request with these messages and tools."""
    offered = [ToolDefinition(name=name, description=f"Does {name}.", parameters={"type": "object"}) for name in tools]
    return ModelRequest(
        **{"run_id": RUN, "system": "Be brief.", "messages": messages or [user("hi")], "tools": offered, **fields}
    )


async def deltas(model: Model, request: ModelRequest | None = None) -> list[ModelDelta]:
    """Return everything that a call gives out."""
    async with asyncio.timeout(PATIENCE), model.stream(request or asking()) as stream:
        return [delta async for delta in stream]


def scripted(folder: Path, *turns: dict[str, Any], **script: Any) -> ScriptedModel:
    """Return a model that follows these turns."""
    path = folder / "script.json"
    path.write_bytes(msgspec.json.encode({"turns": turns, **script}))
    return ScriptedModel("scripted:script.json", path)


def text(said: Sequence[ModelDelta]) -> str:
    """Return what was said in all."""
    return "".join(delta.text for delta in said if isinstance(delta, TextDelta))


def thoughts(said: Sequence[ModelDelta]) -> str:
    """Return what was thought in all."""
    return "".join(delta.text for delta in said if isinstance(delta, ReasoningDelta))


def calls(said: Sequence[ModelDelta]) -> list[tuple[str, Any]]:
    """Return the tools that were called, with their arguments."""
    arguments: dict[str, str] = {}
    names: dict[str, str] = {}
    for delta in said:
        if isinstance(delta, ToolCallStarted):
            assert delta.id not in names
            names[delta.id] = delta.name
            arguments[delta.id] = ""
        elif isinstance(delta, ToolArgumentsDelta):
            arguments[delta.id] += delta.arguments
    return [(name, msgspec.json.decode(arguments[id] or "{}")) for id, name in names.items()]


def finished(said: Sequence[ModelDelta]) -> ModelFinished:
    """Return how a call ended."""
    *before, last = said
    assert not any(isinstance(delta, ModelFinished) for delta in before)
    assert isinstance(last, ModelFinished)
    return last
