"""Versions of agents in SQL: each bundle once, its files by digest, and the version that new runs get."""

from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.domain.agent_version import (
    MAX_SPACE_AGENTS,
    AgentBundle,
    AgentHead,
    AgentVersion,
    NewAgentVersion,
    check_digest_prefix,
    check_new_version,
)
from holdfast.domain.errors import Conflict, IdTaken, NotFound, VersionChanged
from holdfast.domain.ids import SpaceId
from holdfast.domain.instant import instant
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page, check_page_size
from holdfast.store.encoding import dump_json, parse_cursor, to_page
from holdfast.store.spaces import lock_space_shared, space_key
from holdfast.store.transaction import Row, SqlPort, Transaction, quick_reads, reads, writes

_WORKSPACE_KEY: Final = 0
"""The owner of the agents of the workspace; keys of spaces begin at 1."""
_bundle_decoder = msgspec.json.Decoder(AgentBundle)


class SqlAgentVersions(SqlPort):
    """Implements `AgentVersions`."""

    @writes
    async def publish(
        self, tx: Transaction, space: SpaceId | None, new: NewAgentVersion, *, by: str | None = None
    ) -> AgentHead:
        """Store a version, and make it the active one unless it was published last already."""
        check_new_version(new)
        owner, agent = await _lock_owner(tx, space), new.bundle.agent
        await _add_version(tx, owner, new, by=by)
        await tx.one(
            "publish_agent_version", owner_key=owner, agent=agent, digest=new.digest, changed_by=by, now=tx.now
        )
        return _to_head(await _head_row(tx, owner, agent))

    @writes
    async def create(
        self, tx: Transaction, space: SpaceId, new: NewAgentVersion, *, by: str | None = None
    ) -> AgentHead:
        """Store a version of an agent that does not exist."""
        check_new_version(new)
        owner, agent = await lock_space_shared(tx, space), new.bundle.agent
        count = await tx.one("count_agents", owner_key=owner)
        if count is not None and count["number"] >= MAX_SPACE_AGENTS:
            raise Conflict(f"the space has {MAX_SPACE_AGENTS} agents already: delete one first", limit=MAX_SPACE_AGENTS)
        await _add_version(tx, owner, new, by=by)
        row = await tx.one("create_agent", owner_key=owner, agent=agent, digest=new.digest, changed_by=by, now=tx.now)
        if row is None:
            raise IdTaken(f"there is an agent `{agent}` already: choose another name, or change that one", id=agent)
        return _to_head(await _head_row(tx, owner, agent))

    @writes
    async def replace(
        self,
        tx: Transaction,
        space: SpaceId,
        new: NewAgentVersion,
        *,
        expected: Sequence[str] = (),
        by: str | None = None,
    ) -> AgentHead:
        """Store a version of an agent that exists, and make it the active one."""
        check_new_version(new)
        owner, agent = await lock_space_shared(tx, space), new.bundle.agent
        head = _to_head(await _head_row(tx, owner, agent))
        active = _check_active(head, expected)
        if head.active == head.published == new.digest:
            return head
        await _add_version(tx, owner, new, by=by)
        change = {"owner_key": owner, "agent": agent, "active": active, "changed_by": by, "now": tx.now}
        if await tx.one("replace_agent", digest=new.digest, **change) is None:
            raise _changed(agent)
        return _to_head(await _head_row(tx, owner, agent))

    @writes
    async def delete(
        self,
        tx: Transaction,
        space: SpaceId,
        agent: str,
        *,
        expected: Sequence[str] = (),
        by: str | None = None,
    ) -> None:
        """Mark an agent as deleted."""
        owner = await lock_space_shared(tx, space)
        active = _check_active(_to_head(await _head_row(tx, owner, agent)), expected)
        change = {"owner_key": owner, "agent": agent, "active": active, "changed_by": by, "now": tx.now}
        if await tx.one("delete_agent", **change) is None:
            raise _changed(agent)

    @writes
    async def activate(
        self, tx: Transaction, space: SpaceId | None, agent: str, digest: str, *, by: str | None = None
    ) -> AgentHead:
        """Make a published version the active one."""
        owner = await _lock_owner(tx, space)
        version = await _find_version(tx, owner, agent, digest)
        await tx.run(
            "activate_agent_version",
            owner_key=owner,
            agent=agent,
            digest=version["digest"],
            changed_by=by,
            now=tx.now,
        )
        return _to_head(await _head_row(tx, owner, agent))

    @reads
    async def heads(self, tx: Transaction, space: SpaceId | None) -> list[AgentHead]:
        """Return the heads of all agents, by name."""
        return [_to_head(row) for row in await tx.all("agent_heads", owner_key=await _owner_key(tx, space))]

    @quick_reads
    async def head(self, tx: Transaction, space: SpaceId | None, agent: str) -> AgentHead:
        """Return the head of an agent."""
        return _to_head(await _head_row(tx, await _owner_key(tx, space), agent))

    @reads
    async def get(self, tx: Transaction, space: SpaceId | None, agent: str, digest: str) -> AgentVersion:
        """Return a version, by its digest or the first characters of it."""
        return _to_version(await _find_version(tx, await _owner_key(tx, space), agent, digest))

    @reads
    async def page(
        self,
        tx: Transaction,
        space: SpaceId | None,
        agent: str,
        *,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[AgentVersion]:
        """Return the versions of an agent, the newest first."""
        check_page_size(limit)
        (before,) = parse_cursor(cursor, first_page=[2**62])
        owner = await _owner_key(tx, space)
        rows = await tx.all("list_agent_versions", owner_key=owner, agent=agent, before=before, limit=limit + 1)
        return to_page(rows, limit, value=_to_version, cursor=lambda row: str(row["version_key"]))

    @reads
    async def contents(
        self, tx: Transaction, space: SpaceId | None, agent: str, digest: str, files: Sequence[str]
    ) -> dict[str, bytes]:
        """Return files of a version."""
        owner = await _owner_key(tx, space)
        version = _to_version(await _find_version(tx, owner, agent, digest))
        known = {file.digest for file in version.bundle.files}
        found = {}
        for file in dict.fromkeys(files):
            row = await tx.one("agent_file", owner_key=owner, digest=file) if file in known else None
            if row is None:
                raise NotFound(f"version `{version.digest}` has no file `{file}`", id=file)
            found[file] = bytes(row["content"])
        return found


async def _add_version(tx: Transaction, owner: int, new: NewAgentVersion, *, by: str | None) -> None:
    """Store a version and its files, unless they are there."""
    for file in sorted({file.digest for file in new.bundle.files}):
        await tx.run("add_agent_file", owner_key=owner, digest=file, content=new.contents[file])
    await tx.run(
        "add_agent_version",
        owner_key=owner,
        agent=new.bundle.agent,
        digest=new.digest,
        bundle=dump_json(new.bundle),
        published_by=by,
        now=tx.now,
    )


def _check_active(head: AgentHead, expected: Sequence[str]) -> str | None:
    """Return the version that must still be active when an agent is changed; null for any."""
    if expected and head.active not in expected:
        raise _changed(head.agent)
    return head.active if expected else None


def _changed(agent: str) -> VersionChanged:
    return VersionChanged(f"agent `{agent}` has changed since it was read: read it again", id=agent)


async def _owner_key(tx: Transaction, space: SpaceId | None) -> int:
    return _WORKSPACE_KEY if space is None else await space_key(tx, space)


async def _lock_owner(tx: Transaction, space: SpaceId | None) -> int:
    return _WORKSPACE_KEY if space is None else await lock_space_shared(tx, space)


async def _head_row(tx: Transaction, owner: int, agent: str) -> Row:
    row = await tx.one("agent_head", owner_key=owner, agent=agent)
    if row is None:
        raise NotFound(f"agent `{agent}` has no version yet", id=agent)
    return row


async def _find_version(tx: Transaction, owner: int, agent: str, digest: str) -> Row:
    """Return the version whose digest begins with `digest`."""
    prefix = check_digest_prefix(digest)
    rows = await tx.all("find_agent_versions", owner_key=owner, agent=agent, prefix=prefix)
    if not rows:
        raise NotFound(f"agent `{agent}` has no version `{digest}`", id=digest)
    if len(rows) > 1:
        raise Conflict(f"agent `{agent}` has several versions `{digest}…`: name more of the digest")
    return rows[0]


def _to_head(row: Row) -> AgentHead:
    return AgentHead(
        agent=row["agent"],
        published=row["published"],
        active=row["active"],
        changed_by=row["changed_by"],
        changed_at=instant(row["changed_at"]),
    )


def _to_version(row: Row) -> AgentVersion:
    return AgentVersion(
        agent=row["agent"],
        digest=row["digest"],
        bundle=_bundle_decoder.decode(row["bundle"]),
        published_by=row["published_by"],
        published_at=instant(row["published_at"]),
    )
