"""No memory tool, file or prompt shows anything of another space."""

from itertools import product

from holdfast.domain.ids import SpaceId
from holdfast.domain.memory import MemoryEntity, MemoryType, NewMemory
from tests.scenario.agents.agent_workspace import AgentWorkspace, call, calling, say
from tests.scenario.agents.test_memory import TOOLS, results, segments

SECRET = "the vault of Globex opens with 4711"
OURS, THEIRS = SpaceId("acme"), SpaceId("globex")


async def test_nothing_of_another_space_is_read_by_any_tool_or_prompt(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(calling(call("memory_write", text=SECRET, scope="space")), say("ok"), tools=TOOLS, memory={})
    async with any_workspace.open() as runtime:
        for space in (OURS, THEIRS):
            await runtime.store.spaces.create(space, name=space)
        said = await runtime.run_to_end(SECRET, space=THEIRS)
        new = NewMemory(
            type=MemoryType.SEMANTIC, text=SECRET, standing=True, entities=[MemoryEntity(label="Globex vault")]
        )
        kept = (await runtime.store.memories.put(THEIRS, new)).memory
        (message, *_) = await runtime.messages(said)
        queries = [
            "what the vault of Globex opens",
            "vault",
            "4711",
            "Globex vault",
            kept.id,
            message.id,
            said.thread_id,
        ]
        calls = [
            *(call(name, query=text) for name, text in product(("recall", "memory_search"), queries)),
            *(call("semantic_search_memory", query=text, include_superseded=True) for text in queries),
            *(call("semantic_search_memory", query=text, thread_id=said.thread_id) for text in queries[:3]),
            *(call("graph_search_memory", start_node_id=text) for text in queries),
            *(call("provenance_lookup", abstract_node_id=name) for name in (kept.id, message.id)),
            *(call("timeline_search", limit=100, **more) for more in ({}, {"session_id": said.thread_id})),
            *(call("memory_read", scope=scope) for scope in ("space", "agent")),
            call("memory_read", scope="space", path="../../globex/memory/MEMORY.md"),
            call("remember", text="ours", type="semantic", supersedes=[kept.id]),
        ]
        any_workspace.agent(*(calling(each) for each in calls), say("done"), name="spy", tools=TOOLS, memory={})
        spy = await runtime.run_to_end("Where is the vault and what opens it?", agent="spy", space=OURS)
        found = await results(runtime, spy)
        shown = await segments(runtime, spy)
    assert spy.output == "done" and len(found) == len(calls)
    assert not [each for each in found if "opens with" in str(each)]
    assert not [text for text in shown.values() if "4711" in text]
