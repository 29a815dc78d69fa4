from typing import Any, Final

import pytest

from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import InterruptId, ToolCallId
from holdfast.domain.interrupt import InterruptKind, NewInterrupt
from holdfast.tools.builtin.waiting import ASK_USER, MAX_OPTIONS, TASK_RESPOND
from holdfast.tools.middleware import with_standard_middleware
from holdfast.tools.tool import InterruptResolved, InterruptWait, Preempted, TimerFired, ToolResult
from holdfast.tools.typed_tool import TypedResumableTool
from tests.support.calls import KEY, a_call

TOOLS: Final[dict[str, tuple[TypedResumableTool[Any], dict[str, Json]]]] = {
    "ask_user": (ASK_USER, {"question": "Which one?"}),
    "task_respond": (TASK_RESPOND, {"message": "Which one?"}),
}
both = pytest.mark.parametrize(("tool", "arguments"), TOOLS.values(), ids=TOOLS)


def question_result(response_schema: dict[str, Json] | None = None) -> ToolResult:
    return ToolResult(
        wait=InterruptWait(
            interrupt=NewInterrupt(
                kind=InterruptKind.INPUT,
                id=InterruptId(derived_id("int", key=KEY)),
                message="Which one?",
                tool_call_id=ToolCallId("call_1"),
                response_schema=response_schema,
            )
        )
    )


@both
async def test_the_run_waits_for_a_person(tool: TypedResumableTool[Any], arguments: dict[str, Json]) -> None:
    assert await tool.run(a_call(), arguments) == question_result()


async def test_options_become_the_response_schema() -> None:
    outcome = await ASK_USER.run(a_call(), {"question": "Which one?", "options": ["a", "b"]})
    assert outcome == question_result({"type": "string", "enum": ["a", "b"]})


@both
@pytest.mark.parametrize("response", ["the left one", {"side": "left"}, None, False])
async def test_the_response_is_the_result(
    tool: TypedResumableTool[Any], arguments: dict[str, Json], response: Json
) -> None:
    outcome = await tool.resume(a_call(), arguments, InterruptResolved(response=response, by="ada"))
    assert outcome == ToolResult(content=response)


@both
async def test_without_a_response_in_time_the_default_is_returned(
    tool: TypedResumableTool[Any], arguments: dict[str, Json]
) -> None:
    outcome = await tool.resume(a_call(), arguments, InterruptResolved(response={"go": 1}, expired=True))
    assert outcome == ToolResult(content='nobody answered in time. The default is {"go":1}: go on with that')


@both
async def test_without_a_response_or_default_the_model_decides(
    tool: TypedResumableTool[Any], arguments: dict[str, Json]
) -> None:
    outcome = await tool.resume(a_call(), arguments, InterruptResolved(response=None, expired=True))
    assert outcome == ToolResult(content="nobody answered in time, and there is no default: go on as you think best")


@both
async def test_another_message_preempts_the_question(tool: TypedResumableTool[Any], arguments: dict[str, Json]) -> None:
    outcome = await tool.resume(a_call(), arguments, Preempted())
    assert outcome == ToolResult(content="not answered: the person said something else instead")


@both
async def test_an_unexpected_cause_is_refused(tool: TypedResumableTool[Any], arguments: dict[str, Json]) -> None:
    with pytest.raises(Conflict, match="does not wait for TimerFired"):
        await tool.resume(a_call(), arguments, TimerFired())


@pytest.mark.parametrize(
    "wrong",
    [
        {"question": ""},
        {"question": "a\x00"},
        {"options": []},
        {"options": [""]},
        {"options": ["a", "a"]},
        {"options": [str(number) for number in range(MAX_OPTIONS + 1)]},
    ],
)
async def test_an_invalid_question_is_refused(wrong: dict[str, Json]) -> None:
    outcome = await with_standard_middleware(ASK_USER).run(a_call(), {"question": "Which one?", **wrong})
    assert outcome.failed
    assert outcome.wait is None
