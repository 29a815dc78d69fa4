"""Daemons: agents whose heartbeats run on a schedule. The schedules follow the agent folders."""

from typing import Final

import msgspec

from holdfast.control.schedules import FiringControl
from holdfast.domain.agent import Agent, DaemonSettings
from holdfast.domain.errors import Conflict, Invalid, NotFound
from holdfast.domain.idempotency import KeyedRequest, KeyedResult
from holdfast.domain.ids import SpaceId
from holdfast.domain.instant import Instant
from holdfast.domain.schedule import Firing, FiringCause, NewSchedule, Schedule, ScheduleKind, ScheduleState
from holdfast.ports.schedules import DaemonState, Schedules
from holdfast.ports.workspace import Agents

DAEMON_SYNC_SECONDS: Final = 1.0
"""Time between two looks at the agent folders."""
SHOWN_FIRINGS: Final = 50


class DaemonSync:
    """Keeps the schedules of daemons as the agent folders define them."""

    def __init__(self, *, schedules: Schedules, agents: Agents, space: SpaceId) -> None:
        self._schedules = schedules
        self._agents = agents
        self._space = space
        self._synced: list[NewSchedule] | None = None

    async def sync(self) -> None:
        """Bring the schedules in line with the agent folders, if those have changed since the last call."""
        wanted = [new for agent in self._agents.all() for new in heartbeat_schedules(agent)]
        if wanted != self._synced:
            await self._schedules.sync_daemons(self._space, wanted)
            self._synced = wanted


def heartbeat_schedules(agent: Agent) -> list[NewSchedule]:
    """Return the schedules of an agent's heartbeats; a disabled daemon has none."""
    if agent.daemon.enabled is False:
        return []
    return [
        NewSchedule(kind=ScheduleKind.DAEMON, name=f"{agent.name}/{each.name}", plan=each.plan(agent.name))
        for each in agent.daemon.heartbeats
    ]


class HeartbeatView(msgspec.Struct, frozen=True, kw_only=True):
    """A heartbeat of a daemon, as its schedule stands."""

    name: str
    schedule_id: str
    schedule: str
    timezone: str
    next_due_at: Instant | None
    last_firing: Firing | None


class DaemonView(msgspec.Struct, frozen=True, kw_only=True):
    """A daemon."""

    name: str
    description: str
    state: str
    """`running`, or `stopped` by a person."""
    changed_by: str | None
    """The person who stopped or started it last."""
    heartbeats: list[HeartbeatView]


class DaemonDetail(DaemonView, frozen=True, kw_only=True):
    """A daemon with its latest firings, newest first."""

    firings: list[Firing]


class DaemonList(msgspec.Struct, frozen=True, kw_only=True):
    """All daemons of the workspace, by name."""

    daemons: list[DaemonView]


class DaemonControl:
    """Commands for daemons, in the default space of the principal."""

    def __init__(
        self,
        *,
        schedules: Schedules,
        firing: FiringControl,
        agents: Agents,
        space: SpaceId,
        principal: str | None = None,
    ) -> None:
        self._schedules = schedules
        self._firing = firing
        self._agents = agents
        self._space = space
        self._principal = principal

    async def all(self) -> DaemonList:
        """Return all daemons."""
        states = {state.agent: state for state in await self._schedules.daemons(self._space)}
        daemons = [agent for agent in self._agents.all() if _is_daemon(agent.daemon)]
        return DaemonList(daemons=[await self._view(agent, states.get(agent.name)) for agent in daemons])

    async def get(self, name: str) -> DaemonDetail:
        """Return a daemon with its latest firings."""
        agent = self._daemon(name)
        states = {state.agent: state for state in await self._schedules.daemons(self._space)}
        firings = [
            firing
            for schedule in await self._heartbeats(name)
            for firing in (await self._schedules.firings(self._space, schedule.id, limit=SHOWN_FIRINGS)).items
        ]
        firings.sort(key=lambda firing: (firing.created_at, firing.due_at), reverse=True)
        view = await self._view(agent, states.get(name))
        return DaemonDetail(**msgspec.structs.asdict(view), firings=firings[:SHOWN_FIRINGS])

    async def set_stopped(self, name: str, *, stopped: bool) -> DaemonDetail:
        """Stop or start a daemon; this outlasts a restart of the server."""
        agent = self._daemon(name)
        await self._schedules.sync_daemons(self._space, await self._wanted())
        state = DaemonState(agent=agent.name, stopped=stopped, changed_by=self._principal)
        await self._schedules.set_daemon(self._space, state)
        return await self.get(name)

    async def trigger(
        self, name: str, *, heartbeat: str | None = None, request: KeyedRequest | None = None
    ) -> KeyedResult[Firing]:
        """Run a heartbeat now, also of a stopped daemon; without a name, the only one."""
        self._daemon(name)
        found = {(each.name or "").partition("/")[2]: each for each in await self._heartbeats(name)}
        if not found:
            raise Conflict(f"daemon `{name}` has no heartbeat in this space yet: start it first")
        if heartbeat is None:
            if len(found) > 1:
                raise Invalid(f"daemon `{name}` has several heartbeats: name one", field="heartbeat")
            heartbeat = next(iter(found))
        if heartbeat not in found:
            raise NotFound(f"daemon `{name}` has no heartbeat `{heartbeat}`", field="heartbeat")
        return await self._firing.trigger(found[heartbeat], cause=FiringCause.MANUAL, request=request)

    async def _wanted(self) -> list[NewSchedule]:
        return [new for agent in self._agents.all() for new in heartbeat_schedules(agent)]

    async def _heartbeats(self, name: str) -> list[Schedule]:
        found: list[Schedule] = []
        cursor = None
        while True:
            page = await self._schedules.page(self._space, kind=ScheduleKind.DAEMON, limit=200, cursor=cursor)
            found += [each for each in page.items if (each.name or "").startswith(f"{name}/")]
            cursor = page.next_cursor
            if cursor is None:
                return sorted(found, key=lambda each: each.name or "")

    async def _view(self, agent: Agent, state: DaemonState | None) -> DaemonView:
        heartbeats = []
        running = False
        for schedule in await self._heartbeats(agent.name):
            running = running or schedule.state is ScheduleState.ACTIVE
            latest = (await self._schedules.firings(self._space, schedule.id, limit=1)).items
            heartbeats.append(
                HeartbeatView(
                    name=(schedule.name or "").partition("/")[2],
                    schedule_id=schedule.id,
                    schedule=schedule.cron or "",
                    timezone=schedule.timezone,
                    next_due_at=schedule.next_due_at,
                    last_firing=latest[0] if latest else None,
                )
            )
        return DaemonView(
            name=agent.name,
            description=agent.description,
            state="running" if running else "stopped",
            changed_by=None if state is None else state.changed_by,
            heartbeats=heartbeats,
        )

    def _daemon(self, name: str) -> Agent:
        agent = self._agents.get(name)
        if not _is_daemon(agent.daemon):
            raise NotFound(f"agent `{name}` is not a daemon: enable `daemon` in its agent.json", id=name)
        return agent


def _is_daemon(settings: DaemonSettings) -> bool:
    return settings.enabled is not False and bool(settings.heartbeats)
