"""`Library`: agents, files and granted rules of a run."""

from typing import Final

import pytest
from msgspec.structs import replace

from holdfast.domain.agent_version import make_bundle
from holdfast.domain.artifact import ArtifactType, NewArtifact, NewFile
from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import ArtifactId, FileId, InterruptId, SkillId
from holdfast.domain.interrupt import InterruptResponse
from holdfast.domain.limits import Limits
from holdfast.domain.new_run import NewRun
from holdfast.domain.skill import NewSkill, SkillContent, SkillPatch, SkillSource
from holdfast.domain.thread import NewThread
from holdfast.ports.runtime import StoredFile
from holdfast.store.store import Store
from holdfast.workspace.versions import VersionedAgents
from tests.builders import claim
from tests.conformance.conftest import OTHER, SPACE
from tests.conformance.conversations import claim_run
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


async def test_a_file_is_described_without_its_bytes(store: Store, runtime: Runtime) -> None:
    lease = await running(store, "go", agent_type="bot")
    kept = await store.files.create(lease.space_id, NewFile(name="a.png", media_type="image/png", content=b"\x89PNG"))
    assert await runtime.library.file_info(lease, kept.id) == kept
    with pytest.raises(NotFound):
        await runtime.library.file_info(lease, FileId("fil_missing"))


async def test_the_newest_version_of_an_artifact_is_returned(store: Store, runtime: Runtime) -> None:
    lease = await running(store, "go", agent_type="bot")
    new = NewArtifact(id=ArtifactId("art_1"), type=ArtifactType.DOC, title="x", content="x", metadata={"a": 1})
    _, newest = [await store.artifacts.create(lease.space_id, lease.run_id, new) for _ in range(2)]
    assert await runtime.library.artifact(lease, ArtifactId("art_1")) == newest
    with pytest.raises(NotFound):
        await runtime.library.artifact(lease, ArtifactId("art_missing"))


async def test_a_grant_of_the_space_takes_effect_at_once_and_is_stored_once(store: Store, runtime: Runtime) -> None:
    lease = await answered(store, {"decision": "deny"})
    assert await runtime.library.grants(lease) == {}
    for chosen in ({}, {"rules": WIDE}, {}):
        lease = await answered(store, {"decision": "always", **chosen})
    assert await runtime.library.grants(lease) == {"bot": [*NARROW, *WIDE]}
    other = (await store.runs.create(OTHER, NewRun(thread=NewThread(agent_type="bot")))).run
    assert await runtime.library.grants(await claim_run(store, other)) == {}


async def answered(store: Store, response: Json) -> Lease:
    """Return a run that continues after a person responded to an approval."""
    lease = await running(store, "go", agent_type="bot")
    name = f"may-{lease.run_id}"
    told = {"tool": "bash", "asking": ["bot"], "offers": [NARROW, WIDE]}
    await commit(store, lease, interrupts=[new_interrupt(name, metadata=told)], move=WAITING_FOR_PERSON)
    await store.interrupts.respond(lease.space_id, InterruptId(name), InterruptResponse(response=response))
    return await claim(store)


async def test_the_skills_of_a_run_come_from_its_agent_the_workspace_its_space_and_holdfast(
    store: Store, runtime: Runtime, workshop: AgentWorkspace
) -> None:
    text = "---\ndescription: Weigh.\n---\nUse the scales."
    for folder in ("skills/scales", "agents/bot/skills/scales", "agents/adder/skills/foreign"):
        workshop.write(f"{folder}/SKILL.md", text)
    workshop.write("skills/scales/references/limits.md", "30 kg")
    content = SkillContent(name="ours", description="d", instructions="i")
    ours = await store.skills.create(SPACE, NewSkill(content=content, contents={"scripts/x.py": b"print()"}))
    await store.skills.create(OTHER, NewSkill(content=replace(content, name="theirs")))
    lease = await running(store, "go", agent_type="bot")
    listing = await runtime.library.skills(lease)
    found = [(skill.name, skill.source) for skill in listing.skills if skill.source is not SkillSource.OFFICIAL]
    assert found == [
        ("scales", SkillSource.AGENT),
        ("scales", SkillSource.WORKSPACE),
        ("ours", SkillSource.SPACE),
    ]
    assert "research-brief" in {skill.name for skill in listing.skills}
    shared = next(skill for skill in listing.skills if skill.source is SkillSource.WORKSPACE)
    assert await runtime.library.skill_file(lease, shared.id, "references/limits.md") == b"30 kg"
    assert await runtime.library.skill_file(lease, ours.id, "scripts/x.py") == b"print()"
    for skill, path in ((ours.id, "scripts/y.py"), (SkillId("skl_missing"), "scripts/x.py")):
        with pytest.raises(NotFound):
            await runtime.library.skill_file(lease, skill, path)


