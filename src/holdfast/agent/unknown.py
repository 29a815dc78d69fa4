"""What is done about an effectful call that was cut off: nobody knows whether it happened.

The step settles as `unknown` before anything else is done. The agent's policy says what follows: `tell` the model,
`ask` a person, or `fail` the run.
"""

from typing import Final

from holdfast.agent.settling import answer
from holdfast.agent.signals import RunFails
from holdfast.agent.work import Work
from holdfast.domain.agent import UnknownOutcome
from holdfast.domain.content import Json
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import InterruptId
from holdfast.domain.interrupt import InterruptKind, NewInterrupt
from holdfast.domain.message import ToolCall
from holdfast.domain.run import RunError
from holdfast.domain.step import Step, StepState
from holdfast.tools.content import as_text
from holdfast.tools.tool import InterruptResolved

TELL: Final = (
    "unknown: the worker was lost while `{name}` ran, so nobody knows whether it happened. "
    "Find out before you try it again."
)
QUESTION: Final = (
    "The worker was lost while the agent's call of `{name}` ran, so nobody knows whether it happened. "
    "Please find out, and say what the agent should go on with."
)
ANSWER_SCHEMA: Final[dict[str, Json]] = {
    "type": "object",
    "required": ["outcome"],
    "properties": {
        "outcome": {"enum": ["happened", "did_not_happen", "run_again"]},
        "result": {"description": "what the call gave, if it happened"},
    },
}


def question_key(step: Step) -> str:
    """Return the key under which a person is asked about a step."""
    return f"{step.key}.{step.number}.unknown"


def settle_unknown(work: Work, call: ToolCall, step: Step) -> NewInterrupt | None:
    """Settle a call that was cut off as the agent's policy says; return the question to ask, if one is to be asked."""
    work.log.step(work.ledger.settle(step, StepState.UNKNOWN))
    match work.agent.unknown_outcome:
        case UnknownOutcome.TELL:
            answer(work, call, step, TELL.format(name=call.name), StepState.UNKNOWN)
            return None
        case UnknownOutcome.ASK:
            return _question(call, step)
        case UnknownOutcome.FAIL:
            raise RunFails(RunError(code="UNKNOWN_OUTCOME", message=TELL.format(name=call.name)))


def settle_as_told(work: Work, call: ToolCall, step: Step, answered: InterruptResolved) -> bool:
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
            said = TELL.format(name=call.name)
    answer(work, call, step, said, StepState.UNKNOWN)
    return False


def _question(call: ToolCall, step: Step) -> NewInterrupt:
    return NewInterrupt(
        kind=InterruptKind.INPUT,
        id=InterruptId(derived_id("int", key=question_key(step))),
        message=QUESTION.format(name=call.name),
        tool_call_id=call.id,
        arguments=call.arguments,
        response_schema=ANSWER_SCHEMA,
    )
