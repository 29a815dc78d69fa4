"""Retry of a stopped run: after its last settled step, or from the start."""

import pytest

from holdfast.domain.content import Json
from holdfast.domain.new_run import RunBase
from holdfast.domain.run import RunStatus
from tests.scenario.agents.agent_workspace import SPACE, AgentWorkspace, call, calling, say
from tests.scenario.agents.fake_tools import BlockingTool, fixed_tool

LOOK = [calling(call("look", n=number), usage={"input_tokens": 60, "output_tokens": 0}) for number in range(4)]


@pytest.mark.parametrize(
    ("limits", "code"), [({"max_iterations": 3}, "ITERATION_LIMIT"), ({"token_budget": 150}, "BUDGET_EXCEEDED")]
)
async def test_a_retry_after_a_limit_has_the_whole_limit_again(
    any_workspace: AgentWorkspace, limits: dict[str, Json], code: str
) -> None:
    tool = fixed_tool("look", "seen")
    any_workspace.agent(*LOOK, say("done"), tools=["look"], limits=limits)
    async with any_workspace.open(tool) as runtime:
        stopped_run = await runtime.run_to_end()
        assert stopped_run.error is not None and stopped_run.error.code == code
        retry = await runtime.wait_until_ended((await runtime.runs.retry(SPACE, stopped_run.id)).run)
        texts = await runtime.texts(retry)
        context = await runtime.context(retry, 0)
    assert retry.output == "done"
    assert texts == ["assistant: ", "tool: seen", "assistant: done"]
    assert len(tool.calls) == 4
    assert len(context.messages) == 7


async def test_a_retry_after_a_refusal_continues_once_it_is_fixed(workspace: AgentWorkspace) -> None:
    tool = fixed_tool("look", "seen")
    workspace.agent(LOOK[0], say("no", error={"code": "REFUSED"}), tools=["look"])
    async with workspace.open(tool) as runtime:
        stopped_run = await runtime.run_to_end()
        workspace.script(LOOK[0], say("yes: {$last_tool}"))
        retry = await runtime.wait_until_ended((await runtime.runs.retry(SPACE, stopped_run.id)).run)
    assert stopped_run.error is not None and stopped_run.error.code == "MODEL_REFUSED"
    assert retry.output == "yes: seen"
    assert len(tool.calls) == 1


async def test_a_call_interrupted_by_a_cancel_is_not_repeated(any_workspace: AgentWorkspace) -> None:
    gate = BlockingTool()
    any_workspace.agent(calling(call("gate")), say("{$last_tool}"), tools=["gate"])
    async with any_workspace.open(gate) as runtime:
        run = await runtime.start()
        await gate.started.acquire()
        await runtime.runs.cancel(SPACE, run.id)
        retry = await runtime.wait_until_ended((await runtime.runs.retry(SPACE, run.id)).run)
    assert gate.call_count == 1
    assert retry.output == "not answered: the run ended as cancelled before this call finished"


async def test_a_retry_from_the_start_repeats_everything(any_workspace: AgentWorkspace) -> None:
    tool = fixed_tool("look", "seen")
    any_workspace.agent(LOOK[0], say("no", error={"code": "REFUSED"}), tools=["look"])
    async with any_workspace.open(tool) as runtime:
        stopped_run = await runtime.run_to_end("look here")
        any_workspace.script(LOOK[0], say("I looked: {$last_user}"))
        retry = await runtime.wait_until_ended((await runtime.runs.retry(SPACE, stopped_run.id, from_start=True)).run)
        texts = await runtime.texts(retry)
    assert (retry.status, retry.base_run_id) == (RunStatus.COMPLETED, None)
    assert texts == ["user: look here", "assistant: ", "tool: seen", "assistant: I looked: look here"]
    assert len(tool.calls) == 2


async def test_a_fork_after_calls_can_be_retried_from_the_start(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(LOOK[0], say("seen"), tools=["look"])
    async with any_workspace.open(fixed_tool("look", "seen")) as runtime:
        base = await runtime.run_to_end("look here")
        called = (await runtime.messages(base))[1]
        any_workspace.script(say("no", error={"code": "REFUSED"}))
        fork = RunBase(run_id=base.id, sequence=called.sequence)
        stopped_run = await runtime.run_to_end("rather not", thread=base.thread_id, base=fork)
        any_workspace.script(say("as you like"))
        retry = await runtime.wait_until_ended((await runtime.runs.retry(SPACE, stopped_run.id, from_start=True)).run)
        texts = await runtime.texts(retry)
    assert texts[0].startswith("tool: not run: ")
    assert texts[1:] == ["user: rather not", "assistant: as you like"]


async def test_a_retry_can_be_retried(workspace: AgentWorkspace) -> None:
    workspace.agent(*LOOK, say("done"), tools=["look"], limits={"max_iterations": 2})
    async with workspace.open(fixed_tool("look", "seen")) as runtime:
        run = await runtime.run_to_end()
        for _ in range(2):
            run = await runtime.wait_until_ended((await runtime.runs.retry(SPACE, run.id)).run)
    assert run.output == "done"
