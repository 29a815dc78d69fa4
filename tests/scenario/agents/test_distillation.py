"""Distillation by a model: a run of its own, checked sources, and nothing that is known already."""

import json
from typing import Any

from holdfast.domain.content import Json
from holdfast.domain.events.custom import AgentLogged
from holdfast.domain.ids import MessageId
from holdfast.domain.memory import Memory, MemoryOrigin, MemoryStatus, MemoryType, NewMemory
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.run import Mode, Run, RunStatus
from holdfast.domain.thread import NewThread
from holdfast.ports.runs import RunFilter
from tests.scenario.agents.agent_workspace import SPACE, AgentRuntime, AgentWorkspace, say

DISTIL: dict[str, Any] = {"memory": {"distil": {"model": "scripted:distil.json"}}}


def statement(text: str, *sources: str, **more: Json) -> dict[str, Json]:
    return {"text": text, "type": "semantic", "sources": list(sources), **more}


def distils(workspace: AgentWorkspace, *statements: dict[str, Json]) -> None:
    """Write the script of the distiller."""
    turns: Json = [say(json.dumps({"memories": list(statements)}))]
    workspace.write("agents/bot/distil.json", {"turns": turns, "after_last": "repeat"})


async def talk(runtime: AgentRuntime, text: str, id: str, **options: Any) -> Run:
    message = NewMessage(role=Role.USER, content=text, id=MessageId(id))
    return await runtime.run_to_end(text, messages=[message], **options)


async def distil_runs(runtime: AgentRuntime) -> list[Run]:
    """Return the distil runs once they have ended, oldest first."""
    found = (await runtime.store.runs.page(SPACE, where=RunFilter(tags=["distillation"]), limit=200)).items
    return [await runtime.wait_until_ended(run) for run in reversed(found)]


async def memories(runtime: AgentRuntime) -> list[Memory]:
    return (await runtime.store.memories.page(SPACE, limit=100)).items


async def test_what_a_person_said_is_distilled_in_a_run_of_its_own(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(say("I see."), **DISTIL)
    distils(
        any_workspace,
        statement("Ada moved to Oslo", "m1", entities=["Ada", "Oslo"], occurred="2026-03-01T00:00:00Z"),
        statement("Ada moved to Bergen", "m1"),
        statement("Ada has 3 cats", "m1"),
        statement("Ada moved", "m9"),
        statement("Ada may have moved to Oslo", "m1", confidence=0.2),
        statement("Oslo is where Ada moved", "m1", supersedes=["mem_unknown"]),
    )
    async with any_workspace.open() as runtime:
        source = await talk(runtime, "I am Ada and I moved to Oslo.", "m1")
        (run,) = await distil_runs(runtime)
        (kept,) = await memories(runtime)
        (logged,) = await runtime.custom_events(run, AgentLogged)
    assert (run.status, run.mode, run.parent_run_id, run.limits.token_budget) == (
        RunStatus.COMPLETED,
        Mode.TASK,
        None,
        50_000,
    )
    assert run.thread_id != source.thread_id
    assert (kept.text, kept.origin, kept.status) == ("Ada moved to Oslo", MemoryOrigin.DISTILLED, MemoryStatus.ACTIVE)
    assert [source.message_id for source in kept.sources] == ["m1"]
    assert (kept.occurred_from, kept.run_id) == ("2026-03-01T00:00:00.000Z", source.id)
    assert logged.message.startswith("distilled 1 memories; ") and logged.message.count("dropped") == 5


async def test_a_statement_against_a_person_is_only_proposed(workspace: AgentWorkspace) -> None:
    workspace.agent(say("I see."), **DISTIL)
    async with workspace.open() as runtime:
        stated = NewMemory(type=MemoryType.SEMANTIC, text="Ada lives in Rome")
        old = (await runtime.store.memories.put(SPACE, stated)).memory
        distils(workspace, statement("Ada lives in Oslo", "m1", supersedes=[old.id]))
        await talk(runtime, "Ada lives in Oslo and no longer in Rome", "m1")
        await distil_runs(runtime)
        new, kept = await memories(runtime)
    assert (new.text, new.status, new.supersedes) == ("Ada lives in Oslo", MemoryStatus.PROPOSED, [old.id])
    assert (kept.id, kept.status) == (old.id, MemoryStatus.ACTIVE)


async def test_every_counts_the_runs_of_a_thread(workspace: AgentWorkspace) -> None:
    workspace.agent(say("I see."), memory={"distil": {"model": "scripted:distil.json", "every": 3}})
    distils(workspace)
    async with workspace.open() as runtime:
        first = await talk(runtime, "one", "m1")
        for number in range(2, 8):
            await talk(runtime, str(number), f"m{number}", thread=first.thread_id)
        runs = await distil_runs(runtime)
    assert [str(run.input).count("run_") for run in runs] == [3, 3], [run.input for run in runs]


async def test_a_hundred_rounds_of_recall_and_distillation_repeat_nothing(workspace: AgentWorkspace) -> None:
    fact = "Ada keeps the red bicycle in the shed"
    workspace.agent(say(f"I remember: {fact}."), **DISTIL)
    async with workspace.open() as runtime:
        thread = None
        for number in range(100):
            said = f"{fact}." if number == 0 else f"Tell me about the bicycle, please ({number})"
            variants = [fact, f"{fact}!", "In the shed, Ada keeps the red bicycle", "The red bicycle is in Ada's shed"]
            distils(workspace, *(statement(text, f"m{number}") for text in variants))
            run = await talk(runtime, said, f"m{number}", thread=thread or NewThread(agent_type="bot"))
            thread = run.thread_id if number % 10 else None
            await distil_runs(runtime) if number % 10 == 0 else None
        runs = await distil_runs(runtime)
        kept = await memories(runtime)
    assert len(runs) == 100 and {run.status for run in runs} == {RunStatus.COMPLETED}
    assert [memory.text for memory in kept if memory.origin is MemoryOrigin.DISTILLED] == [fact]
