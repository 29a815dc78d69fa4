"""Structured output: the final answer of a run is JSON that matches a schema.

An answer that does not match stays in the conversation, and the next model call is told what is wrong with it. Both are
derived from the conversation, so a worker that takes over knows them too.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from holdfast.domain.agent import Agent
from holdfast.domain.content import Content, Json, plain_text
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import RunId
from holdfast.domain.message import Message, Role
from holdfast.domain.run import Run
from holdfast.tools.json_schema import compile_schema
from holdfast.tools.schema_check import find_problems

MAX_OUTPUT_TRIES: Final = 3
"""Final answers in a row that may fail the check, before the run fails."""
MAX_PROBLEMS: Final = 5
OUTPUT_INVALID: Final = "OUTPUT_INVALID"

OutputSchema: TypeAlias = dict[str, Json]


class CheckedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The value of a final answer, or the problems that it has."""

    value: Json = None
    problems: Sequence[str] = ()


def output_schema(run: Run, agent: Agent) -> OutputSchema | None:
    """Return the schema that the output of a run must match: that of its request, or else of its agent."""
    return agent.output if run.output_schema is None else run.output_schema


async def check_output(content: Content, schema: OutputSchema) -> CheckedOutput:
    """Decode a final answer and check it against the schema."""
    text = plain_text(content).strip()
    if not text:
        return CheckedOutput(problems=["the answer is empty"])
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as exc:
        return CheckedOutput(problems=[f"the answer is not JSON: {exc}"])
    try:
        compiled = compile_schema(msgspec.json.encode(schema))
        problems = await find_problems(compiled, value, name="answer", limit=MAX_PROBLEMS)
    except Invalid as exc:
        problems = [exc.message]
    return CheckedOutput(problems=problems) if problems else CheckedOutput(value=value)


def rejected_answers(messages: Sequence[Message], run_id: RunId) -> list[Message]:
    """Return the final answers at the end of an active run's conversation, newest first: each of them was rejected."""
    rejected = []
    for message in reversed(messages):
        if message.run_id != run_id or message.role is not Role.ASSISTANT or message.tool_calls:
            break
        rejected.append(message)
    return rejected
