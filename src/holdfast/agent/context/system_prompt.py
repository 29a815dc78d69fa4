"""The system prompt: its segments, ordered from stable to changing, because providers cache common prefixes.

core · safety · AGENT.md · SOUL.md · skill catalog │ task heuristics · environment · output · … │ skills · plan · …
the same for each run of an agent                  │ for each run, or user message            │ for each call
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from holdfast.agent.prompt import load_text, render_text
from holdfast.domain.agent import Agent
from holdfast.domain.agent_task import minimal_agent_task
from holdfast.domain.content import Json
from holdfast.domain.context import text_digest
from holdfast.domain.instant import Instant
from holdfast.domain.plan import Plan, PlanItem, PlanStatus, SubtaskStatus, Todo
from holdfast.domain.run import Mode, Run
from holdfast.domain.untrusted import fence_text
from holdfast.ports.model import TokenCounter

MAX_CACHED_SEGMENTS: Final = 128
"""Measured segments that are cached: those of an agent are the same for every call."""


class PromptSegment(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the system prompt."""

    name: str
    text: str
    digest: str
    tokens: int


class SegmentFactory:
    """Makes measured segments, with a cache."""

    def __init__(self, tokens: TokenCounter) -> None:
        self._tokens = tokens
        self.from_template = lru_cache(maxsize=MAX_CACHED_SEGMENTS)(self._from_template)
        self.from_untrusted = lru_cache(maxsize=MAX_CACHED_SEGMENTS)(self._from_untrusted)

    def from_text(self, name: str, text: str) -> PromptSegment:
        """Return the segment with that text."""
        return PromptSegment(name=name, text=text, digest=text_digest(text), tokens=self._tokens.count(text))

    def _from_template(self, name: str, **values: str) -> PromptSegment:
        """Return the segment of the prompt text of that name, with `{values}` filled in."""
        return self.from_text(name, render_text(name, **values))

    def _from_untrusted(self, name: str, text: str, *, tag: str) -> PromptSegment:
        """Return the prompt text of that name, followed by `text` between tags that it cannot close."""
        return self.from_text(name, f"{load_text(name)}\n{fence_text(text.strip(), tag=tag)}")


MAX_PLAN_TOKENS: Final = 8_000
MAX_NAME_CHARS: Final = 200
MAX_TODO_CHARS: Final = 1_000

_MODE_DESCRIPTIONS: Final[Mapping[Mode, str]] = {
    Mode.CHAT: "a conversation; the user reads what you say and can reply",
    Mode.TASK: "a piece of work; carry it through without waiting for a reply, then report",
    Mode.DAEMON: "a scheduled run; do what is due now, and nothing if nothing is",
    Mode.API: "a request from a program; answer in the form that it requests",
}


_UNATTENDED_MODES: Final = frozenset({Mode.TASK, Mode.DAEMON})
"""Modes of runs that nobody reads along with: their prompt has the task heuristics."""


class PromptSkill(msgspec.Struct, frozen=True, kw_only=True):
    """An active skill and its instructions for the model."""

    name: str
    text: str
    notes: str = ""
    """What it needs and requires, in words of the runtime."""
    untrusted: bool = False
    """Whether others than the operator may have written it."""


