"""How a tool call is settled: its result, its effects and its step, in one commit."""

from typing import Final

from msgspec import UNSET

from holdfast.agent.work import Work
from holdfast.domain.events import SubagentError, SubagentFinished, SubagentStarted, ToolCallResult
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import MessageId, RunId
from holdfast.domain.message import FAILED_METADATA_KEY, NewMessage, Role, ToolCall
from holdfast.domain.run import RunStatus
from holdfast.domain.step import Step, StepState
from holdfast.tools.content import as_text
from holdfast.tools.tool import ChildEnded, ToolResult

TOOL: Final = "tool"
"""The key of a tool's name in the metadata of its result."""


def settle(work: Work, call: ToolCall, step: Step, outcome: ToolResult) -> None:
    """Say what came of a call."""
    state = StepState.UNKNOWN if outcome.unknown else StepState.FAILED if outcome.failed else StepState.DONE
    take_effects(work, outcome)
    answer(work, call, step, as_text(outcome.content), state)
    work.log.step(work.ledger.settle(step, state))


def answer(work: Work, call: ToolCall, step: Step, content: str, state: StepState) -> None:
    """Give a call its result."""
    message_id = MessageId(derived_id("msg", key=f"{step.key}.{step.number}"))
    metadata = {TOOL: call.name} if state is StepState.DONE else {TOOL: call.name, FAILED_METADATA_KEY: str(state)}
    work.log.draft.messages.append(
        NewMessage(id=message_id, role=Role.TOOL, content=content, tool_call_id=call.id, metadata=metadata)
    )
    work.log.say(ToolCallResult(message_id=message_id, tool_call_id=call.id, content=content, role="tool"))


def take_effects(work: Work, outcome: ToolResult) -> None:
    """Take what a tool wants done into the next commit."""
    work.set_values(outcome.values)
    work.set_values({name: revise(work.values.get(name)) for name, revise in outcome.revisions.items()})
    work.log.draft.add(artifacts=outcome.artifacts, children=outcome.children)
    work.log.tell(*outcome.events)


def start_subagent(work: Work, call: ToolCall, run_id: RunId) -> None:
    """Say that a child is at work that the run waits for, unless the segment says so already."""
    if run_id not in work.log.stream.open_subagents:
        name = str(call.arguments.get("agent", "agent"))
        work.log.say(SubagentStarted(subagent_run_id=run_id, name=name, parent_tool_call_id=call.id))


def end_subagent(work: Work, call: ToolCall, ended: ChildEnded) -> None:
    """Say how a child ended that the run waited for."""
    start_subagent(work, call, ended.run_id)  # where its segment ended meanwhile
    if ended.status is RunStatus.COMPLETED:
        work.log.say(SubagentFinished(subagent_run_id=ended.run_id))
        return
    code = UNSET if ended.error is None else ended.error.code
    why = f"the run was {ended.status}" if ended.error is None else ended.error.message
    work.log.say(SubagentError(subagent_run_id=ended.run_id, message=why, code=code))
