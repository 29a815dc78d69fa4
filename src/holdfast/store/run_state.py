"""The state of a run besides its messages and events: values, steps, budgets and context snapshots.

Budgets: a run with a budget of its own has a row. Usage of that run and of all runs below it is added to the row when a
step settles, and checked when a model call starts. A run spends from every budget above it, so concurrent calls may
overshoot a budget by what is in flight.
"""

from collections.abc import Iterable, Sequence

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.context import ContextSnapshot, ReadContext, SentRange, restore_context, text_digests
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.instant import instant, maybe_instant
from holdfast.domain.limits import Limits, Usage, check_budget, usd
from holdfast.domain.message import Message
from holdfast.domain.run import WaitsFor
from holdfast.domain.step import Step, StepKind, StepState
from holdfast.domain.untrusted import TAINT_VALUE, read_taint
from holdfast.store.commit_rows import PreparedCommit, usage_values
from holdfast.store.encoding import load_json, load_limits
from holdfast.store.messages import AFTER_LAST_SEQUENCE, chain_messages_before, last_chain_messages
from holdfast.store.run_rows import base_run, run_key_of, run_row
from holdfast.store.transaction import Database, Row, Transaction


class SqlValues:
    """`Values`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_run(self, space: SpaceId, run: RunId) -> dict[str, Json]:
        """Return the values of a run."""

        async def find(tx: Transaction) -> dict[str, Json]:
            return await values_of_run(tx, await run_row(tx, space, run))

        return await self._database.read(find)


async def values_of_run(tx: Transaction, run: Row) -> dict[str, Json]:
    """Return the values of a run as the view shows it."""
    own = await _values_before(tx, run["run_key"], AFTER_LAST_SEQUENCE)
    # A run that has not begun has not taken over its base's values yet, for they may still change.
    at: Row | None = run
    while at is not None and at["queued_at"] is None and at["base_key"] is not None:
        cut = AFTER_LAST_SEQUENCE if at["base_sequence"] is None else at["base_sequence"]
        at = await base_run(tx, at["base_key"])
        own = own if at is None else {**await _values_before(tx, at["run_key"], cut), **own}
    return own


async def current_values(tx: Transaction, run_key: int) -> dict[str, Json]:
    """Return the values of a run that has begun."""
    return await _values_before(tx, run_key, AFTER_LAST_SEQUENCE)


async def current_taint(tx: Transaction, run_key: int) -> list[str]:
    """Return what a run that has begun has read of others."""
    row = await tx.one("value_at_end", run_key=run_key, name=TAINT_VALUE)
    return [] if row is None else read_taint({TAINT_VALUE: load_json(row["value"])}).names()


async def inherit_values(tx: Transaction, run_key: int, *, base_key: int, base_sequence: int | None) -> None:
    """Give a run the values that its base had where it was cut."""
    cut = AFTER_LAST_SEQUENCE if base_sequence is None else base_sequence
    await tx.many("inherit_values", [(run_key, base_key, cut)])


async def _values_before(tx: Transaction, run_key: int, cut: int) -> dict[str, Json]:
    return {row["name"]: load_json(row["value"]) for row in await tx.all("values_at", run_key=run_key, cut=cut)}


_usage_decoder = msgspec.json.Decoder(Usage)


class SqlSteps:
    """`Steps`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_run(self, space: SpaceId, run: RunId) -> list[Step]:
        """Return the steps of a run by number."""

        async def find(tx: Transaction) -> list[Step]:
            return await steps_of_run(tx, await run_key_of(tx, space, run))

        return await self._database.read(find)


async def steps_of_run(tx: Transaction, run_key: int) -> list[Step]:
    """Return the steps of a run by number."""
    return [_to_step(row) for row in await tx.all("steps_of_run", run_key=run_key)]


def _to_step(row: Row) -> Step:
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
    )


def has_budget(limits: Limits) -> bool:
    """Say whether a run of these limits begins a budget."""
    return limits.token_budget is not None or limits.cost_budget_usd is not None


async def budget_keys_of_run(tx: Transaction, run_key: int) -> tuple[int, ...]:
    """Return the budgets that a run spends from, the nearest first."""
    return tuple(row["run_key"] for row in await tx.all("budget_path", run_key=run_key))


async def check_budgets(tx: Transaction, commits: Iterable[PreparedCommit]) -> None:
    """Raise if a commit starts a call that no budget is left for."""
    for commit in commits:
        if commit.starts_model_call and commit.lease.budget_keys:
            for key in commit.lease.budget_keys:
                limits, spent = await _limits_and_spending(tx, key)
                check_budget(limits, spent)


async def add_spending(tx: Transaction, commits: Iterable[PreparedCommit]) -> None:
    """Add what commits used to the budgets that they spend from."""
    spent: dict[int, tuple[int, int | None]] = {}
    for commit in commits:
        usage = commit.commit.usage
        if usage is None or not commit.lease.budget_keys:
            continue
        cost = usage_values(usage)[3]
        for key in commit.lease.budget_keys:
            tokens, before = spent.get(key, (0, 0))
            spent[key] = tokens + usage.total_tokens, None if before is None or cost is None else before + cost
    await tx.many("spend", [(tokens, cost, key) for key, (tokens, cost) in sorted(spent.items())])


async def spent_of_nearest_budget(tx: Transaction, commit: PreparedCommit) -> Usage | None:
    """Return what has been spent of the nearest budget of a commit that spent something."""
    if commit.commit.usage is None or not commit.lease.budget_keys:
        return None
    return (await _limits_and_spending(tx, commit.lease.budget_keys[0]))[1]


async def _limits_and_spending(tx: Transaction, run_key: int) -> tuple[Limits, Usage]:
    row = await tx.one("budget", run_key=run_key)
    assert row is not None
    cost = row["cost_nanodollars"]
    return load_limits(row["limits"]), Usage(input_tokens=row["tokens"], cost_usd=None if cost is None else usd(cost))


_MESSAGES_PER_PAGE = 500
_snapshot_decoder = msgspec.json.Decoder(ContextSnapshot)


class SqlContexts:
    """`Contexts`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def steps(self, space: SpaceId, run: RunId) -> list[int]:
        """Return the steps whose context is kept."""

        async def find(tx: Transaction) -> list[int]:
            row = await run_row(tx, space, run)
            return [found["step"] for found in await tx.all("contexts_of_run", run_key=row["run_key"])]

        return await self._database.read(find)

    async def get(self, space: SpaceId, run: RunId, step: int) -> ReadContext:
        """Return what the model was told in a step."""

        async def find(tx: Transaction) -> ReadContext:
            row = await run_row(tx, space, run)
            found = await tx.one("context", run_key=row["run_key"], step=step)
            if found is None:
                raise NotFound(f"there is no context of step {step} of run `{run}`", step=step)
            snapshot = _snapshot_decoder.decode(found["snapshot"])
            texts = {
                name: text for name in text_digests(snapshot) if (text := await _find_text(tx, row, name)) is not None
            }
            return restore_context(snapshot, texts, await _sent_messages(tx, row, snapshot))

        return await self._database.read(find)


async def _find_text(tx: Transaction, run: Row, name: str) -> str | None:
    row = await tx.one("text", space_key=run["space_key"], digest=name)
    return None if row is None else row["content"]


async def _sent_messages(tx: Transaction, run: Row, snapshot: ContextSnapshot) -> Sequence[Message]:
    """Return the messages of the chain from the oldest that was sent on."""
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