class PromptInput(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a system prompt. An empty part has no segment."""

    agent: Agent
    run: Run
    workspace: str
    now: Instant
    """The same time for all calls that should share a provider's cache."""
    locale: str | None = None
    skill_catalog: str = ""
    """One line for each skill that the agent could use."""
    skills: Sequence[PromptSkill] = ()
    skills_left_out: str = ""
    """A note about skills that would be active and are not."""
    standing: str = ""
    """Standing instructions of people."""
    requests: str = ""
    """What the user asked for before, in the user's words."""
    memories: str = ""
    """What was recalled for the user message; it is data."""
    plan: Plan = Plan()
    todo: Todo = Todo()
    output_schema: Json = None
    """The JSON Schema of the final answer."""


class PromptComposer:
    """Composes system prompts. All runs of a process share one."""

    def __init__(self, tokens: TokenCounter) -> None:
        self._tokens = tokens
        self._segments = SegmentFactory(tokens)
        self._shared_segments = [self._segments.from_text(name, load_text(name)) for name in ("core", "safety")]
        self._skills_segment = lru_cache(maxsize=MAX_CACHED_SEGMENTS)(
            lambda skills, left_out: self._segments.from_text("skills", _skills_text(skills, left_out))
        )

    def compose(self, prompt: PromptInput) -> list[PromptSegment]:
        """Return the segments of a system prompt, in order."""
        return [
            *self._shared_segments,
            *self._agent_segments(prompt),
            *self._run_segments(prompt),
            *self._call_segments(prompt),
        ]

    def _agent_segments(self, prompt: PromptInput) -> Iterator[PromptSegment]:
        agent, from_untrusted = prompt.agent, self._segments.from_untrusted
        if agent.instructions.strip():
            yield from_untrusted("agent", agent.instructions, tag="agent-instructions")
        if agent.soul and agent.soul.strip():
            yield from_untrusted("soul", agent.soul, tag="soul")
        if prompt.skill_catalog:
            yield from_untrusted("skill_catalog", prompt.skill_catalog, tag="skill-catalog")

    def _run_segments(self, prompt: PromptInput) -> Iterator[PromptSegment]:
        if prompt.run.mode in _UNATTENDED_MODES:
            yield self._segments.from_template("task_heuristics")
        yield self._segments.from_template(
            "environment",
            workspace=_single_line(prompt.workspace),
            agent=_single_line(prompt.agent.name),
            mode=prompt.run.mode,
            meaning=_MODE_DESCRIPTIONS[prompt.run.mode],
            thread=prompt.run.thread_id,
            locale=_single_line(prompt.locale) if prompt.locale else "not known; answer in the language of the user",
        )
        if prompt.output_schema is not None:
            schema = msgspec.json.encode(prompt.output_schema).decode()
            yield self._segments.from_untrusted("output", schema, tag="json-schema")
        if prompt.standing:
            yield self._segments.from_untrusted("standing", prompt.standing, tag="standing-instructions")
        if prompt.requests:
            yield self._segments.from_untrusted("requests", prompt.requests, tag="earlier-requests")
        if prompt.memories:
            yield self._segments.from_untrusted("memories", prompt.memories, tag="untrusted")

    def _call_segments(self, prompt: PromptInput) -> Iterator[PromptSegment]:
        if prompt.skills or prompt.skills_left_out:
            yield self._skills_segment(tuple(prompt.skills), prompt.skills_left_out)
        if prompt.plan.items and (plan := render_plan(prompt.plan, tokens=self._tokens, max_tokens=MAX_PLAN_TOKENS)):
            yield self._segments.from_untrusted("plan", plan, tag="plan")
        if prompt.todo.items:
            lines = [
                f"- [{'x' if item.done else ' '}] {_single_line(item.text, max_chars=MAX_TODO_CHARS)}"
                for item in prompt.todo.items
            ]
            yield self._segments.from_untrusted("todo", "\n".join(lines), tag="todo")
        yield self._segments.from_template("time", now=prompt.now)


def _skills_text(skills: Sequence[PromptSkill], left_out: str) -> str:
    texts = []
    for skill in skills:
        tag = "untrusted" if skill.untrusted else "skill"
        fenced = fence_text(skill.text.strip(), tag=tag, source=f"skill:{skill.name}" if skill.untrusted else None)
        texts += [f"{_single_line(skill.name)}:\n{fenced}", *([skill.notes] if skill.notes else [])]
    return "\n".join([load_text("skills"), *texts, *([left_out] if left_out else [])])


def _single_line(text: str, *, max_chars: int = MAX_NAME_CHARS) -> str:
    words = " ".join(text.split())
    return words if len(words) <= max_chars else f"{words[: max_chars - 1]}…"


MAX_BRIEF_CHARS: Final = 300
"""Characters of each text of an item when the whole plan is too long."""


def render_plan(plan: Plan, *, tokens: TokenCounter, max_tokens: int) -> str:
    """Return the plan in about `max_tokens` tokens: a longer one is cut, and its oldest completed items are omitted.

    Open items are never omitted.
    """
    items = [item for item in plan.items if item.status is not PlanStatus.CANCELLED]
    full = "\n".join(line for item in items for line in _item_lines(item, brief=False))
    if len(full) <= max_tokens or tokens.count(full) <= max_tokens:
        return full
    texts = {item.task_id: "\n".join(_item_lines(item, brief=True)) for item in items}
    lengths = {task_id: tokens.count(text) for task_id, text in texts.items()}
    excess = sum(lengths.values()) - max_tokens
    omitted = set()
    for item in sorted(items, key=lambda item: item.task_id):
        if excess > 0 and item.status is PlanStatus.COMPLETED:
            omitted.add(item.task_id)
            excess -= lengths[item.task_id]
    note = [f"({len(omitted)} tasks that were completed earlier are left out)"] if omitted else []
    return "\n".join([*note, *(text for task_id, text in texts.items() if task_id not in omitted)])


def _item_lines(item: PlanItem, *, brief: bool) -> Iterator[str]:
    yield f"#{item.task_id} [{minimal_agent_task(item).status}, {item.priority}] {item.title}"
    plan = item.plan
    texts = {
        "description": item.description or None,
        "plan": plan if plan is None or isinstance(plan, str) else msgspec.json.encode(plan).decode(),
        "waits because": item.reason or None,
        "conclusion": item.conclusion or None,
    }
    for name, text in texts.items():
        if text is not None:
            yield f"  {name}: {text[:MAX_BRIEF_CHARS] + '…' if brief and len(text) > MAX_BRIEF_CHARS else text}"
    if not (brief and item.status is PlanStatus.COMPLETED):
        for index, subtask in enumerate(item.subtasks):
            yield f"  {index}. [{'x' if subtask.status is SubtaskStatus.DONE else ' '}] {subtask.title}"
