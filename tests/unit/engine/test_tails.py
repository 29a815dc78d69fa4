"""Tails: their events are a gapless part of the log, in whatever order hints arrive."""

from collections.abc import Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.ids import RunId, SpaceId
from holdfast.domain.instant import Millis
from holdfast.domain.run import RunStatus
from holdfast.engine.watcher import MAX_RECENT_TAILS, MAX_TAIL_CHARS, RecentTails, Tail
from holdfast.ports.log import LogAppend, LogHead

SPACE, RUN = SpaceId("acme"), RunId("run_1")


def head(seq: int, status: RunStatus = RunStatus.RUNNING, run: RunId = RUN) -> LogHead:
    return LogHead(space_id=SPACE, run_id=run, status=status, last_event_seq=seq)


def append(first: int, last: int, *, length: int = 1, run: RunId = RUN) -> LogAppend:
    events = [("CUSTOM", f'"{seq}"'.ljust(length)) for seq in range(first, last + 1)]
    return LogAppend(head=head(last, run=run), events=events, at=Millis(first))


@st.composite
def append_lists(draw: st.DrawFn) -> list[LogAppend]:
    """Draw the appends of a log in their order."""
    sizes = draw(st.lists(st.integers(0, 5), max_size=12))
    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    return [append(end - size + 1, end) for size, end in zip(sizes, ends, strict=True)]


def numbers(tail: Tail, after: int) -> list[int]:
    return [event.seq for event in tail.events_after(after)]


def is_next(numbers: Sequence[int], after: int) -> bool:
    return list(numbers) == list(range(after + 1, after + 1 + len(numbers)))


@given(append_lists(), st.randoms(use_true_random=False), st.integers(0, 60))
def test_events_after_a_number_have_no_gap(appends: list[LogAppend], random: Random, after: int) -> None:
    tail, last_seq = Tail(), 0
    received = [each for each in appends if random.random() < 0.8]
    random.shuffle(received)
    for each in received:
        if random.random() < 0.2:
            tail.update_head(head(random.randint(0, each.head.last_event_seq)))
        tail.add(each)
        assert is_next(numbers(tail, after), after)
        assert tail.head is not None and tail.head.last_event_seq >= last_seq
        last_seq = tail.head.last_event_seq


@given(append_lists())
def test_a_tail_with_all_appends_has_all_events(appends: list[LogAppend]) -> None:
    tail = Tail()
    for each in appends:
        tail.add(each)
    last = appends[-1].head.last_event_seq if appends else 0
    assert numbers(tail, 0) == list(range(1, last + 1))


def test_events_are_the_same_as_in_the_log() -> None:
    tail = Tail()
    tail.add(append(1, 2))
    assert [(event.seq, event.type, event.data) for event in tail.events_after(1)] == [(2, "CUSTOM", b'"2"')]


def test_events_that_are_too_old_must_be_read() -> None:
    tail = Tail()
    for seq in range(1, 10):
        tail.add(append(seq, seq, length=MAX_TAIL_CHARS // 3))
    assert numbers(tail, 0) == []
    assert numbers(tail, 6) == [7, 8, 9]


def test_after_an_append_without_events_only_newer_events_are_kept() -> None:
    tail = Tail()
    tail.add(append(1, 3))
    tail.add(LogAppend(head=head(5), at=Millis(0)))  # too large to be published
    tail.add(append(6, 7))
    assert numbers(tail, 3) == []
    assert numbers(tail, 5) == [6, 7]


def test_a_deleted_run_has_an_empty_tail() -> None:
    tail = Tail()
    tail.add(append(1, 3))
    tail.update_head(None)
    assert tail.head is None and numbers(tail, 0) == []


def test_the_end_of_a_run_is_a_change_even_without_events() -> None:
    tail = Tail()
    tail.add(append(1, 3))
    tail.add(LogAppend(head=head(3, RunStatus.COMPLETED), at=Millis(0)))
    tail.update_head(head(3))
    assert tail.head is not None and tail.head.status.terminal


def test_only_the_latest_tails_of_unwatched_runs_are_kept() -> None:
    recent = RecentTails()
    names = [(SPACE, RunId(f"run_{number}")) for number in range(MAX_RECENT_TAILS + 1)]
    for name in names:
        recent.add(append(1, 1, run=name[1]))
    assert numbers(recent.take(names[0]), 0) == []
    assert numbers(recent.take(names[1]), 0) == [1]
    recent.forget(names[2:3])
    assert recent.take(names[2]).head is None
