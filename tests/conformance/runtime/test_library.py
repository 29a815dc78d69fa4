"""`Library`: the agents as a run may read them."""

import pytest

from holdfast.domain.artifact import NewFile
from holdfast.domain.errors import Conflict, NotFound
from holdfast.domain.limits import Limits
from holdfast.ports.library import StoredFile
from holdfast.store.store import Store
from tests.conformance.runtime.implementations import Runtime
from tests.conformance.scenes import running
from tests.scenario.agents.workshop import Workshop


async def test_the_agent_of_a_run_is_as_it_is_defined_now(store: Store, runtime: Runtime, workshop: Workshop) -> None:
    lease = await running(store, "go", agent_type="bot")
    before = await runtime.library.agent(lease)
    workshop.configure(description="edited", limits={"max_iterations": 3}, unknown_outcome="ask", tools=["plan_*"])
    after = await runtime.library.agent(lease)
    assert (before.name, before.models, before.tools) == ("bot", ["scripted:script.json"], ["task_status"])
    assert (after.description, after.limits, after.tools) == ("edited", Limits(max_iterations=3), ["plan_*"])
    assert after.unknown_outcome == "ask"
    assert before.digest != after.digest


async def test_an_agent_that_is_not_there_is_not_found(store: Store, runtime: Runtime) -> None:
    lease = await running(store, "go", agent_type="nobody")
    with pytest.raises(NotFound, match="nobody"):
        await runtime.library.agent(lease)


async def test_the_agents_that_a_run_may_spawn_are_listed_by_name(store: Store, runtime: Runtime) -> None:
    found = await runtime.library.agents(await running(store, "go", agent_type="bot"))
    assert [(agent.name, agent.description) for agent in found] == [("adder", "adds"), ("bot", "")]


async def test_a_file_of_the_space_is_read_with_its_bytes(store: Store, runtime: Runtime) -> None:
    lease = await running(store, "go", agent_type="bot")
    kept = await store.files.create(lease.space_id, NewFile(name="a.png", media_type="image/png", content=b"\x89PNG"))
    assert await runtime.library.file(lease, kept.id) == StoredFile(media_type="image/png", content=b"\x89PNG")
    await store.files.delete(lease.space_id, kept.id)
    with pytest.raises(NotFound):
        await runtime.library.file(lease, kept.id)


async def test_what_is_granted_to_an_agent_is_there_at_once_and_once(store: Store, runtime: Runtime) -> None:
    lease = await running(store, "go", agent_type="bot")
    assert (await runtime.library.agent(lease)).granted == []
    for rules in (["bash(git *)"], ["bash(git *)", "bash(ls)"]):
        await runtime.library.grant(lease, agent="bot", rules=rules)
    assert (await runtime.library.agent(lease)).granted == ["bash(git *)", "bash(ls)"]


async def test_nothing_is_granted_over_a_file_that_is_in_error(
    store: Store, runtime: Runtime, workshop: Workshop
) -> None:
    lease = await running(store, "go", agent_type="bot")
    workshop.write("permissions.json", "{")
    with pytest.raises(Conflict, match="permissions.json"):
        await runtime.library.grant(lease, agent="bot", rules=["bash(ls)"])
    assert (workshop.folder / "permissions.json").read_text() == "{"