async def test_a_custom_skill_can_be_read_as_of_a_version(store: Store, runtime: Runtime) -> None:
    content = SkillContent(name="ours", description="d", instructions="one")
    made = await store.skills.create(SPACE, NewSkill(content=content, contents={"scripts/x.py": b"1"}))
    theirs = await store.skills.create(OTHER, NewSkill(content=content))
    lease = await running(store, "go", agent_type="bot")
    (chosen,) = [each for each in (await runtime.library.skills(lease)).skills if each.id == made.id]
    await store.skills.replace(SPACE, made.id, replace(content, instructions="two"), {"scripts/x.py": b"2"})
    await store.skills.update(SPACE, made.id, SkillPatch(enabled=False))
    first = await runtime.library.skill_version(lease, made.id, 1)
    assert (first, first.digest) == (chosen, chosen.digest)
    assert (await runtime.library.skill_version(lease, made.id, 2)).instructions == "two"
    assert await runtime.library.skill_file(lease, made.id, "scripts/x.py", 1) == b"1"
    assert await runtime.library.skill_file(lease, made.id, "scripts/x.py", 2) == b"2"
    for skill, version in ((made.id, 4), (theirs.id, 1)):
        with pytest.raises(NotFound):
            await runtime.library.skill_version(lease, skill, version)
        with pytest.raises(NotFound):
            await runtime.library.skill_file(lease, skill, "scripts/x.py", version)


async def test_the_listing_of_skills_changes_only_with_a_skill(store: Store, runtime: Runtime) -> None:
    lease = await running(store, "go", agent_type="bot")
    first = await runtime.library.skills(lease)
    assert (await runtime.library.skills(lease)).revision == first.revision
    content = SkillContent(name="ours", description="d", instructions="i")
    made = await store.skills.create(SPACE, NewSkill(content=content))
    second = await runtime.library.skills(lease)
    assert len(second.skills) == len(first.skills) + 1 and second.revision != first.revision
    await store.skills.update(SPACE, made.id, SkillPatch(enabled=False))
    assert (await runtime.library.skills(lease)).revision == first.revision


async def test_a_run_has_the_agents_of_its_own_space_and_their_versions(
    store: Store, runtime: Runtime, agents: VersionedAgents
) -> None:
    texts = {"agents/clerk/agent.json": b'{"model": "openai:gpt-5"}', "agents/clerk/AGENT.md": b"File."}
    made, theirs = [
        make_bundle("clerk", {**texts, "agents/clerk/SOUL.md": soul}, folder="agents/clerk") for soul in (b"a", b"b")
    ]
    await store.agent_versions.create(SPACE, made)
    await store.agent_versions.create(OTHER, theirs)
    lease = await running(store, "go", agent_type="clerk", agent_version=made.digest)
    found = await runtime.library.agent(lease)
    assert (found.name, found.soul, found.version, found.space_id) == ("clerk", "a", made.digest, SPACE)
    assert [(each.name, each.soul) for each in await runtime.library.agents(lease)] == [
        ("adder", None),
        ("bot", None),
        ("clerk", "a"),
    ]
    assert await runtime.library.bundle(lease) == made.bundle
    digests = [file.digest for file in made.bundle.files]
    assert await runtime.library.bundle_files(lease, digests) == dict(made.contents)
    denying = make_bundle(
        "clerk",
        {**texts, "agents/clerk/agent.json": b'{"model": "openai:gpt-5", "permissions": {"deny": ["bash"]}}'},
        folder="agents/clerk",
    )
    await store.agent_versions.replace(SPACE, denying)
    assert (await runtime.library.rules(lease, ["clerk"]))["clerk"].deny == ["bash"]
    assert (await runtime.library.agent(lease)).permissions.deny == ["bash"]
    await store.agent_versions.delete(SPACE, "clerk")
    assert (await runtime.library.agent(lease)).soul == "a"
    foreign = await running(store, "go", agent_type="clerk", agent_version=theirs.digest)
    for read in (runtime.library.agent(foreign), runtime.library.bundle(foreign)):
        with pytest.raises(NotFound):
            await read
    assert [each.name for each in await runtime.library.agents(foreign)] == ["adder", "bot"]
