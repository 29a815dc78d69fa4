"""Builders of messages, contexts, agents and runs."""

from collections.abc import Mapping
from itertools import count
from typing import Final

from msgspec.structs import replace

from holdfast.agent.context.assembly import AssembledContext, ContextInput, assemble
from holdfast.agent.context.system_prompt import PromptSegment, SegmentFactory
from holdfast.agent.context.tokens import EstimatedTokens, MessageSizer
from holdfast.domain.agent import Agent
from holdfast.domain.content import Content, Json
from holdfast.domain.context import NO_COMPACTION, Compaction
from holdfast.domain.ids import MessageId, RunId, ThreadId, ToolCallId
from holdfast.domain.instant import Instant
from holdfast.domain.message import Message, Role, ToolCall
from holdfast.domain.run import Mode, Run
from tests.support.calls import a_run

RUN: Final = RunId("run_now")
THREAD: Final = ThreadId("thr_1")
NOW: Final = Instant("2026-05-01T09:30:00.000Z")
WINDOW: Final = 100_000
TOKENS: Final = EstimatedTokens()


class Log:
    """A conversation that grows message by message."""

    def __init__(self, *, run: RunId = RUN, first: int = 0) -> None:
        self.run = run
        self.messages: list[Message] = []
        self._sequences = count(first)

    def add(
        self,
        role: Role,
        content: Content,
        *calls: ToolCall,
        call_id: str | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> Message:
        """Append a message."""
        sequence = next(self._sequences)
        message = Message(
            id=MessageId(f"msg_{sequence}"),
            thread_id=THREAD,
            run_id=self.run,
            role=role,
            content=content,
            tool_calls=list(calls),
            tool_call_id=None if call_id is None else ToolCallId(call_id),
            sequence=sequence,
            revises=None,
            metadata=dict(metadata or {}),
            created_by=None,
            created_at=NOW,
        )
        self.messages.append(message)
        return message

    def user(self, text: str) -> Message:
        """Append a user message."""
        return self.add(Role.USER, text)

    def says(self, text: str) -> Message:
        """Append an assistant message."""
        return self.add(Role.ASSISTANT, text)

    def exchange(self, *calls: ToolCall, text: str = "", result: str = "seen", failed: bool = False) -> Message:
        """Append an assistant message with tool calls, and their results."""
        message = self.add(Role.ASSISTANT, text, *calls)
        for called in calls:
            self.add(Role.TOOL, result, call_id=called.id, metadata={"failed": "failed"} if failed else None)
        return message

    def skip(self, numbers: int) -> None:
        """Skip sequences, as if another branch of the thread had used them."""
        for _ in range(numbers):
            next(self._sequences)


def call(id: str, name: str = "look", **arguments: Json) -> ToolCall:
    """Return a tool call."""
    return ToolCall(id=ToolCallId(id), name=name, arguments=arguments)


def segment(name: str = "core", text: str = "You are an agent.") -> PromptSegment:
    """Return a segment of a system prompt."""
    return SegmentFactory(TOKENS).from_text(name, text)


def context_input(
    log: Log,
    *,
    goal: Message | None = None,
    window: int = WINDOW,
    whole: bool = True,
    compaction: Compaction = NO_COMPACTION,
    reminders: tuple[str, ...] = (),
) -> ContextInput:
    """Return the input of a context."""
    return ContextInput(
        messages=log.messages,
        whole=whole,
        goal=goal,
        segments=[segment()],
        window=window,
        compaction=compaction,
        reminders=reminders,
    )


def assemble_context(inputs: ContextInput) -> AssembledContext:
    """Assemble a context without cached sizes."""
    return assemble(inputs, sizes=MessageSizer(TOKENS))


def texts(context: AssembledContext) -> list[str]:
    """Return the texts of the messages of a context."""
    return [message.content if isinstance(message.content, str) else "" for message in context.messages]


def agent(*, instructions: str = "Help.", soul: str | None = None) -> Agent:
    """Return an agent."""
    return Agent(name="clerk", description="a clerk", models=["scripted:x"], instructions=instructions, soul=soul)


def run(*, mode: Mode = Mode.CHAT) -> Run:
    """Return a running run of the agent."""
    return replace(a_run(id=RUN, mode=mode), agent_type="clerk")
