"""The state of a run besides its messages and events: values, steps, budgets and context snapshots.

Budgets: a run with a budget of its own has a row. The usage of that run and its descendants is added to the row when a
step settles, and checked when a model call starts. A run spends from its own budget and those of all its ancestors.
Concurrent calls may overshoot a budget by the calls in flight. The budget of its space is the last of the chain.
"""

from collections.abc import Iterable, Sequence

import msgspec

from holdfast.domain.commit import Lease
from holdfast.domain.content import Json
from holdfast.domain.context import ContextSnapshot, ReadContext, SentRange, restore_context, text_digests
from holdfast.domain.errors import Invalid, NotFound
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.instant import instant, maybe_instant
from holdfast.domain.limits import Limits, Usage, check_budget, check_overshoot, usd
from holdfast.domain.message import Message
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page, check_page_size
from holdfast.domain.run import RunStatus, WaitsFor
from holdfast.domain.step import Lane, RecordedStep, Step, StepAttempt, StepKind, StepState
from holdfast.domain.untrusted import TAINT_VALUE, read_taint
from holdfast.store.commit_rows import PreparedCommit, usage_values
from holdfast.store.encoding import load_json, load_limits
from holdfast.store.messages import AFTER_LAST_SEQUENCE, chain_messages_before, last_chain_messages
from holdfast.store.run_rows import base_run, run_key_of, run_row
from holdfast.store.space_budgets import check_budget_of_space
from holdfast.store.transaction import Row, SqlPort, Transaction, reads


class SqlValues(SqlPort):
    """Implements `Values`."""

    @reads
    async def of_run(self, tx: Transaction, space: SpaceId, run: RunId) -> dict[str, Json]:
        """Return the values of a run."""
        return await values_of_run(tx, await run_row(tx, space, run))


async def values_of_run(tx: Transaction, run: Row) -> dict[str, Json]:
    """Return the values of a run, given as a row of the run view."""
    values = await current_values(tx, run["run_key"])
    # A run that has not started has not inherited its base's values yet, because they may still change.
    ancestor: Row | None = run
    while ancestor is not None and ancestor["queued_at"] is None and ancestor["base_key"] is not None:
        through = AFTER_LAST_SEQUENCE if ancestor["base_sequence"] is None else ancestor["base_sequence"]
        ancestor = await base_run(tx, ancestor["base_key"])
        if ancestor is not None:
            values = {**await current_values(tx, ancestor["run_key"], through=through), **values}
    return values


async def current_values(tx: Transaction, run_key: int, *, through: int = AFTER_LAST_SEQUENCE) -> dict[str, Json]:
    """Return the values of a run that has started, as of the sequence `through`."""
    return {row["name"]: load_json(row["value"]) for row in await tx.all("values_at", run_key=run_key, cut=through)}


async def current_taint(tx: Transaction, run_key: int) -> list[str]:
    """Return the untrusted sources that a run, which has started, has read."""
    row = await tx.one("value_at_end", run_key=run_key, name=TAINT_VALUE)
    return [] if row is None else read_taint({TAINT_VALUE: load_json(row["value"])}).names()


async def inherit_values(tx: Transaction, run_key: int, *, base_key: int, base_sequence: int | None) -> None:
    """Copy to a run the values that its base had at the sequence it continues from."""
    through = AFTER_LAST_SEQUENCE if base_sequence is None else base_sequence
    await tx.many("inherit_values", [(run_key, base_key, through)])


_usage_decoder = msgspec.json.Decoder(Usage)


