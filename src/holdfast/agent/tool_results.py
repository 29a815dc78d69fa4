"""Results of tool calls: result, effects and step are recorded in one commit; unknown outcomes are resolved.

If the worker was lost during an effectful call, its outcome is unknown. Its step settles as `unknown` first; then the
agent's policy applies: `tell` the model, `ask` a person, or `fail` the run.
"""

from typing import Final

from msgspec import UNSET

from holdfast.agent.run_context import RunContext, RunFailureSignal
from holdfast.agent.skill_contracts import record_evidence
from holdfast.domain.agent import UnknownOutcome
from holdfast.domain.content import Json
from holdfast.domain.events import SubagentError, SubagentFinished, SubagentStarted, ToolCallResult
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import InterruptId, MessageId, RunId
from holdfast.domain.interrupt import InterruptKind, NewInterrupt
from holdfast.domain.message import FAILED_METADATA_KEY, NewMessage, Role, ToolCall
from holdfast.domain.run import RunError, RunStatus
from holdfast.domain.step import Step, StepState
from holdfast.tools.content import as_text
from holdfast.tools.tool import ChildEnded, InterruptResolved, ToolResult

TOOL_NAME_KEY: Final = "tool"
"""The key of a tool's name in the metadata of its result."""


def settle_call(
    ctx: RunContext, call: ToolCall, step: Step, result: ToolResult, *, message_id: MessageId | None = None
) -> None:
    """Add the result of a call and its effects to the draft, and settle its step."""
    state = StepState.UNKNOWN if result.unknown else StepState.FAILED if result.failed else StepState.DONE
    apply_effects(ctx, result)
    record_evidence(ctx, call, result)
    add_tool_result(ctx, call, step, as_text(result.content), state, message_id=message_id)
    ctx.writer.record_step(ctx.ledger.settle(step, state))


def add_tool_result(
    ctx: RunContext,
    call: ToolCall,
    step: Step,
    content: str,
    state: StepState,
    *,
    message_id: MessageId | None = None,
) -> None:
    """Add the result message of a call to the draft, under the given id unless another message has it."""
    if message_id is None or message_id in {
        *(each.id for each in ctx.conversation.messages),
        *(each.id for each in ctx.writer.draft.messages),
    }:
        message_id = MessageId(derived_id("msg", key=f"{step.key}.{step.number}"))
    metadata = {TOOL_NAME_KEY: call.name}
    if state is not StepState.DONE:
        metadata[FAILED_METADATA_KEY] = str(state)
    ctx.writer.draft.messages.append(
        NewMessage(id=message_id, role=Role.TOOL, content=content, tool_call_id=call.id, metadata=metadata)
    )
    ctx.writer.emit(ToolCallResult(message_id=message_id, tool_call_id=call.id, content=content, role="tool"))


def apply_effects(ctx: RunContext, result: ToolResult) -> None:
    """Add the effects of a tool call to the draft: values, artifacts, memories, child runs and events."""
    ctx.set_values(result.values)
    ctx.set_values({name: revise(ctx.values.get(name)) for name, revise in result.revisions.items()})
    ctx.writer.draft.artifacts += result.artifacts
    ctx.writer.draft.memories += result.memories
    ctx.writer.draft.children += result.children
    ctx.writer.emit_custom(*result.events)


def emit_subagent_started(ctx: RunContext, call: ToolCall, run_id: RunId) -> None:
    """Emit that a child run has started, unless the segment has it already."""
    if run_id not in ctx.writer.stream.open_subagents:
        name = str(call.arguments.get("agent", "agent"))
        ctx.writer.emit(SubagentStarted(subagent_run_id=run_id, name=name, parent_tool_call_id=call.id))


def emit_subagent_ended(ctx: RunContext, call: ToolCall, ended: ChildEnded) -> None:
    """Emit the end of a child run that a call waited for."""
    emit_subagent_started(ctx, call, ended.run_id)  # its start may be in an earlier segment
    if ended.status is RunStatus.COMPLETED:
        ctx.writer.emit(SubagentFinished(subagent_run_id=ended.run_id))
        return
    code = UNSET if ended.error is None else ended.error.code
    message = f"the run was {ended.status}" if ended.error is None else ended.error.message
    ctx.writer.emit(SubagentError(subagent_run_id=ended.run_id, message=message, code=code))


UNKNOWN_OUTCOME_RESULT: Final = (
    "unknown: the worker was lost while `{name}` ran, so nobody knows whether it happened. "
    "Find out before you try it again."
)
UNKNOWN_OUTCOME_MESSAGE: Final = (
    "The worker was lost while the agent's call of `{name}` ran, so nobody knows whether it happened. "
    "Please find out, and say how the agent should continue."
)
UNKNOWN_OUTCOME_SCHEMA: Final[dict[str, Json]] = {
    "type": "object",
    "required": ["outcome"],
    "properties": {
        "outcome": {"enum": ["happened", "did_not_happen", "run_again"]},
        "result": {"description": "the result of the call, if it happened"},
    },
}


def unknown_outcome_key(step: Step) -> str:
    """Return the key of the interrupt that asks about the unknown outcome of a step."""
    return f"{step.key}.{step.number}.unknown"


def settle_unknown_outcome(ctx: RunContext, call: ToolCall, step: Step) -> NewInterrupt | None:
    """Settle a call with an unknown outcome by the agent's policy; return the interrupt to open, if any."""
    ctx.writer.record_step(ctx.ledger.settle(step, StepState.UNKNOWN))
    match ctx.agent.unknown_outcome:
        case UnknownOutcome.TELL:
            add_tool_result(ctx, call, step, UNKNOWN_OUTCOME_RESULT.format(name=call.name), StepState.UNKNOWN)
            return None
        case UnknownOutcome.FAIL:
            raise RunFailureSignal(
                RunError(code="UNKNOWN_OUTCOME", message=UNKNOWN_OUTCOME_RESULT.format(name=call.name))
            )
        case UnknownOutcome.ASK:
            return NewInterrupt(
                kind=InterruptKind.INPUT,
                id=InterruptId(derived_id("int", key=unknown_outcome_key(step))),
                message=UNKNOWN_OUTCOME_MESSAGE.format(name=call.name),
                tool_call_id=call.id,
                arguments=call.arguments,
                response_schema=UNKNOWN_OUTCOME_SCHEMA,
            )


def settle_from_response(ctx: RunContext, call: ToolCall, step: Step, resolved: InterruptResolved) -> bool:
    """Settle a call with an unknown outcome by a person's response; return whether to run it again instead."""
    response = resolved.response if isinstance(resolved.response, dict) else {}
    match response.get("outcome"):
        case "run_again":
            return True
        case "happened":
            content = f"a person found out that it happened. {as_text(response.get('result', ''))}".strip()
        case "did_not_happen":
            content = "a person found out that it did not happen"
        case _:
            content = UNKNOWN_OUTCOME_RESULT.format(name=call.name)
    add_tool_result(ctx, call, step, content, StepState.UNKNOWN)
    return False
