"""The layers of the system prompt, in an order that keeps what changes rarely first: providers cache what is the same.

core · safety · AGENT.md · SOUL.md · skills │ environment · memories │ plan · todo · time
the same for each run of an agent           │ for each run           │ for each call
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from holdfast.agent.prompt.plan import plan_text
from holdfast.agent.prompt.segment import Segment, Segments
from holdfast.agent.prompt.texts import text
from holdfast.domain.agent import Agent
from holdfast.domain.instant import Instant
from holdfast.domain.plan import Plan, Todo
from holdfast.domain.run import Mode, Run
from holdfast.domain.untrusted import fence_text
from holdfast.ports.model import TokenCounter

MEMORY_TOKENS: Final = 4_000
PLAN_TOKENS: Final = 8_000
LONGEST_NAME: Final = 200
"""Characters of a name in the environment."""

_MEANINGS: Final[Mapping[Mode, str]] = {
    Mode.CHAT: "a conversation; the user reads what you say and can reply",
    Mode.TASK: "a piece of work; carry it through without waiting for a reply, then report",
    Mode.DAEMON: "a regular beat; do what is due now, and nothing if nothing is",
    Mode.API: "a program asked; answer in the form that it asked for",
}


class Skill(msgspec.Struct, frozen=True, kw_only=True):
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
    skills: Sequence[Skill] = ()
    memories: Sequence[str] = ()
    """The most relevant first: they are taken while there is room."""
    plan: Plan = Plan()
    todo: Todo = Todo()


class Prompts:
    """Puts system prompts together. One is enough for a process."""

    def __init__(self, tokens: TokenCounter) -> None:
        self._tokens = tokens
        self._segments = Segments(tokens)
        self._of_all = [self._segments.standing("core"), self._segments.standing("safety")]

    def compose(self, given: PromptInput) -> list[Segment]:
        """Return the segments of a system prompt, in order."""
        return [*self._of_all, *self._of_agent(given), *self._of_run(given), *self._of_call(given)]

    def _of_agent(self, given: PromptInput) -> Iterator[Segment]:
        agent, quoted = given.agent, self._segments.quoted
        if agent.instructions.strip():
            yield quoted("agent", agent.instructions, tag="agent-instructions")
        if agent.soul and agent.soul.strip():
            yield quoted("soul", agent.soul, tag="soul")
        if given.skills:
            yield self._segments.plain("skills", _skills(given.skills))

    def _of_run(self, given: PromptInput) -> Iterator[Segment]:
        yield self._environment(given)
        if given.memories and (memories := _memories(given.memories, self._tokens)):
            yield self._segments.quoted("memories", memories, tag="untrusted")

    def _of_call(self, given: PromptInput) -> Iterator[Segment]:
        if given.plan.items and (plan := plan_text(given.plan, tokens=self._tokens, most=PLAN_TOKENS)):
            yield self._segments.quoted("plan", plan, tag="plan")
        if given.todo.items:
            yield self._segments.quoted("todo", _todo(given.todo), tag="todo")
        yield self._segments.filled("time", now=given.now)

    def _environment(self, given: PromptInput) -> Segment:
        return self._segments.filled(
            "environment",
            workspace=_line(given.workspace),
            agent=_line(given.agent.name),
            mode=given.run.mode,
            meaning=_MEANINGS[given.run.mode],
            thread=given.run.thread_id,
            locale=_line(given.locale) if given.locale else "not known; answer in the language of the user",
        )


def _skills(skills: Sequence[Skill]) -> str:
    told = [f"{_line(skill.name)}:\n{fence_text(skill.text.strip(), tag='skill')}" for skill in skills]
    return "\n".join([text("skills"), *told])


def _memories(memories: Sequence[str], tokens: TokenCounter) -> str:
    """Return those that fit; one that does not leaves its room to the next."""
    kept, room = [], MEMORY_TOKENS
    for memory in memories:
        told = f"- {memory.strip()}"
        length = tokens.count(told)
        if length <= room:
            kept.append(told)
            room -= length
    return "\n".join(kept)


def _todo(todo: Todo) -> str:
    return "\n".join(f"- [{'x' if item.done else ' '}] {_line(item.text, most=1_000)}" for item in todo.items)


def _line(said: str, *, most: int = LONGEST_NAME) -> str:
    """Return `said` as one line of at most `most` characters."""
    words = " ".join(said.split())
    return words if len(words) <= most else f"{words[: most - 1]}…"
