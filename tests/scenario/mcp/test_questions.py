"""An elicitation of a server becomes an interrupt of the run, which waits and is answered once."""

from datetime import timedelta

import msgspec
import pytest

from holdfast.domain.content import Json
from holdfast.domain.errors import AlreadyAnswered, Invalid
from holdfast.domain.interrupt import Interrupt, InterruptKind
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.step import StepState
from holdfast.testing.clock import HeldClock
from tests.scenario.agents.agent_workspace import SPACE, AgentRuntime, AgentWorkspace
from tests.scenario.mcp.declaring import PLAIN, agent, effects, program, tool_results, tool_turn, wait_for_effect

ADA: dict[str, Json] = {"action": "accept", "content": {"name": "Ada"}}


async def wait_for_interrupt(runtime: AgentRuntime, run: Run) -> Interrupt:
    """Wait for the only interrupt of a run."""
    (interrupt,) = await runtime.wait_for_interrupts(run)
    return interrupt


async def respond(runtime: AgentRuntime, interrupt: Interrupt, response: Json) -> None:
    """Respond to an interrupt."""
    await runtime.runs.respond(SPACE, interrupt.run_id, response, interrupt=interrupt.id)


async def test_an_elicitation_makes_the_run_wait_and_its_answer_reaches_the_server(workspace: AgentWorkspace) -> None:
    agent(workspace, tool_turn("ask", "who"))
    async with workspace.open() as runtime:
        run = await runtime.start()
        interrupt = await wait_for_interrupt(runtime, run)
        assert (await runtime.wait_for_status(run, RunStatus.WAITING)).status is RunStatus.WAITING
        assert interrupt.kind is InterruptKind.INPUT
        assert interrupt.message == "The MCP server `plain` asks: who 1?"
        with pytest.raises(Invalid, match="does not match its schema"):
            await respond(runtime, interrupt, {"action": "accept"})
        await respond(runtime, interrupt, ADA)
        with pytest.raises(AlreadyAnswered):
            await respond(runtime, interrupt, ADA)
        (result,) = await tool_results(runtime, run)
        assert msgspec.json.decode(result) == ADA
        assert (await runtime.store.values.of_run(SPACE, run.id)).get("questions") is None
    assert effects(workspace).count("asked 1") == 1


async def test_a_server_may_ask_more_than_once(workspace: AgentWorkspace) -> None:
    agent(workspace, tool_turn("ask_twice", "who"))
    async with workspace.open() as runtime:
        run = await runtime.start()
        first = await wait_for_interrupt(runtime, run)
        await respond(runtime, first, ADA)
        second = await wait_for_interrupt(runtime, run)
        assert (second.message, second.id == first.id) == ("The MCP server `plain` asks: who 2?", False)
        await respond(runtime, second, {"action": "decline"})
        (result,) = await tool_results(runtime, run)
        assert msgspec.json.decode(result) == [ADA, {"action": "decline"}]


async def test_an_elicitation_without_an_answer_in_time_is_cancelled(
    workspace: AgentWorkspace, clock: HeldClock
) -> None:
    agent(workspace, tool_turn("ask", "who"))
    async with workspace.open(clock=clock) as runtime:
        run = await runtime.start()
        await wait_for_interrupt(runtime, run)
        await runtime.wait_for_status(run, RunStatus.WAITING)
        await runtime.advance(timedelta(days=8))
        (result,) = await tool_results(runtime, run)
        assert msgspec.json.decode(result) == {"action": "cancel"}


async def test_cancelling_a_run_whose_server_waits_for_an_answer_cancels_the_call(
    workspace: AgentWorkspace,
) -> None:
    agent(workspace, tool_turn("ask", "who"))
    async with workspace.open() as runtime:
        run = await runtime.start()
        await wait_for_interrupt(runtime, run)
        await runtime.wait_for_status(run, RunStatus.WAITING)
        await runtime.runs.cancel(SPACE, run.id)
        await wait_for_effect(workspace, "cancelled")


async def test_an_effectful_call_whose_server_died_while_waiting_for_an_answer_is_unknown(
    workspace: AgentWorkspace,
) -> None:
    agent(workspace, tool_turn("ask", "who"))
    async with workspace.open() as runtime:
        run = await runtime.start()
        interrupt = await wait_for_interrupt(runtime, run)
        await runtime.wait_for_status(run, RunStatus.WAITING)
    async with workspace.open() as runtime:
        await respond(runtime, interrupt, ADA)
        (result,) = await tool_results(runtime, run)
        assert result.startswith("MCP_SERVER_FAILED: the MCP server `plain` ended while it waited for the response")
        assert (await runtime.steps(run))[1].state is StepState.UNKNOWN
    assert effects(workspace).count("asked 1") == 1


async def test_an_idempotent_call_whose_server_died_is_repeated_with_the_known_answer(
    workspace: AgentWorkspace,
) -> None:
    agent(workspace, tool_turn("ask", "who"), mcp_servers={"plain": program(PLAIN, classes={"ask": "idempotent"})})
    async with workspace.open() as runtime:
        run = await runtime.start()
        interrupt = await wait_for_interrupt(runtime, run)
        await runtime.wait_for_status(run, RunStatus.WAITING)
    async with workspace.open() as runtime:
        await respond(runtime, interrupt, ADA)
        (result,) = await tool_results(runtime, run)
        assert msgspec.json.decode(result) == ADA
    assert effects(workspace).count("asked 1") == 2
