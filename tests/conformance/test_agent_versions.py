"""Versions of agents: immutable bundles by digest, and one of them active for new runs."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.domain.agent_version import (
    MAX_BUNDLE_BYTES,
    AgentBundle,
    LeftOutPath,
    NewAgentVersion,
    make_bundle,
)
from holdfast.domain.errors import Conflict, IdTaken, Invalid, NotFound, TooLarge, VersionChanged
from holdfast.domain.ids import SpaceId
from holdfast.store.store import Store
from tests.conformance.conftest import OTHER, SPACE


def version(text: str = "one", *, agent: str = "bot", files: Mapping[str, bytes] | None = None) -> NewAgentVersion:
    contents = {f"agents/{agent}/AGENT.md": text.encode(), f"agents/{agent}/agent.json": b"{}", **(files or {})}
    left_out = [LeftOutPath(path="tools/big", reason="too large")]
    executable = frozenset({f"agents/{agent}/agent.json"})
    return make_bundle(agent, contents, folder=f"agents/{agent}", executable=executable, left_out=left_out)


@pytest.mark.parametrize("space", [None, SPACE])
async def test_a_version_is_read_as_it_was_published(store: Store, space: SpaceId | None) -> None:
    new = version()
    head = await store.agent_versions.publish(space, new, by="ann")
    assert (head.agent, head.published, head.active, head.changed_by) == ("bot", new.digest, new.digest, "ann")
    assert await store.agent_versions.head(space, "bot") == head
    assert await store.agent_versions.heads(space) == [head]
    found = await store.agent_versions.get(space, "bot", new.digest[:8])
    assert (found.digest, found.bundle, found.published_by) == (new.digest, new.bundle, "ann")
    assert found.bundle.digest == new.digest
    digests = [file.digest for file in found.bundle.files]
    assert await store.agent_versions.contents(space, "bot", new.digest, digests) == dict(new.contents)


async def test_the_digest_names_the_agent_and_every_property_of_its_files() -> None:
    new = version()
    others = [
        version("two"),
        version(agent="cat"),
        version(files={"tools/x/tool.json": b"{}"}),
        make_bundle("bot", {}, folder=""),
        make_bundle("bot", {"a": b""}, folder=""),
        make_bundle("bot", {"a": b""}, folder="", executable=frozenset({"a"})),
    ]
    digests = [each.digest for each in (new, *others)]
    assert len(set(digests)) == len(digests)
    assert version().digest == new.digest


async def test_the_version_published_last_is_active_until_another_is_activated(store: Store) -> None:
    first, second, third = version("1"), version("2"), version("3")
    versions = store.agent_versions
    for each in (first, second):
        await versions.publish(None, each)
    head = await versions.activate(None, "bot", first.digest, by="ann")
    assert (head.published, head.active, head.changed_by) == (second.digest, first.digest, "ann")
    assert await versions.publish(None, second, by="bob") == head  # nothing was edited: a restart changes nothing
    edited = await versions.publish(None, third, by="bob")
    assert (edited.published, edited.active, edited.changed_by) == (third.digest, third.digest, "bob")
    undone = await versions.publish(None, first)
    assert (undone.published, undone.active) == (first.digest, first.digest)
    assert [each.digest for each in (await versions.page(None, "bot")).items] == [
        each.digest for each in (third, second, first)
    ]


async def test_versions_are_paged(store: Store) -> None:
    published = [version(str(number)) for number in range(5)]
    for each in published:
        await store.agent_versions.publish(None, each)
    await store.agent_versions.publish(None, version(agent="cat"))
    found, cursor = [], None
    while True:
        page = await store.agent_versions.page(None, "bot", limit=2, cursor=cursor)
        found += [each.digest for each in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == [each.digest for each in reversed(published)]
    assert [head.agent for head in await store.agent_versions.heads(None)] == ["bot", "cat"]


async def test_owners_see_only_their_own_versions(store: Store) -> None:
    mine, theirs, shared = version("mine"), version("theirs"), version("shared")
    versions = store.agent_versions
    await versions.publish(SPACE, mine)
    await versions.publish(OTHER, theirs)
    await versions.publish(None, shared)
    for space, own in ((SPACE, mine), (OTHER, theirs), (None, shared)):
        assert [each.digest for each in (await versions.page(space, "bot")).items] == [own.digest]
        for other in {mine.digest, theirs.digest, shared.digest} - {own.digest}:
            with pytest.raises(NotFound):
                await versions.get(space, "bot", other)
            with pytest.raises(NotFound):
                await versions.activate(space, "bot", other)
            with pytest.raises(NotFound):
                await versions.contents(space, "bot", other, [])
    foreign = theirs.bundle.files[0].digest
    with pytest.raises(NotFound):
        await versions.contents(SPACE, "bot", mine.digest, [foreign])
    await store.spaces.delete(OTHER)
    with pytest.raises(NotFound):
        await versions.heads(OTHER)
    assert (await versions.head(SPACE, "bot")).active == mine.digest


async def test_an_unknown_or_ambiguous_version_is_refused(store: Store) -> None:
    await store.agent_versions.publish(None, version())
    refused: list[tuple[type[Exception], Any]] = [
        (NotFound, store.agent_versions.head(None, "cat")),
        (NotFound, store.agent_versions.get(None, "cat", version().digest)),
        (NotFound, store.agent_versions.get(None, "bot", "0" * 64)),
        (Invalid, store.agent_versions.get(None, "bot", "0" * 7)),
        (Invalid, store.agent_versions.get(None, "bot", "0" * 65)),
        (Invalid, store.agent_versions.get(None, "bot", "%" * 8)),
        (Invalid, store.agent_versions.activate(None, "bot", "")),
        (Invalid, store.agent_versions.page(None, "bot", limit=0)),
        (Invalid, store.agent_versions.page(None, "bot", cursor="x")),
    ]
    for error, call in refused:
        with pytest.raises(error):
            await call


async def test_two_versions_with_one_prefix_are_told_apart(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    digests = iter(["ab" * 32, "ab" * 31 + "cd"])
    for text in ("one", "two"):
        digest = next(digests)
        monkeypatch.setattr(AgentBundle, "digest", digest)
        await store.agent_versions.publish(None, replace(version(text), digest=digest))
    with pytest.raises(Conflict, match="several"):
        await store.agent_versions.get(None, "bot", "ab" * 20)
    assert (await store.agent_versions.get(None, "bot", "ab" * 31 + "c")).digest == "ab" * 31 + "cd"


def _with_path(path: str) -> NewAgentVersion:
    return make_bundle("bot", {path: b"x"}, folder="")


def _with_file(**changes: Any) -> NewAgentVersion:
    new = version()
    first, *rest = new.bundle.files
    bundle = replace(new.bundle, files=[replace(first, **changes), *rest])
    return replace(new, bundle=bundle, digest=bundle.digest)


@pytest.mark.parametrize(
    ("error", "hostile"),
    [
        *((Invalid, lambda path=path: _with_path(path)) for path in ("/etc/x", "../x", "a//b", "a/./b", "", "a\x00b")),
        (Invalid, lambda: _with_path("x/" * 300 + "y")),
        (Invalid, lambda: replace(version(), digest="0" * 64)),
        (Invalid, lambda: replace(version(), contents={})),
        (Invalid, lambda: replace(version(), contents=dict.fromkeys(version().contents, b"other"))),
        (Invalid, lambda: _with_file(size=1)),
        (Invalid, lambda: _with_file(digest="0" * 64)),
        (Invalid, lambda: make_bundle("../bot", {}, folder="")),
        (Invalid, lambda: make_bundle("bot", {}, folder="../..")),
        (TooLarge, lambda: _with_file(size=MAX_BUNDLE_BYTES + 1)),
    ],
)
async def test_a_hostile_version_is_refused_and_changes_nothing(
    store: Store, error: type[Exception], hostile: Callable[[], NewAgentVersion]
) -> None:
    with pytest.raises(error):
        await store.agent_versions.publish(SPACE, hostile())
    assert await store.agent_versions.heads(SPACE) == []


async def test_a_file_named_twice_is_refused(store: Store) -> None:
    new = version()
    twice = replace(new.bundle, files=[*new.bundle.files, new.bundle.files[0]])
    with pytest.raises(Invalid, match="twice"):
        await store.agent_versions.publish(None, replace(new, bundle=twice, digest=twice.digest))


async def test_processes_that_publish_at_once_agree(stores: list[Store]) -> None:
    new = [version(str(number % 3)) for number in range(12)]
    await asyncio.gather(*(stores[at % len(stores)].agent_versions.publish(None, each) for at, each in enumerate(new)))
    head = await stores[0].agent_versions.head(None, "bot")
    assert head.active == head.published and head.active in {each.digest for each in new}
    assert len((await stores[0].agent_versions.page(None, "bot")).items) == 3


async def test_an_agent_of_a_space_is_created_once_and_again_after_it_was_deleted(store: Store) -> None:
    versions, first, second = store.agent_versions, version("1"), version("2")
    head = await versions.create(SPACE, first, by="ann")
    assert (head.active, head.published, head.changed_by) == (first.digest, first.digest, "ann")
    for again in (first, second):
        with pytest.raises(IdTaken):
            await versions.create(SPACE, again)
    assert [each.digest for each in (await versions.page(SPACE, "bot")).items] == [first.digest]
    assert (await versions.create(OTHER, second)).active == second.digest
    await versions.delete(SPACE, "bot", by="bob")
    for missing in (
        versions.head(SPACE, "bot"),
        versions.delete(SPACE, "bot"),
        versions.replace(SPACE, second),
        versions.activate(SPACE, "bot", first.digest),
    ):
        with pytest.raises(NotFound):
            await missing
    assert await versions.heads(SPACE) == []
    assert (await versions.get(SPACE, "bot", first.digest)).bundle == first.bundle
    digests = [file.digest for file in first.bundle.files]
    assert await versions.contents(SPACE, "bot", first.digest, digests) == dict(first.contents)
    assert [each.agent for each in await versions.heads(OTHER)] == ["bot"]
    assert (await versions.create(SPACE, first, by="cat")).changed_by == "cat"
    assert (await versions.publish(SPACE, second)).active == second.digest
    await versions.delete(SPACE, "bot")
    assert (await versions.publish(SPACE, second)).active == second.digest


async def test_an_agent_is_replaced_and_deleted_only_as_it_was_expected(store: Store) -> None:
    versions, first, second, third = store.agent_versions, version("1"), version("2"), version("3")
    await versions.create(SPACE, first)
    assert (await versions.replace(SPACE, second, expected=[first.digest], by="ann")).changed_by == "ann"
    for stale in (
        versions.replace(SPACE, third, expected=[first.digest]),
        versions.delete(SPACE, "bot", expected=[first.digest]),
    ):
        with pytest.raises(VersionChanged):
            await stale
    assert (await versions.head(SPACE, "bot")).active == second.digest
    assert [each.digest for each in (await versions.page(SPACE, "bot")).items] == [second.digest, first.digest]
    await versions.activate(SPACE, "bot", first.digest)
    head = await versions.replace(SPACE, second)  # `publish` would leave the earlier version active
    assert (head.active, head.published) == (second.digest, second.digest)
    assert await versions.replace(SPACE, second, by="bob") == head
    done = await asyncio.gather(
        *(versions.replace(SPACE, version(f"race {n}"), expected=[second.digest]) for n in range(4)),
        return_exceptions=True,
    )
    assert sorted(type(each).__name__ for each in done) == ["AgentHead", *["VersionChanged"] * 3]
    await versions.delete(SPACE, "bot", expected=[(await versions.head(SPACE, "bot")).active])
    with pytest.raises(NotFound):
        await versions.replace(SPACE, first)


async def test_a_space_has_a_limited_number_of_agents(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.store.agent_versions.MAX_SPACE_AGENTS", 2)
    for name in ("ant", "bee"):
        await store.agent_versions.create(SPACE, version(agent=name))
    with pytest.raises(Conflict, match="2 agents"):
        await store.agent_versions.create(SPACE, version(agent="cat"))
    await store.agent_versions.create(OTHER, version(agent="cat"))
    await store.agent_versions.delete(SPACE, "ant")
    await store.agent_versions.create(SPACE, version(agent="cat"))
    assert [head.agent for head in await store.agent_versions.heads(SPACE)] == ["bee", "cat"]
