"""Spaces in SQL, with the API keys, the grants and the trusted tool definitions that belong to a space."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import UNSET

from holdfast.domain.content import Json
from holdfast.domain.errors import IdTaken, Invalid, NotFound, RunActive
from holdfast.domain.ids import ApiKeyId, GrantId, InterruptId, RunId, SpaceId, check_client_id
from holdfast.domain.instant import Instant, instant, maybe_instant, millis
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page, check_page_size
from holdfast.domain.permission import Grant
from holdfast.domain.run import RunStatus
from holdfast.domain.space import (
    MAX_SPACE_NAME_CHARS,
    ApiKey,
    NewApiKey,
    Scope,
    Space,
    SpacePatch,
    StoredApiKey,
    Ticket,
    check_new_api_key,
)
from holdfast.domain.validation import check_text
from holdfast.domain.worker import check_pools
from holdfast.store.encoding import dump_json, load_json, parse_cursor, to_page
from holdfast.store.transaction import Row, SqlPort, Transaction, find_row, reads, writes

_DELETE_STATEMENTS: Final = (
    "drop_heads_of_space",
    "drop_messages_of_space",
    "drop_events_of_space",
    "drop_steps_of_space",
    "drop_values_of_space",
    "drop_uses_of_space",
    "drop_inbox_of_space",
    "drop_interrupts_of_space",
    "drop_artifacts_of_space",
    "drop_files_of_space",
    "drop_folder_entries_of_space",
    "drop_folders_of_space",
    "drop_staged_blobs_of_space",
    "drop_blobs_of_space",
    "drop_timers_of_space",
    "drop_usage_of_space",
    "drop_thread_usage_of_space",
    "drop_budget_of_space",
    "drop_queue_of_space",
    "drop_firings_of_space",
    "drop_schedules_of_space",
    "drop_daemons_of_space",
    "drop_reminder_terms_of_space",
    "drop_conditions_of_space",
    "drop_reminders_of_space",
    "drop_deliveries_of_space",
    "drop_webhooks_of_space",
    "drop_budgets_of_space",
    "drop_contexts_of_space",
    "drop_subscriptions_of_space",
    "drop_texts_of_space",
    "drop_task_numbers_of_space",
    "drop_outbox_of_space",
    "drop_notifications_of_space",
    "drop_key_bindings_of_space",
    "drop_grants_of_space",
    "drop_runs_of_space",
    "drop_run_ids_of_space",
    "drop_idempotency_keys_of_space",
    "drop_keyed_requests_of_space",
    "drop_postings_of_space",
    "drop_terms_of_space",
    "drop_items_of_space",
    "drop_cursors_of_space",
    "drop_indexes_of_space",
    "drop_documents_of_space",
    "drop_memory_versions_of_space",
    "drop_memory_sources_of_space",
    "drop_memory_edges_of_space",
    "drop_entities_of_space",
    "drop_memories_of_space",
    "drop_skill_versions_of_space",
    "drop_skill_files_of_space",
    "drop_skill_revisions_of_space",
    "drop_skills_of_space",
    "drop_agent_heads_of_space",
    "drop_agent_versions_of_space",
    "drop_agent_files_of_space",
    "drop_memory_space",
    "drop_threads_of_space",
    "drop_space",
)
"""Rows that are found through their run are deleted before the runs."""


class SqlSpaces(SqlPort):
    """Implements `Spaces`."""

    async def create(self, space: SpaceId, *, name: str, metadata: dict[str, Json] | None = None) -> Space:
        """Create a space under a client-chosen id."""
        check_client_id(space, field="id")
        check_text(name, field="name", max_chars=MAX_SPACE_NAME_CHARS)
        data = dump_json(metadata or {})

        async def add(tx: Transaction) -> Space:
            row = await tx.one("add_space", id=space, name=name, metadata=data, now=tx.now)
            if row is None:
                raise IdTaken(f"there is a space `{space}` already: choose another id", id=space)
            return _to_space(row)

        return await self._database.write(add)

    @reads
    async def get(self, tx: Transaction, space: SpaceId) -> Space:
        """Return the space."""
        return _to_space(await find_row(tx, "space", "space", id=space))

    @reads
    async def page(self, tx: Transaction, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None) -> Page[Space]:
        """Return spaces, oldest first."""
        check_page_size(limit)
        (after,) = parse_cursor(cursor, first_page=[0])
        rows = await tx.all("list_spaces", after=after, limit=limit + 1)
        return to_page(rows, limit, value=_to_space, cursor=lambda row: str(row["space_key"]))

    @writes
    async def update(self, tx: Transaction, space: SpaceId, patch: SpacePatch) -> Space:
        """Change the fields that `patch` sets."""
        if patch.name is UNSET and patch.metadata is UNSET:
            raise Invalid("the patch changes nothing: name at least one field")
        if patch.name is not UNSET:
            check_text(patch.name, field="name", max_chars=MAX_SPACE_NAME_CHARS)
        row = await find_row(tx, "lock_space", "space", id=space)
        name = row["name"] if patch.name is UNSET else patch.name
        metadata = row["metadata"] if patch.metadata is UNSET else dump_json(patch.metadata)
        changed = await tx.one("update_space", space_key=row["space_key"], name=name, metadata=metadata)
        return _to_space(changed or row)

    @writes
    async def delete(self, tx: Transaction, space: SpaceId) -> None:
        """Delete a space with everything in it, and revoke the keys that open no other."""
        key = (await find_row(tx, "lock_space", "space", id=space))["space_key"]
        live = await tx.one("live_run_of_space", space_key=key)
        if live is not None:
            stopping = RunStatus(live["status"]).terminal
            remedy = "its worker is still stopping: try again in a moment" if stopping else "cancel it first"
            raise RunActive(f"run `{live['id']}` of the space is {live['status']}: {remedy}", run_id=live["id"])
        await tx.run("revoke_keys_of_space", space_key=key, now=tx.now)
        for statement in _DELETE_STATEMENTS:
            await tx.run(statement, space_key=key)


async def space_key(tx: Transaction, space: SpaceId) -> int:
    """Return the key of a space."""
    return int((await find_row(tx, "space", "space", id=space))["space_key"])


async def lock_space_shared(tx: Transaction, space: SpaceId) -> int:
    """Return the key of a space, locked against deletion until the transaction ends."""
    return int((await find_row(tx, "lock_space_shared", "space", id=space))["space_key"])


def _to_space(row: Row) -> Space:
    return Space(
        id=row["id"], name=row["name"], metadata=load_json(row["metadata"]), created_at=instant(row["created_at"])
    )


class SqlApiKeys(SqlPort):
    """Implements `ApiKeys`."""

    @writes
    async def create(self, tx: Transaction, spaces: list[SpaceId], new: NewApiKey) -> ApiKey:
        """Store a key bound to spaces."""
        check_new_api_key(new, spaces)
        row = await tx.one(
            "add_api_key",
            id=tx.new_id("key"),
            name=new.name,
            scope=new.scope.value,
            secret_hash=new.secret_hash,
            every_space=int(new.every_space),
            pools=dump_json(check_pools(new.pools)),
            rate_limit=new.rate_limit,
            created_by=new.created_by,
            expires_at=None if new.expires_at is None else millis(new.expires_at),
            now=tx.now,
        )
        if row is None:
            raise IdTaken("this secret is in use: generate another one")
        for space in dict.fromkeys(spaces):
            await tx.run("bind_api_key", api_key=row["api_key"], space_key=await lock_space_shared(tx, space))
        return await _to_api_key(tx, row)

    @reads
    async def find(self, tx: Transaction, key: ApiKeyId) -> StoredApiKey:
        """Return a key with the hash of its secret."""
        row = await find_row(tx, "api_key", "key", id=key)
        return StoredApiKey(await _to_api_key(tx, row), bytes(row["secret_hash"]))

    @reads
    async def any(self, tx: Transaction) -> bool:
        """Return whether any key exists."""
        return await tx.one("any_api_key") is not None

    @reads
    async def all(self, tx: Transaction) -> list[ApiKey]:
        """Return all keys."""
        return [await _to_api_key(tx, row) for row in await tx.all("api_keys")]

    @reads
    async def of_space(self, tx: Transaction, space: SpaceId) -> list[ApiKey]:
        """Return the keys bound to a space."""
        await space_key(tx, space)
        return [await _to_api_key(tx, row) for row in await tx.all("api_keys_of_space", space=space)]

    @writes
    async def revoke(self, tx: Transaction, key: ApiKeyId) -> ApiKey:
        """Revoke a key."""
        row = await find_row(tx, "api_key", "key", id=key)
        return await _to_api_key(tx, await tx.one("revoke_api_key", api_key=row["api_key"], now=tx.now) or row)


async def _to_api_key(tx: Transaction, row: Row) -> ApiKey:
    spaces = await tx.all("spaces_of_api_key", api_key=row["api_key"])
    return ApiKey(
        id=row["id"],
        name=row["name"],
        scope=Scope(row["scope"]),
        space_ids=[space["id"] for space in spaces],
        every_space=bool(row["every_space"]),
        pools=load_json(row["pools"]),
        rate_limit=row["rate_limit"],
        created_by=row["created_by"],
        created_at=instant(row["created_at"]),
        expires_at=maybe_instant(row["expires_at"]),
        revoked_at=maybe_instant(row["revoked_at"]),
    )


class SqlGrants(SqlPort):
    """Implements `Grants`."""

    @reads
    async def page(
        self, tx: Transaction, space: SpaceId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Page[Grant]:
        """Return grants, newest first."""
        check_page_size(limit)
        (before,) = parse_cursor(cursor, first_page=[2**62])
        rows = await tx.all("list_grants", space_key=await space_key(tx, space), before=before, limit=limit + 1)
        return to_page(rows, limit, value=_to_grant, cursor=lambda row: str(row["grant_key"]))

    @reads
    async def in_force(self, tx: Transaction, space: SpaceId) -> dict[str, list[str]]:
        """Return the rules in force, by agent."""
        rules: dict[str, list[str]] = {}
        for row in await tx.all("grants_in_force", space_key=await space_key(tx, space)):
            rules.setdefault(row["agent"], []).append(row["rule"])
        return rules

    @writes
    async def revoke(self, tx: Transaction, space: SpaceId, grant: GrantId, *, by: str | None = None) -> Grant:
        """Revoke a grant."""
        row = await find_row(tx, "grant", "grant", space=space, id=grant)
        revoked = await tx.one("revoke_grant", grant_key=row["grant_key"], by=by, now=tx.now)
        return _to_grant(revoked or await find_row(tx, "grant", "grant", space=space, id=grant))


async def add_grants(
    tx: Transaction,
    space_key: int,
    *,
    agents: Sequence[str],
    rules: Sequence[str],
    run: RunId,
    interrupt: InterruptId,
    by: str | None,
) -> None:
    """Grant rules to agents, in the transaction that settles the approval."""
    for agent in agents:
        for rule in rules:
            await tx.run(
                "add_grant",
                space_key=space_key,
                id=tx.new_id("grt"),
                agent=agent,
                rule=rule,
                run_id=run,
                interrupt_id=interrupt,
                created_by=by,
                now=tx.now,
            )


def _to_grant(row: Row) -> Grant:
    return Grant(
        id=row["id"],
        agent=row["agent"],
        rule=row["rule"],
        run_id=row["run_id"],
        interrupt_id=row["interrupt_id"],
        created_by=row["created_by"],
        created_at=instant(row["created_at"]),
        revoked_by=row["revoked_by"],
        revoked_at=maybe_instant(row["revoked_at"]),
    )


class SqlTickets(SqlPort):
    """Implements `Tickets`."""

    @writes
    async def create(self, tx: Transaction, secret_hash: bytes, ticket: Ticket, *, now: Instant) -> None:
        """Store a ticket, and delete expired ones."""
        await tx.run("drop_expired_tickets", now=millis(now))
        await tx.run(
            "add_ticket",
            secret_hash=secret_hash,
            path=ticket.path,
            api_key_id=ticket.api_key_id,
            principal=dump_json(ticket.principal),
            expires_at=millis(ticket.expires_at),
        )

    @reads
    async def find(self, tx: Transaction, secret_hash: bytes) -> Ticket:
        """Return a ticket."""
        row = await tx.one("ticket", secret_hash=secret_hash)
        if row is None:
            raise NotFound("there is no such ticket")
        return Ticket(
            path=row["path"],
            api_key_id=row["api_key_id"],
            principal=load_json(row["principal"]),
            expires_at=instant(row["expires_at"]),
        )


class SqlToolTrust(SqlPort):
    """Implements `ToolTrust`."""

    async def trusted(self, space: SpaceId, source: str, digests: Mapping[str, str]) -> dict[str, str]:
        """Return the trusted digest of each tool of a source."""

        async def read(tx: Transaction) -> dict[str, str]:
            await space_key(tx, space)
            rows = await tx.all("trusted_tools", space=space, source=source)
            return {row["tool"]: row["digest"] for row in rows if row["tool"] in digests}

        async def trust_new_tools(tx: Transaction) -> dict[str, str]:
            key = await lock_space_shared(tx, space)
            for tool in sorted(set(digests) - set(await read(tx))):
                digest = digests[tool]
                await tx.run("trust_new_tool", space_key=key, source=source, tool=tool, digest=digest, now=tx.now)
            return await read(tx)

        found = await self._database.read(read)
        return found if len(found) == len(digests) else await self._database.write(trust_new_tools)

    @writes
    async def trust(self, tx: Transaction, space: SpaceId, source: str, tool: str, digest: str) -> None:
        """Trust a tool's current definition."""
        key = await lock_space_shared(tx, space)
        await tx.run("trust_tool", space_key=key, source=source, tool=tool, digest=digest, now=tx.now)
