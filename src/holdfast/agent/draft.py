"""What a worker has to say and has not committed yet."""

from collections.abc import Mapping, Sequence
from typing import Self

from holdfast.domain.artifact import NewArtifact
from holdfast.domain.commit import Commit, Lease
from holdfast.domain.content import Json
from holdfast.domain.context import ContextSnapshot
from holdfast.domain.events import Event
from holdfast.domain.ids import InterruptId, TimerId
from holdfast.domain.interrupt import NewInterrupt
from holdfast.domain.limits import Usage
from holdfast.domain.message import NewMessage
from holdfast.domain.new_run import NewRun
from holdfast.domain.run import Move
from holdfast.domain.step import Step
from holdfast.domain.timer import NewTimer


class Draft:
    """The next commit, while it grows."""

    __slots__ = (
        "artifacts",
        "cancelled_timers",
        "children",
        "consumed",
        "contexts",
        "events",
        "interrupts",
        "iterations",
        "messages",
        "steps",
        "timers",
        "usage",
        "values",
        "withdrawn",
    )

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.messages: list[NewMessage] = []
        self.steps: dict[int, Step] = {}
        self.values: dict[str, Json] = {}
        self.consumed: list[int] = []
        self.interrupts: list[NewInterrupt] = []
        self.withdrawn: list[InterruptId] = []
        self.artifacts: list[NewArtifact] = []
        self.children: list[NewRun] = []
        self.timers: list[NewTimer] = []
        self.cancelled_timers: list[TimerId] = []
        self.contexts: list[ContextSnapshot] = []
        self.usage: Usage | None = None
        self.iterations = 0

    @property
    def empty(self) -> bool:
        """Whether there is nothing to commit."""
        return not any(getattr(self, name) for name in self.__slots__)

    def add(
        self,
        *,
        messages: Sequence[NewMessage] = (),
        values: Mapping[str, Json] | None = None,
        consumed: Sequence[int] = (),
        interrupts: Sequence[NewInterrupt] = (),
        withdrawn: Sequence[InterruptId] = (),
        artifacts: Sequence[NewArtifact] = (),
        children: Sequence[NewRun] = (),
        timers: Sequence[NewTimer] = (),
        contexts: Sequence[ContextSnapshot] = (),
    ) -> None:
        """Add more to it."""
        self.messages += messages
        self.values.update(values or {})
        self.consumed += consumed
        self.interrupts += interrupts
        self.withdrawn += withdrawn
        self.artifacts += artifacts
        self.children += children
        self.timers += timers
        self.contexts += contexts

    def charge(self, usage: Usage) -> None:
        """Add what a call used."""
        self.usage = usage if self.usage is None else self.usage + usage

    def commit(self, lease: Lease, *, move: Move | None = None, end: Sequence[Event] = ()) -> Commit:
        """Return it as a commit; `end` comes after all events."""
        return Commit(
            lease=lease,
            events=[*self.events, *end] if end else self.events,
            messages=self.messages,
            steps=list(self.steps.values()),
            values=self.values,
            consumed=self.consumed,
            interrupts=self.interrupts,
            withdrawn=self.withdrawn,
            artifacts=self.artifacts,
            children=self.children,
            timers=self.timers,
            cancelled_timers=self.cancelled_timers,
            contexts=self.contexts,
            usage=self.usage,
            iterations=self.iterations,
            move=move,
        )

    def follow(self, earlier: Self) -> None:
        """Put what an earlier draft held, which could not be committed, in front of what this one holds."""
        self.events[:0] = earlier.events
        self.messages[:0] = earlier.messages
        self.steps = earlier.steps | self.steps
        self.values = earlier.values | self.values
        for name in (
            "consumed",
            "interrupts",
            "withdrawn",
            "artifacts",
            "children",
            "timers",
            "cancelled_timers",
            "contexts",
        ):
            getattr(self, name)[:0] = getattr(earlier, name)
        if earlier.usage is not None:
            self.charge(earlier.usage)
        self.iterations += earlier.iterations
