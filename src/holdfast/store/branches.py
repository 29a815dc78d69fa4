"""Branches of a thread in SQL: where two chains part, and what each did from there on."""

from collections import Counter

from holdfast.domain.branch import BranchTotals, ForkPoint
from holdfast.domain.ids import RunId
from holdfast.domain.instant import instant
from holdfast.domain.limits import ZERO_USAGE, Usage
from holdfast.domain.step import Step, StepKind, StepState
from holdfast.store.messages import last_chain_messages
from holdfast.store.run_rows import base_run, to_usage
from holdfast.store.run_state import spawned_runs, steps_of_run
from holdfast.store.transaction import Row, Transaction


async def branch_point(tx: Transaction, a: Row, b: Row) -> tuple[int, ForkPoint] | None:
    """Return the depth of the last run that two chains share, and the last message they have in common.

    Two chains share a beginning, so its length is found by bisection, in a number of reads that grows with the square
    of the logarithm of their length.
    """
    depths = {row["run_key"]: await _depth(tx, row["run_key"]) for row in (a, b)}
    low, high = -1, min(depths.values())
    while low < high:
        middle = (low + high + 1) // 2
        one, other = [await tx.one("ancestor_at", run_key=row["run_key"], depth=middle) for row in (a, b)]
        if one is not None and other is not None and one["run_key"] == other["run_key"]:
            low = middle
        else:
            high = middle - 1
    if low < 0:
        return None
    shared = await tx.one("ancestor_at", run_key=a["run_key"], depth=low)
    assert shared is not None
    cuts = []
    for row in (a, b):
        following = await tx.one("ancestor_at", run_key=row["run_key"], depth=low + 1)
        if following is not None and following["base_sequence"] is not None:
            cuts.append(following["base_sequence"])
    last = await tx.one("last_sequence_of_run", run_key=shared["run_key"])
    if last is not None and last["sequence"] is not None:
        cuts.append(last["sequence"])
    elif not cuts:  # the run has no message: the branches share those of its bases
        before = await last_chain_messages(tx, shared["run_key"], limit=1)
        cuts += [each.sequence for each in before if each.sequence is not None]
    if not cuts:
        return None
    run = await tx.one("run_by_key", run_key=shared["run_key"])
    name = RunId("") if run is None else run["id"]
    return low, ForkPoint(run_id=name, sequence=min(cuts))


async def branch_totals(tx: Transaction, run: Row, other: Row) -> BranchTotals:
    """Return what a chain did after the last message that it has in common with another one."""
    found = await branch_point(tx, run, other)
    depth = -1 if found is None else found[0]
    counts: Counter[tuple[str, str, str]] = Counter()
    for row in await tx.all("branch_steps", run_key=run["run_key"], depth=depth):
        counts[row["kind"], row["name"], row["state"]] += row["steps"]
    usage = tree_usage = ZERO_USAGE
    runs = milliseconds = 0
    for row in await tx.all("branch_usage", run_key=run["run_key"], depth=depth):
        tree_usage += to_usage(row)
        if row["own"]:
            usage, runs, milliseconds = to_usage(row), row["runs"], row["milliseconds"]
    if found is not None and (steps := await _steps_of_shared_run(tx, run, depth, found[1].sequence)):
        counts.update((step.kind.value, step.name, step.state.value) for step in steps)
        own = sum((step.usage for step in steps if step.usage is not None), start=ZERO_USAGE)
        usage += own
        tree_usage += own + await _usage_of_children(tx, run, steps)
        runs += 1
    return BranchTotals(
        runs=runs,
        usage=usage,
        tree_usage=tree_usage,
        duration_seconds=milliseconds / 1000,
        model_calls=sum(count for (kind, _, _), count in counts.items() if kind == StepKind.MODEL),
        tool_calls=_by_tool(counts),
        failed_steps=sum(count for (_, _, state), count in counts.items() if state == StepState.FAILED),
        unknown_steps=sum(count for (_, _, state), count in counts.items() if state == StepState.UNKNOWN),
    )


async def _steps_of_shared_run(tx: Transaction, run: Row, depth: int, sequence: int) -> list[Step]:
    """Return the steps of the last shared run that only the chain of `run` shows: those after a common message.

    A step settles in the commit of its message, so the times of messages tell which steps came between them.
    """
    shared = await tx.one("ancestor_at", run_key=run["run_key"], depth=depth)
    following = await tx.one("ancestor_at", run_key=run["run_key"], depth=depth + 1)
    through = None if following is None else following["base_sequence"]
    since = await tx.one("message_at", thread_key=run["thread_key"], sequence=sequence)
    if shared is None or since is None or since["run_key"] != shared["run_key"]:
        return []
    last = None if through is None else await tx.one("message_at", thread_key=run["thread_key"], sequence=through)
    first_time, last_time = instant(since["created_at"]), None if last is None else instant(last["created_at"])
    return [
        step
        for step in await steps_of_run(tx, shared["run_key"])
        if (step.settled_at is None and last_time is None)
        or (step.settled_at is not None and step.settled_at > first_time)
        and (last_time is None or step.settled_at <= last_time)
    ]


def _by_tool(counts: Counter[tuple[str, str, str]]) -> dict[str, int]:
    tools: Counter[str] = Counter()
    for (kind, name, _), count in counts.items():
        if kind == StepKind.TOOL:
            tools[name] += count
    return dict(sorted(tools.items()))


async def _usage_of_children(tx: Transaction, run: Row, steps: list[Step]) -> Usage:
    keys = [step.key for step in steps if step.kind is StepKind.TOOL]
    children = (await spawned_runs(tx, run["space_id"], keys)).values()
    rows = await tx.many("tree_usage", [(run["space_id"], child) for child in children])
    return sum((to_usage(row) for row in rows), start=ZERO_USAGE)


async def _depth(tx: Transaction, run_key: int) -> int:
    row = await base_run(tx, run_key)
    assert row is not None
    return int(row["chain_depth"])
