"""Distil runs: queued in the commit that completes a run, given what was said, and checked when they answer."""

from collections import Counter
from contextlib import suppress

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.agent.run_context import RunContext, mark_tainted
from holdfast.domain.content import Json
from holdfast.domain.context import (
    RECALL_VALUE,
    InjectedItem,
    InjectionKind,
    RecalledMemory,
)
from holdfast.domain.distillation import (
    DISTILLER_PREFIX,
    DISTILLER_VERSION,
    MAX_KNOWN_MEMORIES,
    DistilledOutput,
    DistilledStatement,
    problem_of,
    same_statement,
)
from holdfast.domain.errors import Invalid
from holdfast.domain.events.custom import AgentLogged
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import MemoryId, MessageId, RunId
from holdfast.domain.instant import Instant, millis
from holdfast.domain.limits import Limits
from holdfast.domain.memory import (
    MemoryEntity,
    MemoryOrigin,
    MemoryRelation,
    MemorySource,
    MessageNode,
    NewMemory,
    check_new_memory,
)
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.new_run import NewRun
from holdfast.domain.recall import MAX_QUERY_CHARS, RecallKind, RecallQuery
from holdfast.domain.run import Mode, Priority
from holdfast.domain.thread import NewThread
from holdfast.domain.untrusted import inherited_taint, read_taint
from holdfast.memory.analyser import terms
from holdfast.memory.dates import find_occurrence
from holdfast.memory.rules import find_entities
from holdfast.tools.builtin.memory import taint_of

MAX_DISTILLED_CHARS = 60_000
"""Characters that one distillation reads; of longer runs the end."""


def queue_distillation(ctx: RunContext) -> NewRun | None:
    """Return the run that distils this one and those before it, once there are as many as the agent's settings say."""
    settings = None if ctx.agent.memory is None else ctx.agent.memory.distillation
    if settings is None or ctx.spawned:
        return None
    memory = ctx.recalled
    runs = list(dict.fromkeys([*memory.undistilled, ctx.run.id]))
    due = len(runs) >= settings.every
    ctx.set_recalled(replace(memory, undistilled=[] if due else runs))
    if not due:
        return None
    names = ", ".join(runs)
    request = f"Distil {names}."
    return NewRun(
        id=RunId(derived_id("run", key=f"{ctx.run.id}.distil.{DISTILLER_VERSION}")),
        thread=NewThread(agent_type=f"{DISTILLER_PREFIX}{ctx.agent.name}", title=f"Distillation of {names}"[:200]),
        messages=[NewMessage(role=Role.USER, content=request)],
        input=request,
        mode=Mode.TASK,
        agent_type=f"{DISTILLER_PREFIX}{ctx.agent.name}",
        agent_version=UNSET if ctx.run.agent_version is None else ctx.run.agent_version,
        priority=Priority.LOW,
        pool=ctx.agent.pool,
        tags=["distillation"],
        limits=Limits(max_iterations=3, token_budget=settings.token_budget),
        values={
            RECALL_VALUE: msgspec.to_builtins(RecalledMemory(undistilled=runs)),
            **inherited_taint(read_taint(ctx.values).names()),
        },
    )


async def read_distilled_runs(ctx: RunContext) -> None:
    """Put what was said in the runs to distil, and what is known about it, into the prompt, once."""
    memory = ctx.recalled
    if memory.message_id is not None:
        return
    said = await _said(ctx, memory)
    query = " ".join(node.text for node in said if node.role is Role.USER)[-MAX_QUERY_CHARS:].strip()
    known = []
    if query:
        asked = RecallQuery(text=query, kinds=frozenset({RecallKind.MEMORY}), limit=MAX_KNOWN_MEMORIES)
        hits = (await ctx.memory.recall(ctx.lease, asked)).hits
        known = await ctx.memory.memories(ctx.lease, [MemoryId(hit.id) for hit in hits])
    mark_tainted(ctx, taint_of(known, said))
    lines = [_line(id=each.id, known=each.text) for each in known]
    lines += [_line(id=node.id, role=node.role, at=node.at, text=node.text) for node in said]
    items = [InjectedItem(kind=InjectionKind.MEMORY, id=each.id) for each in known]
    items += [
        InjectedItem(kind=InjectionKind.MESSAGE, id=node.id, at=node.at, thread_id=node.thread_id) for node in said
    ]
    filled = replace(memory, message_id=ctx.conversation.last_user_id, recalled="\n".join(lines), items=items)
    ctx.set_recalled(filled)


