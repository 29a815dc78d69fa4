"""Placement of a new run: on a busy branch, in its chain of bases, and in the tree of sub-agents.

By *base*, the runs of a thread form a tree of continuations; a run with all its bases is its chain. By *parent*, runs
form a tree of sub-agents, each on a thread of its own.

A chain can be thousands of runs long, so each run also keeps one *jump*: an ancestor further up, chosen so that any
ancestor is reached in a number of hops that grows with the logarithm of the length (Myers, "An applicative
random-access stack", 1983).
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from holdfast.domain.errors import Busy, Invalid, Waiting
from holdfast.domain.ids import InterruptId, RunId


class OnBusy(StrEnum):
    """Policy for a new run whose branch has an active run."""

    ENQUEUE = "enqueue"
    REJECT = "reject"
    INTERRUPT = "interrupt"
    FORK = "fork"


class BranchRun(msgspec.Struct, frozen=True, kw_only=True):
    """An active run of a branch."""

    key: int
    id: RunId
    base_key: int | None
    base_sequence: int | None
    interrupts: Sequence[InterruptId] = ()


class RunStart(msgspec.Struct, frozen=True, kw_only=True):
    """The base of the new run, and the runs to cancel first."""

    base_key: int | None
    base_sequence: int | None = None
    cancel: Sequence[int] = ()


def resolve_on_busy(on_busy: OnBusy, branch: Sequence[BranchRun]) -> RunStart:
    """Return the start of a new run on a branch with the active runs `branch`, newest first."""
    newest, oldest = branch[0], branch[-1]
    match on_busy:
        case OnBusy.ENQUEUE:
            check_waits_for_nobody(branch)
            return RunStart(base_key=newest.key)
        case OnBusy.REJECT:
            remedy = "wait for it, cancel it, or choose another `on_busy`"
            raise Busy(f"run `{oldest.id}` has not ended: {remedy}", run_id=oldest.id)
        case OnBusy.INTERRUPT:
            return RunStart(base_key=newest.key, cancel=[run.key for run in reversed(branch)])
        case OnBusy.FORK:
            return RunStart(base_key=oldest.base_key, base_sequence=oldest.base_sequence)


def check_waits_for_nobody(branch: Sequence[BranchRun]) -> None:
    """Raise `Waiting` if a run of a branch waits for a person: a run behind it would not start for days."""
    for run in branch:
        if run.interrupts:
            message = f"run `{run.id}` waits for a person: respond to its interrupts or cancel it"
            raise Waiting(message, run_id=run.id, interrupts=list(run.interrupts))


MAX_SUBAGENT_DEPTH: Final = 8


class Ancestor(msgspec.Struct, frozen=True, kw_only=True):
    """Chain position of the run that a new run continues from."""

    key: int
    depth: int
    jump: int
    jump_depth: int
    jump_of_jump: int
    jump_of_jump_depth: int


class ChainPosition(msgspec.Struct, frozen=True, kw_only=True):
    """Chain length and jump of a run; a root jumps to itself (`None`)."""

    depth: int
    jump: int | None


def next_chain_position(base: Ancestor | None) -> ChainPosition:
    """Return the chain position of a run that continues `base`."""
    if base is None:
        return ChainPosition(depth=0, jump=None)
    if base.depth - base.jump_depth == base.jump_depth - base.jump_of_jump_depth:
        return ChainPosition(depth=base.depth + 1, jump=base.jump_of_jump)
    return ChainPosition(depth=base.depth + 1, jump=base.key)


def child_nesting(parent_nesting: int) -> int:
    """Return the nesting depth of a child of a run at depth `parent_nesting`."""
    if parent_nesting >= MAX_SUBAGENT_DEPTH:
        raise Invalid(f"sub-agents may be nested at most {MAX_SUBAGENT_DEPTH} deep")
    return parent_nesting + 1
