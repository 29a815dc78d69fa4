"""`Library`: agents, files and granted rules of a run."""

from typing import Final

import pytest

from holdfast.domain.artifact import NewFile
from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, NotFound
from holdfast.domain.ids import InterruptId
from holdfast.domain.interrupt import InterruptResponse
from holdfast.domain.limits import Limits
from holdfast.ports.runtime import StoredFile
from holdfast.store.store import Store
from tests.builders import claim
from tests.conformance.run_builders import WAITING_FOR_PERSON, commit, new_interrupt, running
from tests.conformance.runtime.implementations import Runtime
from tests.scenario.agents.agent_workspace import AgentWorkspace

NARROW: Final = ["bash(git push)"]
WIDE: Final = ["bash(git *)"]


async def test_the_agent_of_a_run_has_its_current_definition(
    store: Store, runtime: Runtime, workshop: AgentWorkspace
) -> None:
    lease = await running(store, "go", agent_type="bot")
    before = await runtime.library.agent(lease)
    workshop.configure(description="edited", limits={"max_iterations": 3}, unknown_outcome="ask", tools=["plan_*"])
    after = await runtime.library.agent(lease)
    assert (before.name, before.models, before.tools) == ("bot", ["scripted:script.json"], ["task_status"])
    assert (after.description, after.limits, after.tools) == ("edited", Limits(max_iterations=3), ["plan_*"])
    assert after.unknown_outcome == "ask"
    assert before.digest != after.digest


async def test_an_agent_that_does_not_exist_is_not_found(store: Store, runtime: Runtime) -> None:
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


async def test_a_granted_rule_takes_effect_at_once_and_is_stored_once(store: Store, runtime: Runtime) -> None:
    lease = await answered(store, {"decision": "deny"})
    assert (await runtime.library.agent(lease)).granted == []
    for chosen in ({}, {"rules": WIDE}, {}):
        lease = await answered(store, {"decision": "always", **chosen})
        await runtime.library.grant(lease, agent="bot", rules=chosen.get("rules", NARROW))
    assert (await runtime.library.agent(lease)).granted == [*NARROW, *WIDE]


@pytest.mark.parametrize(
    ("response", "agent", "rules"),
    [
        ({"decision": "approve"}, "bot", NARROW),
        ({"decision": "deny"}, "bot", NARROW),
        ({"decision": "always"}, "bot", WIDE),
        ({"decision": "always"}, "bot", ["bash"]),
        ({"decision": "always", "rules": ["bash"]}, "bot", ["bash"]),
        ({"decision": "always"}, "adder", NARROW),
        ("always", "bot", NARROW),
        (None, "bot", NARROW),
    ],
)
async def test_a_rule_without_a_response_is_not_granted(
    store: Store, runtime: Runtime, response: Json, agent: str, rules: list[str]
) -> None:
    lease = await answered(store, response)
    with pytest.raises(Conflict, match="ask a person first"):
        await runtime.library.grant(lease, agent=agent, rules=rules)
    assert (await runtime.library.agent(lease)).granted == []


async def test_a_response_in_another_run_grants_nothing(store: Store, runtime: Runtime) -> None:
    await answered(store, {"decision": "always"})
    with pytest.raises(Conflict, match="ask a person first"):
        await runtime.library.grant(await running(store, "go", agent_type="bot"), agent="bot", rules=NARROW)


async def test_nothing_is_granted_in_an_invalid_file(store: Store, runtime: Runtime, workshop: AgentWorkspace) -> None:
    lease = await answered(store, {"decision": "always"})
    workshop.write("permissions.json", "{")
    with pytest.raises(Conflict, match="permissions.json"):
        await runtime.library.grant(lease, agent="bot", rules=NARROW)
    assert (workshop.folder / "permissions.json").read_text() == "{"


async def answered(store: Store, response: Json) -> Lease:
    """Return a run that continues after a person responded to an approval."""
    lease = await running(store, "go", agent_type="bot")
    name = f"may-{lease.run_id}"
    told = {"tool": "bash", "asking": ["bot"], "offers": [NARROW, WIDE]}
    await commit(store, lease, interrupts=[new_interrupt(name, metadata=told)], move=WAITING_FOR_PERSON)
    await store.interrupts.respond(lease.space_id, InterruptId(name), InterruptResponse(response=response))
    return await claim(store)
