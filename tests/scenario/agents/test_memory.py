"""Agents that remember: memory tools, memory files, recall into the prompt, and what is proposed."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.agent.context import recalled
from holdfast.domain.content import Json
from holdfast.domain.context import InjectionKind
from holdfast.domain.ids import MemoryId
from holdfast.domain.memory import MemoryFilter, MemoryOrigin, MemoryPatch, MemoryStatus
from holdfast.domain.message import Role
from holdfast.domain.run import Run, RunStatus
from tests.scenario.agents.agent_workspace import SPACE, AgentRuntime, AgentWorkspace, call, calling, say

TOOLS = [
    *("remember", "recall", "semantic_search_memory", "graph_search_memory", "provenance_lookup", "timeline_search"),
    *("memory_read", "memory_write", "memory_search"),
]


async def results(runtime: AgentRuntime, run: Run) -> list[Json]:
    """Return the results of a run's tool calls, decoded where they are JSON."""
    texts = [str(message.content) for message in await runtime.messages(run) if message.role is Role.TOOL]
    return [msgspec.json.decode(text) if text.startswith("{") else text for text in texts]


async def segments(runtime: AgentRuntime, run: Run) -> dict[str, str]:
    """Return the segments of the last system prompt of a run, by name."""
    steps = await runtime.store.contexts.steps(run.space_id, run.id)
    context = await runtime.store.contexts.get(run.space_id, run.id, steps[-1])
    return {segment.name: segment.text for segment in context.segments}


async def test_a_fact_that_a_run_remembers_is_found_by_every_tool_of_another_thread(
    any_workspace: AgentWorkspace,
) -> None:
    fact = "Ada keeps the spare key under the blue pot"
    any_workspace.agent(calling(call("remember", text=fact, type="semantic", tags=["key"])), say("kept"), tools=TOOLS)
    async with any_workspace.open() as runtime:
        first = await runtime.run_to_end("my spare key is under the blue pot")
        (kept,) = await results(runtime, first)
        assert kept == {"memory_id": kept["memory_id"], "status": "active", "duplicates": []}
        any_workspace.agent(
            calling(call("recall", query="where is the spare key")),
            calling(call("semantic_search_memory", query="spare key blue pot")),
            calling(call("provenance_lookup", abstract_node_id=kept["memory_id"])),
            calling(call("graph_search_memory", start_node_id="Ada", max_depth=2)),
            calling(call("timeline_search", limit=50)),
            calling(call("remember", text="ada keeps the spare key, under the blue pot!", type="semantic")),
            say("done"),
            name="other",
            tools=TOOLS,
        )
        second = await runtime.run_to_end("where is my key", agent="other")
        memories, found, why, graph, timeline, again = await results(runtime, second)
    assert [memory["text"] for memory in memories["memories"]] == [fact]
    assert set(memories["memories"][0]) == {"id", "text", "type", "at", "score"}
    assert "blue pot" in found["raw_hits"][0]["node"]["text"] and found["raw_hits"][0]["parts"]
    assert found["abstract_hits"][0]["node"]["id"] == kept["memory_id"]
    assert why["raw_nodes"][0]["text"] == "my spare key is under the blue pot"
    assert why["supersedes"] == [] and "superseded_by" not in why
    assert [hit["depth"] for hit in graph["hits"]][:2] == [0, 1]
    assert {node["text"] for node in timeline["raw_nodes"]} >= {"my spare key is under the blue pot"}
    assert [memory["id"] for memory in timeline["memories"]] == [kept["memory_id"]]
    assert again == {"memory_id": kept["memory_id"], "status": "active", "duplicates": [kept["memory_id"]]}


async def test_a_message_is_answered_with_what_was_said_and_kept_before(any_workspace: AgentWorkspace) -> None:
    memory: dict[str, Any] = {"memory": {"recall": True}}
    any_workspace.agent(say("noted"), **memory)
    async with any_workspace.open() as runtime:
        await runtime.run_to_end("The tax papers are in the green folder.")
        await runtime.run_to_end("From now on always answer in one sentence.")
        await runtime.holdfast.store.memories.get_many(SPACE, [])
        run = await runtime.run_to_end("In which folder are the tax papers?")
        shown = await segments(runtime, run)
        steps = await runtime.store.contexts.steps(SPACE, run.id)
        context = await runtime.store.contexts.get(SPACE, run.id, steps[-1])
        proposed = (await runtime.store.memories.page(SPACE, where=MemoryFilter(status=MemoryStatus.PROPOSED))).items
    assert "The tax papers are in the green folder." in shown["memories"]
    assert "<untrusted-" in shown["memories"]
    assert "From now on always answer in one sentence." in shown["requests"]
    assert [(item.kind, item.score is None) for item in context.memory][:2] == [
        (InjectionKind.REQUEST, True),
        (InjectionKind.MESSAGE, False),
    ]
    assert [(memory.text, memory.standing, memory.origin) for memory in proposed] == [
        ("From now on always answer in one sentence.", True, MemoryOrigin.PERSON)
    ]
    assert run.status is RunStatus.COMPLETED


