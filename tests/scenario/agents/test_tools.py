"""Tool calls of a model: their order, their steps and their results."""

import asyncio

import pytest

from holdfast.domain.content import Json
from holdfast.domain.errors import Conflict, LeaseLost, Unavailable
from holdfast.domain.message import Message, Role
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.step import StepState
from holdfast.domain.tool import ToolClass
from holdfast.testing.openai_server import StubOpenAIServer, StubReply, StubToolCall
from holdfast.tools.tool import ToolResult
from tests.scenario.agents.agent_workspace import SPACE, STAND_IN, AgentRuntime, AgentWorkspace, call, calling, say
from tests.scenario.agents.fake_tools import READ_ONLY, BlockingTool, FakeTool, fixed_tool, raising_tool


async def results(runtime: AgentRuntime, run: Run) -> list[Message]:
    """Return the tool results in order."""
    return [message for message in await runtime.messages(run) if message.role is Role.TOOL]


async def test_read_only_calls_run_in_parallel_and_settle_in_order(any_workspace: AgentWorkspace) -> None:
    together = asyncio.Barrier(3)

    async def read(arguments: dict[str, Json]) -> ToolResult:
        await together.wait()  # no call passes it alone
        await asyncio.sleep(0.02 if arguments["n"] == 1 else 0)  # the first is done last
        return ToolResult(content=f"read {arguments['n']}")

    reader = FakeTool("read", read, **READ_ONLY)
    any_workspace.agent(calling(*(call("read", n=n) for n in (1, 2, 3))), say("done"), tools=["read"])
    async with any_workspace.open(reader) as runtime:
        run = await runtime.run_to_end()
        assert [message.content for message in await results(runtime, run)] == ["read 1", "read 2", "read 3"]
        assert [step.state for step in await runtime.steps(run)] == [StepState.DONE] * 5
    assert run.output == "done"


@pytest.mark.parametrize("kind", list(ToolClass))
async def test_other_calls_run_one_after_the_other(workspace: AgentWorkspace, kind: ToolClass) -> None:
    at: list[int] = []
    seen: list[tuple[int, ...]] = []

    async def write(arguments: dict[str, Json]) -> ToolResult:
        at.append(arguments["n"])
        await asyncio.sleep(0.002)
        seen.append(tuple(at))
        at.remove(arguments["n"])
        return ToolResult(content=f"wrote {arguments['n']}")

    workspace.agent(calling(*(call("write", n=n) for n in (1, 2, 3))), say("done"), tools=["write"])
    async with workspace.open(FakeTool("write", write, kind=kind)) as runtime:
        run = await runtime.run_to_end()
        assert [message.content for message in await results(runtime, run)] == ["wrote 1", "wrote 2", "wrote 3"]
    assert seen == [(1,), (2,), (3,)]


async def test_one_writing_call_makes_all_calls_run_in_order(workspace: AgentWorkspace) -> None:
    order: list[str] = []

    async def note(arguments: dict[str, Json]) -> ToolResult:
        order.append(arguments["n"])
        return ToolResult(content=arguments["n"])

    tools = FakeTool("read", note, **READ_ONLY), FakeTool("write", note)
    workspace.agent(calling(call("read", n="a"), call("write", n="b"), call("read", n="c")), say("done"), tools=["*"])
    async with workspace.open(*tools) as runtime:
        run = await runtime.run_to_end()
        assert [message.content for message in await results(runtime, run)] == ["a", "b", "c"]
    assert order == ["a", "b", "c"]


async def test_the_start_of_an_effectful_call_is_committed_before_it_runs(any_workspace: AgentWorkspace) -> None:
    gate = BlockingTool()
    any_workspace.agent(calling(call("gate")), say("done"), tools=["gate"])
    async with any_workspace.open(gate) as runtime:
        run = await runtime.start()
        await gate.started.acquire()
        started = (await runtime.steps(run))[-1]
        gate.open.set()
        await runtime.wait_until_ended(run)
    assert (started.name, started.state, started.effectful) == ("gate", StepState.STARTED, True)


async def test_a_tool_gets_the_key_of_its_step(workspace: AgentWorkspace) -> None:
    tool = fixed_tool("look", "seen")
    workspace.agent(calling(call("look"), call("look")), say("done"), tools=["look"])
    async with workspace.open(tool) as runtime:
        run = await runtime.run_to_end()
        steps = await runtime.steps(run)
    assert [call.key for call in tool.calls] == [step.key for step in steps if step.name == "look"]
    assert {call.run.id for call in tool.calls} == {run.id}


