"""Schedules: commands of people and clients, and the firing of due ones.

The run of a firing is made with the agent as it is now. What cannot be made is a firing that failed, with its reason.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdfast.control.runs import RunControl
from holdfast.domain.condition import Condition, JudgeCondition
from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, HoldfastError, Invalid, LeaseLost, Unavailable
from holdfast.domain.idempotency import KeyedRequest, KeyedResult
from holdfast.domain.ids import ReminderId, ScheduleId, SpaceId, ThreadId
from holdfast.domain.instant import Instant
from holdfast.domain.limits import Limits
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.new_run import NewRun, check_new_run
from holdfast.domain.run import Mode
from holdfast.domain.schedule import (
    Firing,
    FiringCause,
    FiringInput,
    FiringOutcome,
    NewSchedule,
    RemindAction,
    RunAction,
    Schedule,
    ScheduleKind,
    SchedulePatch,
    SchedulePlan,
    ScheduleState,
    describe_firing,
    upcoming,
)
from holdfast.domain.thread import NewThread, check_accepts_runs
from holdfast.domain.timer import TimerClaim
from holdfast.domain.untrusted import SOURCE_METADATA_KEY, inherited_taint, taint_source_name
from holdfast.ports.reminders import Reminders
from holdfast.ports.requests import KeyedRequests, RequestPorts
from holdfast.ports.runs import Threads
from holdfast.ports.runtime import Clock
from holdfast.ports.schedules import BuildRun, Schedules
from holdfast.ports.workspace import Agents

HOOK_TOKEN_BYTES: Final = 32
MAX_HOOK_BODY_BYTES: Final = 256 * 1024
SCHEDULE_TIMER: Final = "schedule"
"""The kind of the timers of schedules."""


JUDGE_SCHEMA: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {"answer": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["answer", "reason"],
    "additionalProperties": False,
}
"""The answer of a judge."""


class FiringControl:
    """Fires schedules: it makes the runs of their firings."""

    def __init__(
        self,
        *,
        schedules: Schedules,
        requests: KeyedRequests,
        reminders: Reminders,
        runs: RunControl,
        threads: Threads,
        agents: Agents,
        default_agent: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._schedules = schedules
        self._threads = threads
        self._requests = requests
        self._reminders = reminders
        self._runs = runs
        self._agents = agents
        self._default_agent = default_agent

    async def fire(self, claim: TimerClaim) -> None:
        """Fire the schedule of a claimed timer."""
        timer = claim.timer
        try:
            schedule = await self._schedules.get(timer.space_id, ScheduleId(timer.id))
            await self._schedules.fire(claim, build=await self._run_builder(schedule))
        except (LeaseLost, Unavailable):
            raise
        except HoldfastError as error:
            await self._schedules.fire(claim, failure=_reason(error))

    async def trigger(
        self,
        schedule: Schedule,
        *,
        cause: FiringCause,
        hook_id: str | None = None,
        body: str | None = None,
        request: KeyedRequest | None = None,
    ) -> KeyedResult[Firing]:
        """Fire a schedule now; `body` is untrusted input of its run."""
        space = schedule.space_id

        async def fire(*, build: BuildRun | None = None, failure: str | None = None) -> KeyedResult[Firing]:
            # A delivery that failed may be sent again.
            delivery = hook_id if failure is None else None

            async def trigger(ports: RequestPorts) -> Firing:
                return await ports.schedules.trigger(
                    space, schedule.id, cause=cause, build=build, failure=failure, hook_id=delivery
                )

            return await self._requests.once(space, request, kind=Firing, create=trigger)

        try:
            return await fire(build=await self._run_builder(schedule, body=body))
        except Unavailable:
            raise
        except HoldfastError as error:
            # The schedule itself is fine, unless it was deleted, which is raised here again.
            return await fire(failure=_reason(error))

    async def check_plan(self, space: SpaceId, plan: SchedulePlan) -> None:
        """Raise if the run of a plan could not be made now."""
        action = plan.action
        if isinstance(action, RemindAction):
            if action.judge is not None:
                await self.check_run(space, _judge_action(action.judge))
            action = action.run or plan.action
        if isinstance(action, RunAction):
            await self.check_run(space, action)

    async def check_run(self, space: SpaceId, action: RunAction) -> None:
        """Raise if a run could not be made now."""
        new = _template(action, Mode.API)
        check_new_run(new)
        if action.thread_id is not None:
            thread = await self._threads.get(space, action.thread_id)
            check_accepts_runs(thread.id, thread.status)
        await self._runs.with_agent(space, new, await self._agent_name(space, action))

    async def check_condition(self, space: SpaceId, condition: Condition) -> None:
        """Raise if a condition names an agent or a thread that does not exist: it would never be met."""
        if (agent := getattr(condition, "agent", None)) is not None:
            await self._agents.of_space(space, agent)
        if (thread := getattr(condition, "thread_id", None)) is not None:
            await self._threads.get(space, ThreadId(thread))

    async def _run_builder(self, schedule: Schedule, *, body: str | None = None) -> BuildRun | None:
        """Return the function that makes the run of a firing, or `None` if the schedule starts none."""
        action = schedule.plan.action
        if isinstance(action, RemindAction):
            return await self._reminder_run_builder(schedule, action)
        if not isinstance(action, RunAction):
            return None
        daemon = schedule.kind is ScheduleKind.DAEMON
        agent = await self._agent_name(schedule.space_id, action)
        prompt = self._heartbeat_prompt(schedule, agent) if daemon else _text(action.input)
        source = taint_source_name("hook", schedule.id)
        complete = await self._complete(
            schedule,
            action,
            mode=Mode.DAEMON if daemon else Mode.API,
            tag=f"{schedule.kind}:{schedule.id}",
            taint=[] if body is None else [source],
        )

        def build(told: FiringInput) -> NewRun:
            messages = []
            if daemon:
                messages.append(f"{describe_firing(told)}\n\n{prompt}")
            elif prompt:
                messages.append(prompt)
            made = [NewMessage(role=Role.USER, content=text, created_by=schedule.created_by) for text in messages]
            if body is not None:
                made.append(
                    NewMessage(role=Role.USER, content=body or "(empty)", metadata={SOURCE_METADATA_KEY: source})
                )
            told_input = msgspec.to_builtins(told) if daemon or action.input is None else action.input
            return replace(complete, messages=made, input=told_input)

        return build

    async def _reminder_run_builder(self, schedule: Schedule, action: RemindAction) -> BuildRun | None:
        """Return the function that makes the run of a reminder, and the run that answers its judge's question."""
        taint = (await self._reminders.get(schedule.space_id, ReminderId(schedule.id))).taint
        run = check = None
        if action.run is not None:
            tag = f"{schedule.kind}:{schedule.id}"
            run = await self._complete(schedule, action.run, mode=Mode.API, tag=tag, taint=taint)
        if action.judge is not None:
            judge = _judge_action(action.judge)
            check = await self._complete(schedule, judge, mode=Mode.API, tag=f"judge:{schedule.id}", taint=taint)
            check = replace(check, output_schema=JUDGE_SCHEMA)

        def build(told: FiringInput) -> NewRun:
            planned, new = (action.judge, check) if told.cause is FiringCause.CHECK else (action.run, run)
            assert planned is not None and new is not None
            text = f"Reminder: {told.reminder}"
            if isinstance(planned, JudgeCondition):
                text = f"Answer this question with yes or no, and say why: {planned.judge}\n\n{text}"
            else:
                text = "\n\n".join(filter(None, (describe_firing(told), text, _text(planned.input))))
            message = NewMessage(role=Role.USER, content=text, created_by=schedule.created_by)
            return replace(new, messages=[message], input=msgspec.to_builtins(told))

        return build if run or check else None

    async def _complete(
        self, schedule: Schedule, action: RunAction, *, mode: Mode, tag: str, taint: Sequence[str]
    ) -> NewRun:
        """Return the run of an action with the agent as it is now, without its messages."""
        agent = await self._agent_name(schedule.space_id, action)
        template = replace(
            _template(action, mode),
            created_by=schedule.created_by,
            tags=[*action.tags, tag],
            values=inherited_taint(taint),
        )
        if isinstance(template.thread, NewThread):
            template = replace(template, thread=replace(template.thread, agent_type=agent, title=schedule.name))
        return await self._runs.with_agent(schedule.space_id, template, agent)

    def _heartbeat_prompt(self, schedule: Schedule, agent: str) -> str:
        name = (schedule.name or "").partition("/")[2]
        prompt = self._agents.get(agent).heartbeat_prompts.get(name)
        if prompt is None:
            raise Conflict(f"agent `{agent}` has no heartbeat `{name}` any more")
        return prompt

    async def _agent_name(self, space: SpaceId, action: RunAction) -> str:
        if action.agent is not None:
            return action.agent
        if action.thread_id is not None:
            return await self._runs.agent_of_thread(space, action.thread_id)
        name = self._default_agent()
        if name is None:
            raise Invalid("the run needs an `agent`: the workspace has no default agent", field="agent")
        return name


