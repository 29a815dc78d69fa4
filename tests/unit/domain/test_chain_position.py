"""The jumps of a chain, compared with a walk from base to base."""

from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.errors import Invalid
from holdfast.domain.placement import MAX_SUBAGENT_DEPTH, Ancestor, ChainPosition, child_nesting, next_chain_position


class Forest:
    """Runs as in the store, by key: each with its base and its jump."""

    def __init__(self) -> None:
        self.bases: list[int | None] = []
        self.places: list[ChainPosition] = []

    def add(self, base: int | None) -> int:
        self.bases.append(base)
        self.places.append(next_chain_position(None if base is None else self._ancestor(base)))
        return len(self.places) - 1

    def chain(self, key: int) -> list[int]:
        """Return a run and its bases, by walking every one of them."""
        walked, at = [key], self.bases[key]
        while at is not None:
            walked.append(at)
            at = self.bases[at]
        return walked

    def reach(self, key: int, depth: int) -> tuple[int, int]:
        """Return the ancestor at `depth` and the number of hops, as the statement `ancestor_at` walks."""
        hops = 0
        while self.places[key].depth > depth:
            jump, base = self._jump(key), self.bases[key]
            assert base is not None
            key = jump if self.places[jump].depth >= depth else base
            hops += 1
        return key, hops

    def _jump(self, key: int) -> int:
        jump = self.places[key].jump
        return key if jump is None else jump

    def _ancestor(self, key: int) -> Ancestor:
        jump = self._jump(key)
        above = self._jump(jump)
        return Ancestor(
            key=key,
            depth=self.places[key].depth,
            jump=jump,
            jump_depth=self.places[jump].depth,
            jump_of_jump=above,
            jump_of_jump_depth=self.places[above].depth,
        )


@given(st.lists(st.floats(0, 1, exclude_max=True), max_size=120))
def test_jumps_reach_every_ancestor_of_every_run_of_a_tree(choices: list[float]) -> None:
    forest = Forest()
    forest.add(None)
    for choice in choices:
        forest.add(int(choice * len(forest.places)))
    for key in range(len(forest.places)):
        chain = forest.chain(key)
        assert forest.places[key].depth == len(chain) - 1
        assert [forest.reach(key, depth)[0] for depth in range(len(chain))] == chain[::-1]


def test_an_ancestor_is_never_more_hops_away_than_the_logarithm_allows() -> None:
    forest = Forest()
    tip = forest.add(None)
    for _ in range(5000):
        tip = forest.add(tip)
    for key in (tip, tip - 1, 4095, 4096, 2047, 1023, 100):
        depth = forest.places[key].depth
        most = max(forest.reach(key, below)[1] for below in range(depth + 1))
        assert most <= 3 * log2(depth + 2)


def test_every_jump_is_an_ancestor_so_that_it_lives_as_long_as_the_chain() -> None:
    forest = Forest()
    tip = forest.add(None)
    for _ in range(300):
        tip = forest.add(tip)
        jump = forest.places[tip].jump
        assert jump is not None and jump in forest.chain(tip)[1:]


def test_a_root_has_depth_zero_and_no_jump() -> None:
    assert next_chain_position(None) == ChainPosition(depth=0, jump=None)


def test_a_sub_agent_is_one_deeper_than_its_parent_up_to_the_maximum() -> None:
    assert [child_nesting(depth) for depth in range(MAX_SUBAGENT_DEPTH)] == list(range(1, MAX_SUBAGENT_DEPTH + 1))
    with pytest.raises(Invalid, match=f"at most {MAX_SUBAGENT_DEPTH} deep"):
        child_nesting(MAX_SUBAGENT_DEPTH)