ERRORS = [
    ValueError("no luck"),
    KeyError("x"),
    Conflict("not now"),
    Unavailable("gone"),
    ExceptionGroup("two", [ValueError("a"), OSError("b")]),
    TimeoutError(),
    asyncio.CancelledError(),
    SystemExit(3),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("fields", [READ_ONLY, {"kind": ToolClass.IDEMPOTENT}, {}], ids=["reads", "repeats", "acts"])
async def test_a_crashing_tool_is_a_result_for_the_model(
    workspace: AgentWorkspace, error: BaseException, fields: dict[str, Json]
) -> None:
    workspace.agent(calling(call("broken"), call("broken"), call("fine")), say("I see"), tools=["*"])
    async with workspace.open(raising_tool("broken", error, **fields), fixed_tool("fine", "ok", **fields)) as runtime:
        run = await runtime.run_to_end()
        assert (run.status, run.output) == (RunStatus.COMPLETED, "I see")
        broken, result, fine = await results(runtime, run)
        assert [step.state for step in await runtime.steps(run) if step.name == "broken"] == [StepState.FAILED] * 2
    assert broken.metadata["failed"] == "failed"
    assert broken.content
    assert (fine.content, fine.metadata.get("failed")) == ("ok", None)


async def test_a_tool_that_takes_too_long_is_stopped(workspace: AgentWorkspace) -> None:
    reads = BlockingTool("reads", timeout=0.02, **READ_ONLY)
    acts = BlockingTool("acts", timeout=0.02)
    workspace.agent(calling(call("reads"), call("acts")), say("I see"), tools=["*"])
    async with workspace.open(reads, acts) as runtime:
        run = await runtime.run_to_end()
        read, acted = await results(runtime, run)
        states = [step.state for step in await runtime.steps(run)]
    assert run.output == "I see"
    assert (reads.cancellations, acts.cancellations) == (1, 1)
    assert "stopped after 0.02 seconds: it changed nothing" in str(read.content)
    assert "it is not known whether it took effect" in str(acted.content)
    assert states == [StepState.DONE, StepState.FAILED, StepState.UNKNOWN, StepState.DONE]


async def test_an_output_that_is_too_long_is_stored_as_an_artifact(any_workspace: AgentWorkspace) -> None:
    text = "".join(f"line {number}\n" for number in range(2000))
    any_workspace.agent(calling(call("cat")), say("done"), tools=["cat"])
    async with any_workspace.open(fixed_tool("cat", text, output_limit=500)) as runtime:
        run = await runtime.run_to_end()
        (result,) = await results(runtime, run)
        page = await runtime.store.artifacts.page(SPACE, run=run.id)
        whole = await runtime.store.artifacts.get(SPACE, page.items[0].id)
    assert isinstance(result.content, str)
    assert len(result.content) <= 500
    assert whole.id in result.content
    assert whole.content == text


async def test_invalid_arguments_never_reach_the_tool(workspace: AgentWorkspace) -> None:
    schema: dict[str, Json] = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    tool = fixed_tool("count", "counted", parameters=schema)
    workspace.agent(calling(call("count", n="three"), call("count"), call("count", n=3)), say("done"), tools=["count"])
    async with workspace.open(tool) as runtime:
        run = await runtime.run_to_end()
        wrong, missing, right = await results(runtime, run)
    assert len(tool.calls) == 1
    assert "`n`: it must be integer" in str(wrong.content)
    assert "`n` is missing" in str(missing.content)
    assert right.content == "counted"


async def test_an_unknown_tool_is_a_result_for_the_model(workspace: AgentWorkspace) -> None:
    replies = StubReply(calls=[StubToolCall(name="logwrite", arguments={"message": "x"})]), StubReply(text="I see")
    async with StubOpenAIServer(*replies) as server:
        workspace.provider(server)
        workspace.agent(model=STAND_IN, tools=["log_write"])
        async with workspace.open() as runtime:
            run = await runtime.run_to_end()
            (result,) = await results(runtime, run)
            steps = await runtime.steps(run)
    assert run.output == "I see"
    assert "there is no tool `logwrite`" in str(result.content)
    assert "log_write" in str(result.content)
    assert [step.state for step in steps] == [StepState.DONE, StepState.FAILED, StepState.DONE]
    assert server.requests[1]["messages"][-1]["role"] == "tool"


async def test_any_tool_content_becomes_readable_text(any_workspace: AgentWorkspace) -> None:
    outputs: list[Json] = ["nul \x00 and half \ud800 of a pair", {"a": [1, None, 2.5]}, None, "", 7]
    tools = [fixed_tool(f"tool_{index}", output) for index, output in enumerate(outputs)]
    any_workspace.agent(calling(*(call(tool.spec.name) for tool in tools)), say("done"), tools=["*"])
    async with any_workspace.open(*tools) as runtime:
        run = await runtime.run_to_end()
        tool_results = [message.content for message in await results(runtime, run)]
    assert run.status is RunStatus.COMPLETED
    assert tool_results[1:] == ['{"a":[1,null,2.5]}', "null", "", "7"]


async def test_a_tool_that_raises_lease_lost_ends_the_work_on_the_run(workspace: AgentWorkspace) -> None:
    """The error of the tool concerns the run itself: the run is requeued, and the next worker repeats the call."""
    first = iter([LeaseLost("somebody else's")])

    async def lose(arguments: dict[str, Json]) -> ToolResult:
        for error in first:
            raise error
        return ToolResult(content="mine")

    workspace.agent(calling(call("lose")), say("{$last_tool}"), tools=["lose"])
    async with workspace.open(FakeTool("lose", lose, kind=ToolClass.IDEMPOTENT)) as runtime:
        assert (await runtime.run_to_end()).output == "mine"
