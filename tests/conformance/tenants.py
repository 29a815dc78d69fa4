"""One object of each kind in a space, for tests of tenancy."""

from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.domain.agent_version import make_bundle
from holdfast.domain.artifact import ArtifactType, NewArtifact, NewFile
from holdfast.domain.commit import Commit
from holdfast.domain.ids import (
    ApiKeyId,
    ArtifactId,
    DeliveryId,
    FileId,
    GrantId,
    InterruptId,
    MemoryId,
    MessageId,
    ReminderId,
    RunId,
    ScheduleId,
    SkillId,
    SpaceId,
    ThreadId,
    TimerId,
    WebhookId,
)
from holdfast.domain.instant import Instant
from holdfast.domain.interrupt import InterruptResponse
from holdfast.domain.memory import (
    MemorySource,
    MemoryType,
    NewMemory,
)
from holdfast.domain.new_run import NewRun
from holdfast.domain.plan_edit import AddPlanItem, NewPlanItem
from holdfast.domain.reminder import NewReminder, TriggerType
from holdfast.domain.schedule import (
    NewSchedule,
    NotifyAction,
    SchedulePlan,
)
from holdfast.domain.skill import NewSkill, SkillContent
from holdfast.domain.space import NewApiKey, Scope, SpacePatch
from holdfast.domain.space_budget import BudgetPeriod, NewSpaceBudget
from holdfast.domain.thread import NewThread
from holdfast.domain.timer import NewTimer
from holdfast.domain.webhook import NewWebhook
from holdfast.domain.worker import SpaceQueue
from holdfast.ports.schedules import DaemonState
from holdfast.store.store import Store
from tests.builders import user
from tests.conformance.conversations import claim_run
from tests.conformance.run_builders import WAITING_FOR_PERSON, context_snapshot, new_interrupt

LATER: Final = Instant("2030-01-01T00:00:00.000Z")
SKILL: Final = SkillContent(name="x", description="x", instructions="x")


class World(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of one object of each kind in a space."""

    thread: ThreadId
    run: RunId
    message: MessageId
    interrupt: InterruptId
    artifact: ArtifactId
    file: FileId
    timer: TimerId
    schedule: ScheduleId
    reminder: ReminderId
    webhook: WebhookId
    delivery: DeliveryId
    key: ApiKeyId
    grant: GrantId
    memory: MemoryId
    skill: SkillId
    news: int


MISSING: Final = World(
    thread=ThreadId("thr_missing"),
    run=RunId("run_missing"),
    message=MessageId("msg_missing"),
    interrupt=InterruptId("int_missing"),
    artifact=ArtifactId("art_missing"),
    file=FileId("fil_missing"),
    timer=TimerId("tmr_missing"),
    schedule=ScheduleId("sch_missing"),
    reminder=ReminderId("rem_missing"),
    webhook=WebhookId("whk_missing"),
    delivery=DeliveryId("msg_missing"),
    key=ApiKeyId("key_missing"),
    grant=GrantId("grt_missing"),
    memory=MemoryId("mem_missing"),
    skill=SkillId("skl_missing"),
    news=99,
)


async def populate(store: Store, space: SpaceId, mark: str) -> World:
    """Create one object of each kind."""
    thread = await store.threads.create(space, NewThread(title=mark))
    new = NewRun(thread=thread.id, messages=[user(mark)], tags=[mark], idempotency_key=mark)
    run = (await store.runs.create(space, new)).run
    file = await store.files.create(space, NewFile(name=mark, content=mark.encode()))
    artifact = NewArtifact(type=ArtifactType.DOC, title=mark, file_id=file.id, id=ArtifactId(f"art-{mark}"))
    await store.journal.commit(
        Commit(
            lease=await claim_run(store, run),
            values={"state": {"mark": mark}},
            contexts=[context_snapshot(1, mark)],
            artifacts=[artifact],
            interrupts=[
                new_interrupt(f"int-{mark}", message=mark),
                new_interrupt(f"may-{mark}", metadata={"asking": [mark], "offers": [[f"tool_{mark}"]]}),
            ],
            move=WAITING_FOR_PERSON,
        )
    )
    child = (await store.runs.create(space, NewRun(thread=NewThread(title=mark), parent_run_id=run.id))).run
    await store.plans.edit(space, child.thread_id, AddPlanItem(item=NewPlanItem(title=mark)))
    always = InterruptResponse(response={"decision": "always"})
    await store.interrupts.respond(space, InterruptId(f"may-{mark}"), always)
    plan = SchedulePlan(action=NotifyAction(message=mark), at=LATER)
    schedule = await store.schedules.create(space, NewSchedule(plan=plan, name=mark))
    await store.schedules.set_daemon(space, DaemonState(agent=mark, stopped=True))
    webhook = await store.webhooks.create(space, NewWebhook(url="https://x.org", events=["*"], secret=mark))
    new_reminder = NewReminder(content=mark, trigger_type=TriggerType.CONTEXT, owner=mark, thread_id=thread.id)
    reminder = await store.reminders.create(space, new_reminder)
    timer = await store.timers.set(space, NewTimer(kind="x", due_at=LATER, data={"mark": mark}), run=run.id)
    hash_ = mark.encode().ljust(32)
    key = await store.api_keys.create([space], NewApiKey(name=mark, scope=Scope.RUN, secret_hash=hash_))
    await store.notifications.dispatch()
    message = (await store.messages.of_run(space, run.id))[0].id
    source = MemorySource(thread_id=thread.id, message_id=message)
    new_memory = NewMemory(type=MemoryType.SEMANTIC, text=mark, standing=True, thread_id=thread.id, sources=[source])
    memory = (await store.memories.put(space, new_memory)).memory.id
    new_skill = NewSkill(content=replace(SKILL, name=f"skill-{mark}"), contents={"scripts/x": mark.encode()})
    await store.workers.put_space_queue(space, SpaceQueue(weight=len(mark)))
    await store.agent_versions.publish(space, make_bundle("bot", {"agents/bot/AGENT.md": mark.encode()}, folder=""))
    await store.space_budgets.put(space, NewSpaceBudget(period=BudgetPeriod.DAY, tokens=10_000 + len(mark)))
    await store.spaces.update(space, SpacePatch(metadata={"locale": mark}))
    return World(
        thread=thread.id,
        run=run.id,
        message=message,
        interrupt=InterruptId(f"int-{mark}"),
        artifact=ArtifactId(f"art-{mark}"),
        file=file.id,
        timer=timer.id,
        schedule=schedule.id,
        reminder=reminder.id,
        webhook=webhook.id,
        delivery=(await store.webhooks.deliveries(space, webhook.id)).items[0].id,
        key=key.id,
        grant=(await store.grants.page(space)).items[0].id,
        memory=memory,
        skill=(await store.skills.create(space, new_skill)).id,
        news=(await store.notifications.latest(space))[0].number,
    )