async def distilled_memories(ctx: RunContext, output: Json) -> list[NewMemory]:
    """Return the statements of the distiller that hold, and log how many were dropped and why."""
    memory = ctx.recalled
    said = {node.id: node for node in await _said(ctx, memory)}
    known = [MemoryId(item.id) for item in memory.items if item.kind is InjectionKind.MEMORY]
    kept: list[NewMemory] = []
    dropped: Counter[str] = Counter()
    for number, statement in enumerate(msgspec.convert(output, DistilledOutput).memories):
        names = [entity.label for entity in find_entities(statement.text)]
        problem = problem_of(statement, said, known, names) or await _known_problem(ctx, statement, kept)
        if problem is not None:
            dropped[problem] += 1
            continue
        new = _new_memory(ctx, statement, said, number)
        try:
            check_new_memory(new)
        except Invalid as error:
            dropped[error.message] += 1
            continue
        kept.append(new)
    reasons = "".join(f"; {count} dropped: {reason}" for reason, count in dropped.items())
    ctx.writer.emit_custom(AgentLogged(message=f"distilled {len(kept)} memories{reasons}"))
    return kept


async def _known_problem(ctx: RunContext, statement: DistilledStatement, kept: list[NewMemory]) -> str | None:
    """Return why a statement adds nothing: it is known, whatever became of the first that said so."""
    wanted = set(terms(statement.text))
    asked = RecallQuery(
        text=statement.text[:MAX_QUERY_CHARS], kinds=frozenset({RecallKind.MEMORY}), limit=5, inactive=True
    )
    texts = [hit.text for hit in (await ctx.memory.recall(ctx.lease, asked)).hits if hit.id not in statement.supersedes]
    for text in [*texts, *(new.text for new in kept)]:
        if same_statement(statement.text, text, [wanted, set(terms(text))]):
            return "it is known"
    return None


def _new_memory(
    ctx: RunContext, statement: DistilledStatement, said: dict[MessageId, MessageNode], number: int
) -> NewMemory:
    sources = [said[each] for each in dict.fromkeys(statement.sources)]
    occurred_from, occurred_until = find_occurrence(sources[0].text, at=sources[0].at)
    if statement.occurred is not None:
        with suppress(Invalid, ValueError):
            millis(Instant(statement.occurred))
            occurred_from, occurred_until = Instant(statement.occurred), None
    labels = dict.fromkeys([*statement.entities, *([statement.subject] if statement.subject.strip() else [])])
    entities = [MemoryEntity(label=label) for label in labels] or find_entities(statement.text)
    first = sources[0]
    return NewMemory(
        key=f"{ctx.run.id}.distilled.{number}",
        type=statement.type,
        text=statement.text.strip(),
        supersedes=list(dict.fromkeys(statement.supersedes)),
        occurred_from=occurred_from,
        occurred_until=occurred_until,
        origin=MemoryOrigin.DISTILLED,
        taint=read_taint(ctx.values).names(),
        author=ctx.agent.name.removeprefix(DISTILLER_PREFIX),
        agent=ctx.agent.name.removeprefix(DISTILLER_PREFIX),
        thread_id=first.thread_id,
        run_id=first.run_id,
        sources=[MemorySource(message_id=node.id, thread_id=node.thread_id) for node in sources],
        entities=entities,
        relations=[
            MemoryRelation(subject=each.subject, predicate=each.predicate, object=each.object)
            for each in statement.relations
        ],
    )


async def _said(ctx: RunContext, memory: RecalledMemory) -> list[MessageNode]:
    """Return what people and the model said in the runs to distil, as much of the end as may be read."""
    nodes, room = [], MAX_DISTILLED_CHARS
    for node in reversed(await ctx.memory.conversation(ctx.lease, memory.undistilled)):
        room -= len(node.text)
        if room < 0:
            break
        nodes.append(node)
    return nodes[::-1]


def _line(**fields: str) -> str:
    return msgspec.json.encode(fields).decode()