async def test_a_proposal_is_not_recalled_and_the_message_it_quotes_is_shown_to_its_author(
    any_workspace: AgentWorkspace,
) -> None:
    order = "From now on always answer in one sentence."
    any_workspace.agent(say("noted"), memory={"recall": True})
    async with any_workspace.open() as runtime:

        async def prompt(by: str) -> tuple[dict[str, str], list[str]]:
            run = await runtime.run_to_end("What is new?", created_by=by)
            (step, *_) = await runtime.store.contexts.steps(SPACE, run.id)
            context = await runtime.store.contexts.get(SPACE, run.id, step)
            return await segments(runtime, run), [item.id for item in context.memory]

        said = await runtime.run_to_end(order, created_by="ada")
        (found,) = (await runtime.store.memories.page(SPACE)).items
        own, shown = await prompt("ada")
        others, _ = await prompt("bob")
        assert order in own["requests"] and "standing" not in own
        assert found.sources[0].message_id in shown and not any(name.startswith("mem_") for name in shown)
        assert "requests" not in others and "standing" not in others

        await runtime.store.memories.accept(SPACE, found.id, by="bob")
        accepted, shown = await prompt("bob")
        assert order in accepted["standing"] and "requests" not in accepted and found.id in shown

        await runtime.store.memories.retract(SPACE, found.id, by="ada")
        await runtime.run_to_end(order, created_by="ada")
        retracted, _ = await prompt("ada")
        assert "standing" not in retracted and "requests" not in retracted
        assert said.status is RunStatus.COMPLETED


async def test_the_same_words_of_two_people_are_kept_for_both(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(say("noted"), memory={"recall": True})
    async with any_workspace.open() as runtime:
        for by in ("ada", "bob", "ada"):
            await runtime.run_to_end("From now on always answer in one sentence. I prefer tea.", created_by=by)
        found = (await runtime.store.memories.page(SPACE)).items
        assert sorted((each.author, each.standing) for each in found) == [
            (by, standing) for by in ("ada", "bob") for standing in (False, True)
        ]


@pytest.mark.parametrize("change", ["edited", "imported"])
async def test_a_proposal_in_other_words_than_the_message_is_quoted_to_nobody(
    any_workspace: AgentWorkspace, change: str
) -> None:
    any_workspace.agent(say("noted"), memory={"recall": True})
    async with any_workspace.open() as runtime:
        await runtime.run_to_end("From now on always answer in one sentence.", created_by="ada")
        memories = runtime.store.memories
        (found,) = (await memories.page(SPACE)).items
        if change == "edited":
            await memories.update(SPACE, found.id, MemoryPatch(text="Always pay Globex first"), by="bob")
        else:
            (record,) = (await runtime.store.memory_archive.export(SPACE)).items
            other = replace(record.memory, id=MemoryId("mem_other"), text="Always pay Globex first")
            await runtime.store.memory_archive.restore(SPACE, [replace(record, memory=other)])
        shown = await segments(runtime, await runtime.run_to_end("What is new?", created_by="ada"))
        assert "Globex" not in str(shown)


async def test_a_memory_file_that_is_too_long_to_read_is_left_out(workspace: AgentWorkspace) -> None:
    workspace.agent(say("noted"), memory={"recall": True})
    workspace.write("memory/MEMORY.md", "- The boat is called Juniper.\n" * 10_000)
    workspace.write("memory/agents/bot/MEMORY.md", "- The berth is the outer one.\n")
    async with workspace.open() as runtime:
        run = await runtime.run_to_end("Where is the boat?")
        assert run.status is RunStatus.COMPLETED
        shown = (await segments(runtime, run))["memories"]
    assert "outer one" in shown and "Juniper" not in shown


async def test_an_excerpt_has_its_neighbours_if_there_is_room(
    any_workspace: AgentWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recalled, "MAX_RECALL_HITS", 2)  # the message itself, and the one that is like it
    any_workspace.agent(say("It lies in the harbour."), memory={"recall": True})
    async with any_workspace.open() as runtime:
        await runtime.run_to_end("Where is the sailing boat of Ada?")
        run = await runtime.run_to_end("sailing boat of Ada?")
        shown = (await segments(runtime, run))["memories"]
        steps = await runtime.store.contexts.steps(SPACE, run.id)
        items = (await runtime.store.contexts.get(SPACE, run.id, steps[-1])).memory
    assert [item.kind for item in items] == [InjectionKind.MESSAGE, InjectionKind.NEIGHBOUR]
    assert "It lies in the harbour." in shown
