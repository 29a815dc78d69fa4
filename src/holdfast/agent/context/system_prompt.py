"""The system prompt: its segments, ordered from stable to changing, because providers cache common prefixes.

core · safety · AGENT.md · SOUL.md · skills │ environment · memories │ plan · todo · time
the same for each run of an agent           │ for each run           │ for each call
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from holdfast.agent.prompt import load_text, render_text
from holdfast.domain.agent import Agent
from holdfast.domain.agent_task import minimal_agent_task
from holdfast.domain.context import text_digest
from holdfast.domain.instant import Instant
from holdfast.domain.plan import Plan, PlanItem, PlanStatus, SubtaskStatus, Todo
from holdfast.domain.run import Mode, Run
from holdfast.domain.untrusted import fence_text
from holdfast.ports.model import TokenCounter

MAX_CACHED_SEGMENTS: Final = 128
"""How many measured segments are kept: those of an agent are the same for every call."""


class PromptSegment(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the system prompt."""

    name: str
    text: str
    digest: str
    tokens: int


class SegmentFactory:
    """Makes segments; what it measured lately it does not measure again."""

    def __init__(self, tokens: TokenCounter) -> None:
        self._tokens = tokens
        self._filled = lru_cache(maxsize=MAX_CACHED_SEGMENTS)(self._fill)
        self._quoted = lru_cache(maxsize=MAX_CACHED_SEGMENTS)(self._quote)

    def from_text(self, name: str, said: str) -> PromptSegment:
        """Return the segment that says just that."""
        return PromptSegment(name=name, text=said, digest=text_digest(said), tokens=self._tokens.count(said))

    def from_file(self, name: str) -> PromptSegment:
        """Return the segment of the text of that name."""
        return self.from_text(name, load_text(name))

    def from_template(self, name: str, **values: str) -> PromptSegment:
        """Return the segment of the text of that name with `{values}` in place, which are likely to come again."""
        return self._filled(name, **values)

    def from_untrusted(self, name: str, said: str, *, tag: str) -> PromptSegment:
        """Return the text of that name, and what somebody else wrote between tags that it cannot close."""
        return self._quoted(name, said, tag)

    def _fill(self, name: str, **values: str) -> PromptSegment:
        return self.from_text(name, render_text(name, **values))

    def _quote(self, name: str, said: str, tag: str) -> PromptSegment:
        return self.from_text(name, f"{load_text(name)}\n{fence_text(said.strip(), tag=tag)}")


MAX_MEMORY_TOKENS: Final = 4_000
MAX_PLAN_TOKENS: Final = 8_000
MAX_NAME_CHARS: Final = 200
"""Characters of a name in the environment."""

_MODE_DESCRIPTIONS: Final[Mapping[Mode, str]] = {
    Mode.CHAT: "a conversation; the user reads what you say and can reply",
    Mode.TASK: "a piece of work; carry it through without waiting for a reply, then report",
    Mode.DAEMON: "a regular beat; do what is due now, and nothing if nothing is",
    Mode.API: "a program asked; answer in the form that it asked for",
}


class PromptSkill(msgspec.Struct, frozen=True, kw_only=True):
    """An active skill: what it tells the model."""

    name: str
    text: str


class PromptInput(msgspec.Struct, frozen=True, kw_only=True):
    """All that a system prompt is made of. What is empty has no segment."""

    agent: Agent
    run: Run
    workspace: str
    now: Instant
    """Give the same time to all calls that should share a cache."""
    locale: str | None = None
    skills: Sequence[PromptSkill] = ()
    memories: Sequence[str] = ()
    """The most relevant first: they are taken while there is room."""
    plan: Plan = Plan()
    todo: Todo = Todo()


class PromptComposer:
    """Puts system prompts together. One is enough for a process."""

    def __init__(self, tokens: TokenCounter) -> None:
        self._tokens = tokens
        self._segments = SegmentFactory(tokens)
        self._shared_segments = [self._segments.from_file("core"), self._segments.from_file("safety")]

    def compose(self, given: PromptInput) -> list[PromptSegment]:
        """Return the segments of a system prompt, in order."""
        return [
            *self._shared_segments,
            *self._agent_segments(given),
            *self._run_segments(given),
            *self._call_segments(given),
        ]

    def _agent_segments(self, given: PromptInput) -> Iterator[PromptSegment]:
        agent, quoted = given.agent, self._segments.from_untrusted
        if agent.instructions.strip():
            yield quoted("agent", agent.instructions, tag="agent-instructions")
        if agent.soul and agent.soul.strip():
            yield quoted("soul", agent.soul, tag="soul")
        if given.skills:
            yield self._segments.from_text("skills", _skills_text(given.skills))

    def _run_segments(self, given: PromptInput) -> Iterator[PromptSegment]:
        yield self._environment(given)
        if given.memories and (memories := _memories_text(given.memories, self._tokens)):
            yield self._segments.from_untrusted("memories", memories, tag="untrusted")

    def _call_segments(self, given: PromptInput) -> Iterator[PromptSegment]:
        if given.plan.items and (plan := render_plan(given.plan, tokens=self._tokens, max_tokens=MAX_PLAN_TOKENS)):
            yield self._segments.from_untrusted("plan", plan, tag="plan")
        if given.todo.items:
            yield self._segments.from_untrusted("todo", _todo_text(given.todo), tag="todo")
        yield self._segments.from_template("time", now=given.now)

    def _environment(self, given: PromptInput) -> PromptSegment:
        return self._segments.from_template(
            "environment",
            workspace=_single_line(given.workspace),
            agent=_single_line(given.agent.name),
            mode=given.run.mode,
            meaning=_MODE_DESCRIPTIONS[given.run.mode],
            thread=given.run.thread_id,
            locale=_single_line(given.locale) if given.locale else "not known; answer in the language of the user",
        )


