import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, HoldfastError, Invalid, LeaseLost, OutcomeUnknown, StoreFull, Unavailable
from holdfast.domain.tool import ToolClass
from holdfast.tools.middleware import (
    catch_errors,
    limit_output,
    limit_time,
    validate_arguments,
    with_standard_middleware,
)
from holdfast.tools.tool import ResumableTool, TimerFired, Tool, ToolContext, ToolResult, wrap_tool
from tests.support.calls import Raiser, Recorder, ResumableRecorder, a_call, a_spec

WRAPPERS: list[Callable[[Tool], Tool]] = [
    *(partial(wrap_tool, middleware=each) for each in (limit_output, validate_arguments, catch_errors, limit_time)),
    with_standard_middleware,
]
NUMBER: dict[str, Json] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class Sleeper:
    """A tool that never returns."""

    def __init__(self, kind: ToolClass, *, read_only: bool = False, timeout: float = 0.001) -> None:
        self.spec = a_spec(kind=kind, read_only=read_only, timeout=timeout)

    async def run(self, call: ToolContext, arguments: dict[str, Json]) -> ToolResult:
        await asyncio.Event().wait()
        return ToolResult()

    async def resume(self, call: ToolContext, arguments: dict[str, Json], cause: object) -> ToolResult:
        return await self.run(call, arguments)


@pytest.mark.parametrize("wrapper", WRAPPERS)
async def test_middleware_changes_neither_the_spec_nor_a_good_result(wrapper: Callable[[Tool], Tool]) -> None:
    tool = Recorder(ToolResult(content={"a": [1]}))
    wrapped = wrapper(tool)
    assert wrapped.spec is tool.spec
    assert await wrapped.run(a_call(), {"n": 1}) == ToolResult(content={"a": [1]})
    assert tool.arguments == [{"n": 1}]


@pytest.mark.parametrize("wrapper", WRAPPERS)
async def test_only_a_resumable_tool_stays_resumable(wrapper: Callable[[Tool], Tool]) -> None:
    assert not isinstance(wrapper(Recorder()), ResumableTool)
    tool = wrapper(ResumableRecorder())
    assert isinstance(tool, ResumableTool)
    assert await tool.resume(a_call(), {}, TimerFired()) == ToolResult(content="seen")


async def test_invalid_arguments_fail_without_running_the_tool() -> None:
    tool = Recorder(spec=a_spec(parameters=NUMBER))
    outcome = await wrap_tool(tool, validate_arguments).run(a_call(), {"n": "one"})
    assert outcome.failed
    assert outcome.content.startswith("INVALID: the arguments of `look` do not match:")
    assert tool.arguments == []


async def test_a_tool_with_an_invalid_schema_cannot_be_called() -> None:
    tool = Recorder(spec=a_spec(parameters={"type": "object", "properties": {"a": {"type": "thing"}}}))
    outcome = await wrap_tool(tool, validate_arguments).run(a_call(), {})
    assert outcome.failed
    assert "its parameters are not a JSON Schema" in outcome.content


async def test_a_holdfast_error_is_a_failed_result_with_its_code() -> None:
    outcome = await wrap_tool(Raiser(Conflict("there are two of them: say which")), catch_errors).run(a_call(), {})
    assert outcome == ToolResult(content="CONFLICT: there are two of them: say which", failed=True)


@pytest.mark.parametrize("kind", ToolClass)
async def test_a_lost_lease_is_raised(kind: ToolClass) -> None:
    with pytest.raises(LeaseLost):
        await with_standard_middleware(Raiser(LeaseLost("gone"), kind=kind)).run(a_call(), {})


async def test_an_unavailable_store_is_raised() -> None:
    with pytest.raises(StoreFull):
        await with_standard_middleware(Raiser(StoreFull("no room"), kind=ToolClass.TRANSACTIONAL)).run(a_call(), {})


@pytest.mark.parametrize(
    ("error", "kind", "unknown"),
    [
        (Unavailable("down"), ToolClass.IDEMPOTENT, False),
        (Unavailable("down"), ToolClass.EFFECTFUL, False),
        (OutcomeUnknown("cut off"), ToolClass.IDEMPOTENT, False),
        (OutcomeUnknown("cut off"), ToolClass.EFFECTFUL, True),
        (Invalid("no"), ToolClass.EFFECTFUL, False),
    ],
)
async def test_only_an_effect_that_may_have_happened_is_unknown(
    error: HoldfastError, kind: ToolClass, unknown: bool
) -> None:
    outcome = await wrap_tool(Raiser(error, kind=kind), catch_errors).run(a_call(), {})
    assert (outcome.failed, outcome.unknown) == (True, unknown)
    assert outcome.content == f"{error.code}: {error.message}"


@pytest.mark.parametrize("error", [KeyError("x"), TimeoutError("the tool's own")])
async def test_any_other_exception_is_raised(error: Exception) -> None:
    with pytest.raises(type(error)):
        await with_standard_middleware(Raiser(error)).run(a_call(), {})


@pytest.mark.parametrize(
    ("kind", "read_only", "expected", "unknown"),
    [
        (ToolClass.TRANSACTIONAL, False, "it changed nothing", False),
        (ToolClass.IDEMPOTENT, True, "it changed nothing", False),
        (ToolClass.IDEMPOTENT, False, "it is not known whether it took effect: verify", False),
        (ToolClass.EFFECTFUL, False, "it is not known whether it took effect: verify", True),
    ],
)
async def test_a_tool_that_takes_too_long_is_stopped(
    kind: ToolClass, read_only: bool, expected: str, unknown: bool
) -> None:
    tool = wrap_tool(Sleeper(kind, read_only=read_only), limit_time)
    assert isinstance(tool, ResumableTool)
    for outcome in (await tool.run(a_call(), {}), await tool.resume(a_call(), {}, TimerFired())):
        assert outcome.failed
        assert outcome.unknown is unknown
        assert outcome.content.startswith(f"`look` was stopped after 0.001 seconds: {expected}")


async def test_a_cancelled_call_has_no_result() -> None:
    tool = Sleeper(ToolClass.IDEMPOTENT, timeout=60)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await with_standard_middleware(tool).run(a_call(), {})