def _template(action: RunAction, mode: Mode) -> NewRun:
    return NewRun(
        thread=NewThread() if action.thread_id is None else action.thread_id,
        mode=mode,
        model=action.model,
        priority=action.priority,
        tags=action.tags,
        limits=action.limits,
    )


def _judge_action(judge: JudgeCondition) -> RunAction:
    limits = Limits(token_budget=judge.token_budget, cost_budget_usd=judge.cost_budget_usd)
    return RunAction(agent=judge.agent, new_thread=True, limits=limits)


def _text(value: Json) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _reason(error: HoldfastError) -> str:
    return f"{error.code}: {error.message}"


class MadeSchedule(Schedule, frozen=True, kw_only=True):
    """A schedule with the token of its hook address, which is shown once."""

    hook_token: str | None = None


class ScheduleControl:
    """Commands for schedules."""

    def __init__(
        self,
        *,
        schedules: Schedules,
        firing: FiringControl,
        requests: KeyedRequests,
        clock: Clock,
        principal: str | None = None,
    ) -> None:
        """Record `principal` as the author of new schedules."""
        self._clock = clock
        self._schedules = schedules
        self._firing = firing
        self._requests = requests
        self._principal = principal

    async def create(
        self,
        space: SpaceId,
        new: NewSchedule,
        *,
        hook: bool = False,
        request: KeyedRequest | None = None,
    ) -> KeyedResult[MadeSchedule]:
        """Create a schedule; with `hook` it gets a hook address with a token."""
        earlier = await self._requests.find(space, request, kind=str)
        if earlier is not None:
            return KeyedResult(value=_made(await self._schedules.get(space, ScheduleId(earlier))), replayed=True)
        await self._firing.check_plan(space, new.plan)
        token = _new_token() if hook else None
        hashed = None if token is None else hash_token(token)
        made = replace(new, hook_hash=hashed, created_by=self._principal)

        async def create(ports: RequestPorts) -> str:
            return (await ports.schedules.create(space, made)).id

        done = await self._requests.once(space, request, kind=str, create=create)
        found = await self._schedules.get(space, ScheduleId(done.value))
        return KeyedResult(value=_made(found, token=None if done.replayed else token), replayed=done.replayed)

    async def update(
        self,
        space: SpaceId,
        schedule: ScheduleId,
        *,
        name: str | None | UnsetType = UNSET,
        changes: Mapping[str, Any],
        hook: bool | None = None,
    ) -> MadeSchedule:
        """Change a schedule; `hook` makes a new token for its hook address, or removes the address."""
        found = await self._check_editable(space, schedule)
        patch = SchedulePatch(name=name)
        if changes:
            plan = replace(found.plan, **changes)
            await self._firing.check_plan(space, plan)
            patch = replace(patch, plan=plan)
            if plan.at is None and plan.cron is None and not (found.has_hook if hook is None else hook):
                raise Invalid("a schedule needs `at`, `cron` or a `hook`: delete it, or pause it", field="cron")
        token = _new_token() if hook else None
        if hook is not None:
            patch = replace(patch, hook_hash=None if token is None else hash_token(token))
        return _made(await self._schedules.update(space, schedule, patch), token=token)

    async def run(
        self, space: SpaceId, schedule: ScheduleId, *, request: KeyedRequest | None = None
    ) -> KeyedResult[Firing]:
        """Fire a schedule now."""
        found = await self._schedules.get(space, schedule)
        return await self._firing.trigger(found, cause=FiringCause.MANUAL, request=request)

    async def set_paused(self, space: SpaceId, schedule: ScheduleId, *, paused: bool) -> Schedule:
        """Pause or resume a schedule."""
        await self._check_editable(space, schedule)
        return await self._schedules.set_paused(space, schedule, paused=paused)

    async def delete(self, space: SpaceId, schedule: ScheduleId) -> None:
        """Delete a schedule."""
        await self._check_editable(space, schedule)
        await self._schedules.delete(space, schedule)

    async def detail(self, space: SpaceId, schedule: ScheduleId, *, count: int) -> tuple[Schedule, list[Instant]]:
        """Return a schedule and its next due times."""
        found = await self._schedules.get(space, schedule)
        active = found.state is ScheduleState.ACTIVE
        return found, upcoming(found.plan, after=self._clock.now(), count=count) if active else []

    async def deliver(self, token: str, body: str, *, delivery: str | None) -> Firing:
        """Fire the schedule of a hook address; the same delivery id fires it once.

        A delivery whose run cannot be made is refused, so that its sender sends it again.
        """
        schedule = await self._schedules.find_by_hook(hash_token(token))
        if schedule.state is ScheduleState.PAUSED:
            raise Conflict("the schedule of this hook is paused")
        firing = (await self._firing.trigger(schedule, cause=FiringCause.HOOK, hook_id=delivery, body=body)).value
        if firing.outcome is FiringOutcome.FAILED:
            raise Unavailable("the run of this hook cannot be started now: send it again later")
        return firing

    async def _check_editable(self, space: SpaceId, schedule: ScheduleId) -> Schedule:
        """Return a schedule of the API; others belong to an agent folder or a reminder (`Conflict`)."""
        found = await self._schedules.get(space, schedule)
        if found.kind is ScheduleKind.DAEMON:
            agent = (found.name or "").partition("/")[0]
            raise Conflict(f"schedule `{schedule}` is a heartbeat: change it in the agent.json of `{agent}`")
        if found.kind is ScheduleKind.REMINDER:
            raise Conflict(f"schedule `{schedule}` belongs to a reminder: change the reminder")
        return found


def hash_token(token: str) -> bytes:
    """Return the digest under which a token is stored."""
    return sha256(token.encode("utf-8", "surrogatepass")).digest()


def _new_token() -> str:
    return secrets.token_urlsafe(HOOK_TOKEN_BYTES)


def _made(schedule: Schedule, *, token: str | None = None) -> MadeSchedule:
    return MadeSchedule(**msgspec.structs.asdict(schedule), hook_token=token)
