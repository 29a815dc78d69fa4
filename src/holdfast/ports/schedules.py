"""Ports of schedules and their firings."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import msgspec

from holdfast.domain.ids import ScheduleId, SpaceId
from holdfast.domain.new_run import NewRun
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.schedule import (
    Firing,
    FiringCause,
    FiringInput,
    FiringOutcome,
    NewSchedule,
    Schedule,
    ScheduleKind,
    SchedulePatch,
    ScheduleState,
)
from holdfast.domain.timer import TimerClaim

BuildRun: TypeAlias = Callable[[FiringInput], NewRun]
"""Returns the run of a firing, complete but for the schedule's own thread."""


class DaemonState(msgspec.Struct, frozen=True, kw_only=True):
    """A daemon that a person stopped or started."""

    agent: str
    stopped: bool
    changed_by: str | None = None


class Schedules(Protocol):
    """Schedules of a space. Each method is one transaction."""

    async def create(self, space: SpaceId, new: NewSchedule) -> Schedule:
        """Create a schedule; an id, or the name of a heartbeat, that is taken is refused (`IdTaken`)."""

    async def get(self, space: SpaceId, schedule: ScheduleId) -> Schedule:
        """Return the schedule, or raise `NotFound`."""

    async def find_by_hook(self, hook_hash: bytes) -> Schedule:
        """Return the schedule with this hook, in any space, or raise `NotFound`."""

    async def page(
        self,
        space: SpaceId,
        *,
        kind: ScheduleKind = ScheduleKind.SCHEDULE,
        state: ScheduleState | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Schedule]:
        """Return schedules, newest first."""

    async def update(self, space: SpaceId, schedule: ScheduleId, patch: SchedulePatch) -> Schedule:
        """Change only the fields that `patch` sets; with another plan, the next due time is counted from now."""

    async def set_paused(self, space: SpaceId, schedule: ScheduleId, *, paused: bool) -> Schedule:
        """Pause a schedule, or resume it with the next due time from now; an ended one is refused (`Conflict`).

        Due times during the pause have no firing.
        """

    async def delete(self, space: SpaceId, schedule: ScheduleId) -> None:
        """Delete a schedule with its firings; its runs stay."""

    async def firings(
        self,
        space: SpaceId,
        schedule: ScheduleId,
        *,
        outcome: FiringOutcome | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[Firing]:
        """Return firings, newest first.

        With a new firing, old ones are dropped: older than `KEEP_FIRINGS`, not among the newest `KEEP_NEWEST_FIRINGS`,
        no check of a judge, and without an active run.
        """

    async def fire(
        self, claim: TimerClaim, *, build: BuildRun | None = None, failure: str | None = None
    ) -> list[Firing]:
        """Fire a schedule whose timer is claimed, and return its new firings.

        Firing, effect and next due time are one transaction: at most one due time fires, and those that the misfire
        policy leaves out are recorded. With a `failure` the due time has failed. A claim that was taken over is refused
        (`LeaseLost`).
        """

    async def trigger(
        self,
        space: SpaceId,
        schedule: ScheduleId,
        *,
        cause: FiringCause,
        build: BuildRun | None = None,
        failure: str | None = None,
        hook_id: str | None = None,
        reason: str | None = None,
    ) -> Firing:
        """Fire a schedule now; its next due time stays. The same `hook_id` returns the same firing."""

    async def daemons(self, space: SpaceId) -> list[DaemonState]:
        """Return the daemons that a person stopped or started."""

    async def set_daemon(self, space: SpaceId, daemon: DaemonState) -> None:
        """Record that a person stopped or started a daemon, and pause or resume its heartbeats."""

    async def sync_daemons(self, space: SpaceId, heartbeats: Sequence[NewSchedule]) -> bool:
        """Create, change and delete the schedules of daemons so that they are `heartbeats`; return whether any changed.

        A heartbeat of a stopped daemon is paused. One whose plan has not changed keeps its next due time.
        """