def _skills_text(skills: Sequence[PromptSkill]) -> str:
    told = [f"{_single_line(skill.name)}:\n{fence_text(skill.text.strip(), tag='skill')}" for skill in skills]
    return "\n".join([load_text("skills"), *told])


def _memories_text(memories: Sequence[str], tokens: TokenCounter) -> str:
    """Return those that fit; one that does not leaves its room to the next."""
    kept, room = [], MAX_MEMORY_TOKENS
    for memory in memories:
        told = f"- {memory.strip()}"
        length = tokens.count(told)
        if length <= room:
            kept.append(told)
            room -= length
    return "\n".join(kept)


def _todo_text(todo: Todo) -> str:
    return "\n".join(
        f"- [{'x' if item.done else ' '}] {_single_line(item.text, max_chars=1_000)}" for item in todo.items
    )


def _single_line(text: str, *, max_chars: int = MAX_NAME_CHARS) -> str:
    """Return `said` as one line of at most `most` characters."""
    words = " ".join(text.split())
    return words if len(words) <= max_chars else f"{words[: max_chars - 1]}…"


MAX_BRIEF_CHARS: Final = 300
"""Characters of each text of an item, when the whole plan is too long."""


def render_plan(plan: Plan, *, tokens: TokenCounter, max_tokens: int) -> str:
    """Return the plan in about `most` tokens: if it is longer, its texts are cut and the oldest completed items go.

    What is open is never left out.
    """
    items = [item for item in plan.items if item.status is not PlanStatus.CANCELLED]
    whole = _render_items(items, brief=False)
    if len(whole) <= max_tokens or tokens.count(whole) <= max_tokens:
        return whole
    told = [(item, "\n".join(_item_lines(item, brief=True))) for item in items]
    lengths = {item.task_id: tokens.count(text) for item, text in told}
    left_out = _items_to_omit(items, spare=sum(lengths.values()) - max_tokens, lengths=lengths)
    note = [f"({len(left_out)} tasks that were completed earlier are left out)"] if left_out else []
    return "\n".join([*note, *(text for item, text in told if item.task_id not in left_out)])


def _render_items(items: Iterable[PlanItem], *, brief: bool) -> str:
    return "\n".join(line for item in items for line in _item_lines(item, brief=brief))


def _items_to_omit(items: Iterable[PlanItem], *, spare: int, lengths: dict[int, int]) -> set[int]:
    """Return the completed items to leave out, the oldest first, until `spare` tokens are saved."""
    left_out: set[int] = set()
    for item in sorted(items, key=lambda item: item.task_id):
        if spare <= 0:
            break
        if item.status is PlanStatus.COMPLETED:
            left_out.add(item.task_id)
            spare -= lengths[item.task_id]
    return left_out


def _item_lines(item: PlanItem, *, brief: bool) -> Iterator[str]:
    yield f"#{item.task_id} [{minimal_agent_task(item).status}, {item.priority}] {item.title}"
    for name, said in _item_texts(item):
        yield f"  {name}: {said[:MAX_BRIEF_CHARS] + '…' if brief and len(said) > MAX_BRIEF_CHARS else said}"
    if not (brief and item.status is PlanStatus.COMPLETED):
        for index, subtask in enumerate(item.subtasks):
            yield f"  {index}. [{'x' if subtask.status is SubtaskStatus.DONE else ' '}] {subtask.title}"


def _item_texts(item: PlanItem) -> Iterator[tuple[str, str]]:
    if item.description:
        yield "description", item.description
    if item.plan is not None:
        yield "plan", item.plan if isinstance(item.plan, str) else msgspec.json.encode(item.plan).decode()
    if item.reason:
        yield "waits because", item.reason
    if item.conclusion:
        yield "conclusion", item.conclusion
