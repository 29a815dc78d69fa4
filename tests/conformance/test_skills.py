"""Custom skills: one name per space, every change a version, and a revision that tells workers to look again."""

import asyncio
from typing import Any

import pytest

from holdfast.domain.errors import Conflict, HoldfastError, IdTaken, Invalid, NotFound, TooLarge, VersionChanged
from holdfast.domain.ids import SkillId
from holdfast.domain.skill import CustomSkill, NewSkill, SkillContent, SkillPatch, SkillText
from holdfast.domain.space import SpacePatch
from holdfast.store.store import Store
from tests.conformance.conftest import OTHER, SPACE


def content(name: str = "scales", **fields: Any) -> SkillContent:
    return SkillContent(**{"name": name, "description": "Weigh.", "instructions": "Use the scales.", **fields})


async def made(store: Store, name: str = "scales", **fields: Any) -> CustomSkill:
    return await store.skills.create(SPACE, NewSkill(content=content(name), **fields))


async def test_a_skill_is_read_as_it_was_created(store: Store) -> None:
    text = SkillText(description="量る。", instructions="はかりを使う。", triggers=["量って"])
    full = content(triggers=["weigh"], tags=["t"], translations={"ja": text}, allowed_tools=["bash(ls *)"])
    skill = await store.skills.create(SPACE, NewSkill(content=full, id=SkillId("mine"), created_by="ann"))
    assert await store.skills.get(SPACE, SkillId("mine")) == skill
    assert await store.skills.find(SPACE, "scales") == skill
    assert await store.skills.find(SPACE, "other") is None
    assert (skill.version, skill.enabled, skill.created_by, skill.updated_by) == (1, True, "ann", "ann")
    assert skill.translations == {"ja": text} and skill.allowed_tools == ["bash(ls *)"]


async def test_a_name_and_an_id_are_taken_once_per_space(store: Store) -> None:
    first, second = await made(store), await made(store, "rulers")
    await store.skills.create(OTHER, NewSkill(content=content()))
    with pytest.raises(IdTaken, match="scales"):
        await made(store)
    with pytest.raises(IdTaken):
        await made(store, "new", id=first.id)
    with pytest.raises(IdTaken, match="scales"):
        await store.skills.update(SPACE, second.id, SkillPatch(name="scales"))
    renamed = await store.skills.update(SPACE, second.id, SkillPatch(name="compasses"))
    assert (renamed.name, renamed.version) == ("compasses", 2)


async def test_every_change_is_a_version_with_its_author(store: Store) -> None:
    skill = await made(store, created_by="ann", contents={"references/a.md": b"one"})
    await store.skills.update(SPACE, skill.id, SkillPatch(instructions="Use both."), by="bob")
    await store.skills.update(SPACE, skill.id, SkillPatch(enabled=False), by="cat")
    contents = {"references/a.md": b"two", "scripts/b.py": b""}
    await store.skills.replace(SPACE, skill.id, content(description="New."), contents, by="dan")
    versions = await store.skills.versions(SPACE, skill.id)
    assert [(each.version, each.changed_by, each.enabled) for each in versions] == [
        (1, "ann", True),
        (2, "bob", True),
        (3, "cat", False),
        (4, "dan", False),
    ]
    assert [each.content.instructions for each in versions[:2]] == ["Use the scales.", "Use both."]
    assert [[file.path for file in each.files] for each in versions] == [
        *[["references/a.md"]] * 3,
        ["references/a.md", "scripts/b.py"],
    ]
    assert await store.skills.file(SPACE, skill.id, "references/a.md") == b"two"
    assert await store.skills.file(SPACE, skill.id, "scripts/b.py") == b""
    assert await store.skills.file(SPACE, skill.id, "references/a.md", version=3) == b"one"
    assert await store.skills.version(SPACE, skill.id, 3) == versions[2]
    with pytest.raises(NotFound, match="no file"):
        await store.skills.file(SPACE, skill.id, "scripts/c.py")
    with pytest.raises(NotFound):
        await store.skills.version(SPACE, skill.id, 5)
    with pytest.raises(NotFound):
        await store.skills.version(OTHER, skill.id, 1)


