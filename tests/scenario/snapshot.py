"""All rows of one space in a normalized form: equal for equal histories on every backend."""

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

from holdfast.domain.ids import SpaceId
from tests.support.database_probe import Probe, Row

Snapshot: TypeAlias = Mapping[str, list[str]]
"""Rows by table, as JSON."""

_OF_SPACE: Final = "space_key = {space}"
_OF_RUN: Final = "run_key IN (SELECT run_key FROM runs WHERE space_key = {space})"
_OF_THREAD: Final = "thread_key IN (SELECT thread_key FROM threads WHERE space_key = {space})"
_OF_KEY: Final = "api_key IN (SELECT api_key FROM api_key_spaces WHERE space_key = {space})"
_OF_MEMORY: Final = "memory_key IN (SELECT memory_key FROM memories WHERE space_key = {space})"
_OF_SCHEDULE: Final = "schedule_key IN (SELECT schedule_key FROM schedules WHERE space_key = {space})"
_OF_RECALL_INDEX: Final = "index_key IN (SELECT index_key FROM recall_indexes WHERE space_key = {space})"
_OF_WEBHOOK: Final = "webhook_key IN (SELECT webhook_key FROM webhooks WHERE space_key = {space})"
_OF_SKILL: Final = "skill_key IN (SELECT skill_key FROM skills WHERE space_key = {space})"
_OF_OWNER: Final = "owner_key = {space}"

TABLES: Final = {
    "spaces": _OF_SPACE,
    "threads": _OF_SPACE,
    "run_ids": _OF_SPACE,
    "idempotency_keys": _OF_SPACE,
    "runs": _OF_SPACE,
    "run_heads": _OF_RUN,
    "messages": _OF_RUN,
    "events": _OF_RUN,
    "steps": _OF_RUN,
    "run_values": _OF_RUN,
    "run_uses": _OF_SPACE,
    "inbox": _OF_RUN,
    "interrupts": _OF_SPACE,
    "artifacts": _OF_SPACE,
    "blobs": _OF_SPACE,
    "files": _OF_SPACE,
    "timers": _OF_SPACE,
    "budgets": _OF_RUN,
    "waits": _OF_RUN,
    "subscriptions": _OF_RUN,
    "tool_trust": _OF_SPACE,
    "grants": _OF_SPACE,
    "keyed_requests": _OF_SPACE,
    "contexts": _OF_RUN,
    "texts": _OF_SPACE,
    "task_numbers": _OF_THREAD,
    "api_keys": _OF_KEY,
    "api_key_spaces": _OF_SPACE,
    "outbox": _OF_SPACE,
    "notifications": _OF_SPACE,
    "memories": _OF_SPACE,
    "memory_versions": _OF_MEMORY,
    "memory_sources": _OF_SPACE,
    "memory_edges": _OF_SPACE,
    "memory_spaces": _OF_SPACE,
    "entities": _OF_SPACE,
    "schedules": _OF_SPACE,
    "firings": _OF_SCHEDULE,
    "daemons": _OF_SPACE,
    "usage_ledger": _OF_SPACE,
    "space_budgets": _OF_SPACE,
    "skills": _OF_SPACE,
    "skill_versions": _OF_SKILL,
    "skill_files": _OF_SKILL,
    "skill_revisions": _OF_SPACE,
    "recall_indexes": _OF_SPACE,
    "recall_items": _OF_RECALL_INDEX,
    "recall_terms": _OF_RECALL_INDEX,
    "recall_cursors": _OF_RECALL_INDEX,
    "recall_postings": f"term_key IN (SELECT term_key FROM recall_terms WHERE {_OF_RECALL_INDEX})",
    "recall_documents": _OF_SPACE,
    "reminders": _OF_SPACE,
    "conditions": _OF_SPACE,
    "reminder_terms": _OF_SPACE,
    "webhooks": _OF_SPACE,
    "deliveries": _OF_WEBHOOK,
    "thread_usage": _OF_THREAD,
    "space_queues": _OF_SPACE,
    "folders": _OF_SPACE,
    "folder_entries": f"folder_key IN (SELECT folder_key FROM folders WHERE {_OF_SPACE})",
    "staged_blobs": _OF_RUN,
    "agent_versions": _OF_OWNER,
    "agent_files": _OF_OWNER,
    "agent_heads": _OF_OWNER,
}

_RUN_KEYS: Final = ("run_key", "base_key", "jump_key", "parent_key", "root_key", "made_for_run", "target_key")
_IGNORED_COLUMNS: Final = ("event_key",)
_MADE_ID: Final = re.compile(r"\b[a-z]{3}_[0-9a-f]{32}\b")


async def snapshot(probe: Probe, space: SpaceId) -> Snapshot:
    """Return every row of `space`; a missing space has none."""
    found = await probe.rows(f"SELECT space_key FROM spaces WHERE id = '{space}'")
    if not found:
        return {}
    where = {table: scope.format(space=found[0]["space_key"]) for table, scope in TABLES.items()}
    rows = {table: await probe.rows(f"SELECT * FROM {table} WHERE {scope}") for table, scope in where.items()}
    runs = {row["run_key"]: row["id"] for row in rows["runs"]}
    threads = {row["thread_key"]: row["id"] for row in rows["threads"]}
    return {
        table: sorted(_canonical(row, space=space, runs=runs, threads=threads) for row in found)
        for table, found in rows.items()
        if found
    }


def _canonical(row: Row, *, space: SpaceId, runs: Mapping[int, str], threads: Mapping[int, str]) -> str:
    """Return a row with names instead of keys, and without random or generated values."""
    columns = ((column, value) for column, value in dict(row).items() if column not in _IGNORED_COLUMNS)
    values = {column: _value(column, value, runs, threads) for column, value in columns}
    text = msgspec.json.encode(values).decode().replace(f'"{space}"', '"space"')
    return _MADE_ID.sub("*", text)


def _value(column: str, value: Any, runs: Mapping[int, str], threads: Mapping[int, str]) -> Any:
    if value is None or column == "idempotency_key":
        return value
    if column in _RUN_KEYS:
        return runs.get(value, "a run that is gone")
    if column == "thread_key":
        return threads.get(value, "a thread that is gone")
    if column.endswith("_key"):
        return "some key"
    return "some secret" if column == "secret_hash" else value