class SqlSteps(SqlPort):
    """Implements `Steps`."""

    @reads
    async def of_run(self, tx: Transaction, space: SpaceId, run: RunId) -> list[Step]:
        """Return the steps of a run by number."""
        return await steps_of_run(tx, await run_key_of(tx, space, run))

    @reads
    async def page(
        self,
        tx: Transaction,
        space: SpaceId,
        run: RunId,
        *,
        tree: bool = False,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[RecordedStep]:
        """Return steps of a run or of its tree."""
        check_page_size(limit)
        key = await run_key_of(tx, space, run)
        last, number = (run, -1) if cursor is None else _parse_step_cursor(cursor, run if not tree else None)
        runs = {row["run_key"]: row["id"] for row in await tx.all("run_tree", run_key=key)} if tree else {key: run}
        first = next((run_key for run_key, id in runs.items() if id == last), None)
        if first is None:
            raise Invalid("the cursor is not valid: leave it out to begin at the start", field="cursor")
        rows: list[Row] = []
        for run_key in (each for each in sorted(runs) if each >= first):
            after = number if run_key == first else -1
            rows += await tx.all("steps_after", run_key=run_key, number=after, limit=limit + 1 - len(rows))
            if len(rows) > limit:
                break
        page, next_cursor = rows[:limit], None
        if len(rows) > limit:
            next_cursor = f"{runs[page[-1]['run_key']]}.{page[-1]['number']}" if tree else str(page[-1]["number"])
        children = await spawned_runs(tx, space, [row["key"] for row in page if row["kind"] == StepKind.TOOL])
        return Page(
            items=[_to_recorded_step(row, runs[row["run_key"]], children.get(row["key"])) for row in page],
            next_cursor=next_cursor,
        )


def _parse_step_cursor(cursor: str, run: RunId | None) -> tuple[RunId, int]:
    """Return the run and the number of a cursor: of a tree both, of one run only the number."""
    name, _, number = cursor.rpartition(".")
    if (run is None) != bool(name) or not (number.isascii() and number.isdecimal() and len(number) <= 15):
        raise Invalid("the cursor is not valid: leave it out to begin at the start", field="cursor")
    return RunId(name) if run is None else run, int(number)


async def spawned_runs(tx: Transaction, space: SpaceId, keys: Iterable[str]) -> dict[str, RunId]:
    """Return the runs that tool calls spawned, by the key of the step."""
    ids = {RunId(derived_id("run", key=key)): key for key in keys}
    rows = await tx.many("existing_runs", [(space, id) for id in ids])
    return {ids[row["id"]]: row["id"] for row in rows}


async def steps_of_run(tx: Transaction, run_key: int) -> list[Step]:
    """Return the steps of a run by number."""
    return [_to_step(row) for row in await tx.all("steps_of_run", run_key=run_key)]


def _to_step(row: Row) -> Step:
    token_at = row["first_token_at"]  # a short call is committed once, so that it may be before the start
    return Step(
        number=row["number"],
        kind=StepKind(row["kind"]),
        name=row["name"],
        key=row["key"],
        state=StepState(row["state"]),
        attempt=row["attempt"],
        tool_call_id=row["tool_call_id"],
        effectful=bool(row["effectful"]),
        request_digest=row["request_digest"],
        waits_for=None if row["waits_for"] is None else WaitsFor(row["waits_for"]),
        usage=None if row["usage"] is None else _usage_decoder.decode(row["usage"]),
        started_at=instant(row["started_at"]),
        settled_at=maybe_instant(row["settled_at"]),
        lane=None if row["lane"] is None else Lane(row["lane"]),
        first_token_at=None if token_at is None else instant(max(token_at, row["started_at"])),
    )


def _to_recorded_step(row: Row, run: RunId, child: RunId | None) -> RecordedStep:
    earlier = [] if row["earlier_attempts"] is None else load_json(row["earlier_attempts"])
    current = {
        "attempt": row["attempt"],
        "worker": row["worker"],
        "started_at": row["attempt_started_at"] or row["started_at"],
    }
    attempts = [
        StepAttempt(attempt=each["attempt"], worker=each["worker"], started_at=maybe_instant(each["started_at"]))
        for each in (*earlier, current)
    ]
    fields = {name: getattr(step, name) for step in (_to_step(row),) for name in Step.__struct_fields__}
    return RecordedStep(**fields, run_id=run, child_run_id=child, worker=row["worker"], attempts=attempts)


def has_budget(limits: Limits) -> bool:
    """Return whether a run with these limits has a budget of its own."""
    return limits.token_budget is not None or limits.cost_budget_usd is not None


async def budget_keys_of_run(tx: Transaction, run_key: int) -> tuple[int, ...]:
    """Return the keys of the budgets that a run spends from, nearest first."""
    return tuple(row["run_key"] for row in await tx.all("budget_path", run_key=run_key))


async def check_budgets(tx: Transaction, commits: Iterable[PreparedCommit]) -> None:
    """Raise if a commit starts a model call and a budget is used up, or completes a run beyond its strict budget."""
    for commit in commits:
        for key in commit.lease.budget_keys if commit.starts_model_call else ():
            if key < 0:
                await check_budget_of_space(tx, -key)
            else:
                check_budget(*await _limits_and_spending(tx, key))
        completes = commit.move is not None and commit.move.to is RunStatus.COMPLETED
        if completes and commit.lease.run.limits.strict_token_budget and commit.lease.budget_keys:
            check_overshoot(*await _limits_and_spending(tx, commit.lease.budget_keys[0]))


async def add_spending(tx: Transaction, usages: Iterable[tuple[Lease, Usage | None]]) -> None:
    """Add usage to the budgets that the runs of these leases spend from."""
    spent: dict[int, tuple[int, int | None]] = {}
    for lease, usage in usages:
        if usage is None or not lease.budget_keys:
            continue
        cost = usage_values(usage)[3]
        for key in (each for each in lease.budget_keys if each > 0):
            tokens, before = spent.get(key, (0, 0))
            spent[key] = tokens + usage.total_tokens, None if before is None or cost is None else before + cost
    await tx.many("spend", [(tokens, cost, key) for key, (tokens, cost) in sorted(spent.items())])


async def spent_of_nearest_budget(tx: Transaction, commit: PreparedCommit) -> Usage | None:
    """Return the total spending of a commit's nearest budget, if the commit spent something."""
    if commit.commit.usage is None or not commit.lease.budget_keys or commit.lease.budget_keys[0] < 0:
        return None
    return (await _limits_and_spending(tx, commit.lease.budget_keys[0]))[1]


async def _limits_and_spending(tx: Transaction, run_key: int) -> tuple[Limits, Usage]:
    row = await tx.one("budget", run_key=run_key)
    assert row is not None
    cost = row["cost_nanodollars"]
    return load_limits(row["limits"]), Usage(input_tokens=row["tokens"], cost_usd=None if cost is None else usd(cost))


_MESSAGES_PER_PAGE = 500
_snapshot_decoder = msgspec.json.Decoder(ContextSnapshot)


class SqlContexts(SqlPort):
    """Implements `Contexts`."""

    @reads
    async def steps(self, tx: Transaction, space: SpaceId, run: RunId) -> list[int]:
        """Return the numbers of the steps that have a stored context."""
        row = await run_row(tx, space, run)
        return [found["step"] for found in await tx.all("contexts_of_run", run_key=row["run_key"])]

    @reads
    async def get(self, tx: Transaction, space: SpaceId, run: RunId, step: int) -> ReadContext:
        """Return what was sent to the model in a step."""
        row = await run_row(tx, space, run)
        found = await tx.one("context", run_key=row["run_key"], step=step)
        if found is None:
            raise NotFound(f"there is no context of step {step} of run `{run}`", step=step)
        snapshot = _snapshot_decoder.decode(found["snapshot"])
        texts: dict[str, str] = {}
        for digest in text_digests(snapshot):
            text = await tx.one("text", space_key=row["space_key"], digest=digest)
            if text is not None:
                texts[digest] = text["content"]
        return restore_context(snapshot, texts, await _sent_messages(tx, row, snapshot))


async def _sent_messages(tx: Transaction, run: Row, snapshot: ContextSnapshot) -> Sequence[Message]:
    """Return the messages of the chain, starting with the oldest one that was sent."""
    ranges = [sent for sent in snapshot.conversation if isinstance(sent, SentRange)]
    if not ranges:
        return []
    first = min(each.first for each in ranges)
    found = await last_chain_messages(tx, run["run_key"], limit=_MESSAGES_PER_PAGE)
    while found and found[0].sequence is not None and found[0].sequence > first:
        earlier = await chain_messages_before(
            tx, run["run_key"], run["thread_key"], before=found[0].sequence, limit=_MESSAGES_PER_PAGE
        )
        if not earlier:
            break
        found = [*earlier, *found]
    return found
