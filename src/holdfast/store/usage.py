"""The usage ledger in SQL: one row per day, agent, model and author, raised in the commit that settles a model call."""

from collections.abc import Iterable

import msgspec

from holdfast.domain.commit import Lease
from holdfast.domain.ids import SpaceId
from holdfast.domain.limits import ZERO_USAGE, Usage, usd
from holdfast.domain.step import Step, StepKind
from holdfast.domain.usage import DAY_MILLIS, UsageGroup, UsageTotal, day_name, day_of
from holdfast.store.commit_rows import usage_values
from holdfast.store.run_rows import first_run_key
from holdfast.store.spaces import space_key
from holdfast.store.transaction import Row, SqlPort, Transaction, reads


class SqlUsageLedger(SqlPort):
    """Implements `UsageLedger`."""

    @reads
    async def totals(
        self, tx: Transaction, space: SpaceId, *, group_by: UsageGroup, first_day: int, last_day: int
    ) -> list[UsageTotal]:
        """Return the usage of some days by group."""
        key = await space_key(tx, space)
        if group_by is UsageGroup.THREAD:
            after, before = first_day * DAY_MILLIS, (last_day + 1) * DAY_MILLIS
            first_key = await first_run_key(tx, key, after)
            rows = await tx.all("usage_of_threads", space_key=key, first_key=first_key, after=after, before=before)
            return [msgspec.structs.replace(_to_total(row, group_by), title=row["title"]) for row in rows]
        rows = await tx.all(
            "usage_totals", space_key=key, group_by=group_by.value, first_day=first_day, last_day=last_day
        )
        return [_to_total(row, group_by) for row in rows]


async def record_usage(tx: Transaction, spent: Iterable[tuple[Lease, Usage | None, Iterable[Step]]]) -> None:
    """Add the usage of commits to the ledger and to their threads; a call counts for the model that responded."""
    threads = list[tuple[int, ...]]()
    day, rows = day_of(tx.now), dict[tuple[int, int, str, str, str], list[int]]()
    for lease, usage, steps in spent:
        if usage is None or usage == ZERO_USAGE:
            continue
        calls = [step for step in steps if step.kind is StepKind.MODEL and step.usage is not None]
        model = (calls[-1].name if calls else None) or lease.run.model or ""
        name = (lease.space_key, day, lease.run.agent_type, model, lease.run.created_by or "")
        *tokens, cost = usage_values(usage)
        threads.append((lease.run_key, int(cost is None), *tokens, cost or 0))
        row = rows.setdefault(name, [0] * 6)
        for column, value in enumerate((max(len(calls), 1), 0 if cost is not None else 1, *tokens, cost or 0)):
            row[column] += value
    await tx.many("add_to_usage_ledger", [(*name, *values) for name, values in sorted(rows.items())])
    await tx.many("add_to_thread_usage", threads)


def _to_total(row: Row, group_by: UsageGroup) -> UsageTotal:
    name = day_name(int(row["name"])) if group_by is UsageGroup.DAY else row["name"]
    return UsageTotal(
        name=name,
        calls=row["calls"],
        unpriced_calls=row["unpriced_calls"],
        input_tokens=row["input_tokens"],
        output_tokens=row["output_tokens"],
        cached_input_tokens=row["cached_input_tokens"],
        cost_usd=usd(row["cost_nanodollars"]),
    )
