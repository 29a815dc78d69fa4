"""Rounds of claims over the spaces that wait."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.claim_round import ClaimRound, ReadyPool


def entry(space: int, *, weight: int = 1, pool: str = "default", queue_key: int = 0) -> ReadyPool:
    """Return a entry."""
    return ReadyPool(space_key=space, pool=pool, queue_key=queue_key, weight=weight, max_running=None)


@given(
    weights=st.dictionaries(st.integers(1, 9), st.integers(1, 5), min_size=1),
    limits=st.lists(st.integers(1, 12), min_size=1, max_size=30),
)
def test_spaces_that_always_wait_are_served_by_their_weights(weights: dict[int, int], limits: list[int]) -> None:
    turns, taken = ClaimRound(), Counter[int]()
    entries = [entry(space, weight=weight) for space, weight in weights.items()]
    for limit in limits:
        ordered = turns.in_order(entries)[:limit]
        complete = len(weights) <= limit
        shares = turns.share(ordered, limit, room={}, complete=complete)
        assert sum(shares.values()) == limit
        taken.update({each.space_key: share for each, share in shares.items()})
    rounds = [taken[space] / weight for space, weight in weights.items()]
    assert max(rounds) - min(rounds) <= 1, "no space is more than a round ahead of another"


@given(room=st.dictionaries(st.integers(1, 6), st.integers(0, 4)), limit=st.integers(1, 40))
def test_no_space_has_more_than_its_room(room: dict[int, int], limit: int) -> None:
    entries = [[entry(space, weight=2)] for space in range(1, 7)]
    shares = ClaimRound().share(entries, limit, room=room, complete=True)
    assert all(share <= room.get(each.space_key, limit) for each, share in shares.items())
    assert all(share > 0 for share in shares.values())
    if len(room) < 6:
        assert sum(shares.values()) == limit


def test_the_lanes_of_a_space_are_served_in_the_order_of_their_next_runs() -> None:
    first, second = entry(1, pool="b", queue_key=1), entry(1, pool="a", queue_key=2)
    assert ClaimRound().in_order([second, entry(2), first]) == [[first, second], [entry(2)]]