async def test_a_change_for_another_version_is_refused_and_changes_nothing(store: Store) -> None:
    skill = await made(store)
    await store.skills.update(SPACE, skill.id, SkillPatch(priority=3), version=1)
    stale: list[Any] = [
        store.skills.update(SPACE, skill.id, SkillPatch(priority=4), version=1),
        store.skills.replace(SPACE, skill.id, content(), {}, version=1),
        store.skills.delete(SPACE, skill.id, version=1),
    ]
    for change in stale:
        with pytest.raises(VersionChanged, match="has version 2 by now"):
            await change
    assert (await store.skills.get(SPACE, skill.id)).priority == 3
    await store.skills.delete(SPACE, skill.id, version=2)
    with pytest.raises(NotFound):
        await store.skills.get(SPACE, skill.id)
    assert (await made(store)).version == 1


async def test_racing_changes_for_one_version_succeed_once(store: Store) -> None:
    skill = await made(store)
    changes = [store.skills.update(SPACE, skill.id, SkillPatch(priority=n), version=1) for n in range(8)]
    done = await asyncio.gather(*changes, return_exceptions=True)
    assert [type(each) for each in done].count(CustomSkill) == 1
    assert {type(each) for each in done} == {CustomSkill, VersionChanged}
    assert len(await store.skills.versions(SPACE, skill.id)) == 2


async def test_racing_creations_of_one_name_succeed_once(store: Store) -> None:
    done = await asyncio.gather(*[made(store) for _ in range(8)], return_exceptions=True)
    assert sum(isinstance(each, CustomSkill) for each in done) == 1
    assert all(isinstance(each, CustomSkill | Conflict) for each in done)


async def test_only_enabled_skills_are_for_agents_and_lists_show_all(store: Store) -> None:
    for name in ("b", "a", "c"):
        await made(store, name, enabled=name != "c")
    assert [skill.name for skill in await store.skills.enabled(SPACE)] == ["a", "b"]
    first = await store.skills.page(SPACE, limit=2)
    rest = await store.skills.page(SPACE, limit=2, cursor=first.next_cursor)
    assert [skill.name for skill in (*first.items, *rest.items)] == ["c", "a", "b"]
    assert rest.next_cursor is None


async def test_every_change_raises_the_revision_of_the_space(store: Store) -> None:
    assert (await store.skills.state(SPACE)).revision == 0
    seen = []
    skill = await made(store)
    seen.append((await store.skills.state(SPACE)).revision)
    await store.skills.update(SPACE, skill.id, SkillPatch(enabled=False))
    seen.append((await store.skills.state(SPACE)).revision)
    await store.skills.replace(SPACE, skill.id, content(), {})
    seen.append((await store.skills.state(SPACE)).revision)
    await store.skills.delete(SPACE, skill.id)
    seen.append((await store.skills.state(SPACE)).revision)
    assert seen == sorted(set(seen)) and seen[0] > 0
    assert (await store.skills.state(OTHER)).revision == 0


async def test_the_language_of_a_space_is_in_its_metadata(store: Store) -> None:
    assert (await store.skills.state(SPACE)).locale is None
    await store.spaces.update(SPACE, SpacePatch(metadata={"locale": "ja"}))
    assert (await store.skills.state(SPACE)).locale == "ja"


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "a/b"},
        {"name": ""},
        {"name": "x" * 129},
        {"description": " "},
        {"description": "a\x07b"},
        {"instructions": "x" * 50_001},
        {"triggers": [f"t{n}" for n in range(5_000)]},
        {"triggers": [""]},
        {"metadata": {"x": "y" * 20_000}},
    ],
)
async def test_a_skill_that_cannot_be_used_is_refused(store: Store, wrong: dict[str, Any]) -> None:
    skill = await made(store)
    for attempt in (
        store.skills.create(
            SPACE, NewSkill(content=content("new", **wrong) if "name" not in wrong else content(**wrong))
        ),
        store.skills.update(SPACE, skill.id, SkillPatch(**wrong)),
    ):
        with pytest.raises((Invalid, TooLarge)):
            await attempt
    with pytest.raises(HoldfastError, match="changes nothing"):
        await store.skills.update(SPACE, skill.id, SkillPatch())
    assert [each.version for each in (await store.skills.page(SPACE)).items] == [1]


async def test_a_deleted_space_takes_its_skills_with_it(store: Store) -> None:
    await made(store, contents={"scripts/a": b"x"})
    await store.spaces.delete(SPACE)
    await store.spaces.create(SPACE, name="again")
    assert (await store.skills.page(SPACE)).items == []
    assert (await store.skills.state(SPACE)).revision == 0
