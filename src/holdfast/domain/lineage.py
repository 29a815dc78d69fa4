"""Where a run stands in its two trees.

By *base* the runs of a thread form a tree of continuations: a run with all its bases is its chain. By *parent* runs
form a tree of sub-agents, each on a thread of its own.

A chain can be thousands of runs long, so each run also keeps one *jump*: an ancestor further up, chosen so that any
ancestor is reached in a number of hops that grows with the logarithm of the length (Myers, "An applicative
random-access stack", 1983).
"""

from typing import Final

import msgspec

from holdfast.domain.errors import Invalid

MAX_NESTING: Final = 8


class Ancestor(msgspec.Struct, frozen=True, kw_only=True):
    """What a new run must know of the run it continues from."""

    key: int
    depth: int
    jump: int
    jump_depth: int
    jump_of_jump: int
    jump_of_jump_depth: int


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A run's length of chain, and its jump; a root jumps to itself (`None`)."""

    depth: int
    jump: int | None


def continue_from(base: Ancestor | None) -> Place:
    """Return the place of a run on `base`."""
    if base is None:
        return Place(depth=0, jump=None)
    if base.depth - base.jump_depth == base.jump_depth - base.jump_of_jump_depth:
        return Place(depth=base.depth + 1, jump=base.jump_of_jump)
    return Place(depth=base.depth + 1, jump=base.key)


def nest(parent_nesting: int) -> int:
    """Return how deep a child of a run at `parent_nesting` is."""
    if parent_nesting >= MAX_NESTING:
        raise Invalid(f"sub-agents may be nested at most {MAX_NESTING} deep")
    return parent_nesting + 1
