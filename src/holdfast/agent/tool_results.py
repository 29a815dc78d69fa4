"""Results of tool calls: result, effects and step are recorded in one commit; unknown outcomes are resolved.

If the worker was lost during an effectful call, nobody knows whether it happened. Its step settles as `unknown` first;
then the agent's policy applies: `tell` the model, `ask` a person, or `fail` the run.
"""

from typing import Final

from msgspec import UNSET

from holdfast.agent.run_context import RunContext, RunFailed
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


def settle_call(ctx: RunContext, call: ToolCall, step: Step, outcome: ToolResult) -> None:
    """Say what came of a call."""
    state = StepState.UNKNOWN if outcome.unknown else StepState.FAILED if outcome.failed else StepState.DONE
    apply_effects(ctx, outcome)
    add_tool_result(ctx, call, step, as_text(outcome.content), state)
    ctx.writer.record_step(ctx.ledger.settle(step, state))


def add_tool_result(ctx: RunContext, call: ToolCall, step: Step, content: str, state: StepState) -> None:
    """Give a call its result."""
    message_id = MessageId(derived_id("msg", key=f"{step.key}.{step.number}"))
    metadata = (
        {TOOL_NAME_KEY: call.name}
        if state is StepState.DONE
        else {TOOL_NAME_KEY: call.name, FAILED_METADATA_KEY: str(state)}
    )
    ctx.writer.draft.messages.append(
        NewMessage(id=message_id, role=Role.TOOL, content=content, tool_call_id=call.id, metadata=metadata)
    )
    ctx.writer.emit(ToolCallResult(message_id=message_id, tool_call_id=call.id, content=content, role="tool"))


def apply_effects(ctx: RunContext, outcome: ToolResult) -> None:
    """Take what a tool wants done into the next commit."""
    ctx.set_values(outcome.values)
    ctx.set_values({name: revise(ctx.values.get(name)) for name, revise in outcome.revisions.items()})
    ctx.writer.draft.add(artifacts=outcome.artifacts, children=outcome.children)
    ctx.writer.emit_custom(*outcome.events)


def emit_subagent_started(ctx: RunContext, call: ToolCall, run_id: RunId) -> None:
    """Say that a child is at work that the run waits for, unless the segment says so already."""
    if run_id not in ctx.writer.stream.open_subagents:
        name = str(call.arguments.get("agent", "agent"))
        ctx.writer.emit(SubagentStarted(subagent_run_id=run_id, name=name, parent_tool_call_id=call.id))


def emit_subagent_ended(ctx: RunContext, call: ToolCall, ended: ChildEnded) -> None:
    """Say how a child ended that the run waited for."""
    emit_subagent_started(ctx, call, ended.run_id)  # where its segment ended meanwhile
    if ended.status is RunStatus.COMPLETED:
        ctx.writer.emit(SubagentFinished(subagent_run_id=ended.run_id))
        return
    code = UNSET if ended.error is None else ended.error.code
    why = f"the run was {ended.status}" if ended.error is None else ended.error.message
    ctx.writer.emit(SubagentError(subagent_run_id=ended.run_id, message=why, code=code))


UNKNOWN_OUTCOME_RESULT: Final = (
    "unknown: the worker was lost while `{name}` ran, so nobody knows whether it happened. "
    "Find out before you try it again."
)
UNKNOWN_OUTCOME_MESSAGE: Final = (
    "The worker was lost while the agent's call of `{name}` ran, so nobody knows whether it happened. "
    "Please find out, and say what the agent should go on with."
)
UNKNOWN_OUTCOME_SCHEMA: Final[dict[str, Json]] = {
    "type": "object",
    "required": ["outcome"],
    "properties": {
        "outcome": {"enum": ["happened", "did_not_happen", "run_again"]},
        "result": {"description": "what the call gave, if it happened"},
    },
}


def unknown_outcome_key(step: Step) -> str:
    """Return the key under which a person is asked about a step."""
    return f"{step.key}.{step.number}.unknown"


def settle_unknown_outcome(ctx: RunContext, call: ToolCall, step: Step) -> NewInterrupt | None:
    """Settle a call that was cut off as the agent's policy says; return the question to ask, if one is to be asked."""
    ctx.writer.record_step(ctx.ledger.settle(step, StepState.UNKNOWN))
    match ctx.agent.unknown_outcome:
        case UnknownOutcome.TELL:
            add_tool_result(ctx, call, step, UNKNOWN_OUTCOME_RESULT.format(name=call.name), StepState.UNKNOWN)
            return None
        case UnknownOutcome.ASK:
            return _unknown_outcome_interrupt(call, step)
        case UnknownOutcome.FAIL:
            raise RunFailed(RunError(code="UNKNOWN_OUTCOME", message=UNKNOWN_OUTCOME_RESULT.format(name=call.name)))


def settle_from_response(ctx: RunContext, call: ToolCall, step: Step, answered: InterruptResolved) -> bool:
    """Settle a call as a person said; return whether it is to be run again."""
    response = answered.response if isinstance(answered.response, dict) else {}
    match response.get("outcome"):
        case "run_again":
            return True
        case "happened":
            said = f"a person found out that it happened. {as_text(response.get('result', ''))}".strip()
        case "did_not_happen":
            said = "a person found out that it did not happen"
        case _:
            said = UNKNOWN_OUTCOME_RESULT.format(name=call.name)
    add_tool_result(ctx, call, step, said, StepState.UNKNOWN)
    return False


def _unknown_outcome_interrupt(call: ToolCall, step: Step) -> NewInterrupt:
    return NewInterrupt(
        kind=InterruptKind.INPUT,
        id=InterruptId(derived_id("int", key=unknown_outcome_key(step))),
        message=UNKNOWN_OUTCOME_MESSAGE.format(name=call.name),
        tool_call_id=call.id,
        arguments=call.arguments,
        response_schema=UNKNOWN_OUTCOME_SCHEMA,
    )
