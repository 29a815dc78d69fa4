"""Resume causes may arrive in any order: each call gets its own result, once."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.domain.errors import Conflict
from holdfast.domain.ids import InterruptId
from holdfast.domain.message import Role
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.step import StepState
from holdfast.testing.clock import HeldClock
from tests.scenario.agents.agent_workspace import SPACE, AgentRuntime, AgentWorkspace, call, calling, say

NAP: Final = timedelta(seconds=5)
CALLS: Final = (
    call("ask_user", question="first?"),
    call("sleep", seconds=NAP.total_seconds()),
    call("agent_spawn", agent="kid", input="help"),
    call("task_respond", message="second?"),
)
EXPECTED: Final = ["first", '{"slept_seconds":5.0}', "grown", "second"]
INTERRUPTED: Final = ["not answered", "woke_early", "it goes on in the background", "not answered"]

orders = st.tuples(
    st.permutations(["first", "second", "child", "time"]), st.lists(st.booleans(), min_size=4, max_size=4)
).map(lambda draw: group_names(*draw))


def group_names(names: Sequence[str], joined: Sequence[bool]) -> list[list[str]]:
    """Return names in groups: a joined name is in the group of the name before it."""
    groups: list[list[str]] = []
    for name, joins in zip(names, joined, strict=True):
        if joins and groups:
            groups[-1].append(name)
        else:
            groups.append([name])
    return groups


@pytest.fixture(scope="module")
async def runtime(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AgentRuntime]:
    """Yield one open workspace for all examples; its leases outlast the time by which they advance the clock."""
    folder = tmp_path_factory.mktemp("orders")
    workspace = AgentWorkspace(folder / "workspace", folder / "holdfast.db")
    tools = ["ask_user", "task_respond", "agent_spawn", "sleep"]
    workspace.agent(calling(*CALLS), say("done"), tools=tools)
    workspace.script(calling(*CALLS), say("done"), after_last="repeat")
    workspace.agent(calling(call("ask_user", question="child?")), say("grown"), name="kid", tools=tools)
    async with workspace.open(clock=HeldClock(), lease=timedelta(days=1000)) as opened:
        yield opened


async def start_waiting_run(runtime: AgentRuntime) -> tuple[Run, dict[str, InterruptId]]:
    """Return a run with every kind of wait, and its interrupts by name."""
    run = await runtime.start()
    interrupts = await runtime.wait_for_interrupts(run, 3)
    await runtime.wait_for_status(run, RunStatus.WAITING)
    return run, {str(each.message).removesuffix("?"): each.id for each in interrupts}


async def resume(runtime: AgentRuntime, run: Run, name: str, interrupts: dict[str, InterruptId]) -> None:
    """Deliver one resume cause to the run."""
    if name == "time":
        await runtime.advance(NAP)
    elif name == "word":
        with suppress(Conflict):  # it needs a response first, or has ended
            await runtime.runs.steer(SPACE, run.id, "by the way")
    else:
        with suppress(Conflict):  # a message came first, and the interrupt was withdrawn
            await runtime.runs.respond(SPACE, run.id, name, interrupt=interrupts[name])


async def results(runtime: AgentRuntime, run: Run) -> list[str]:
    """Return the result of each call, in the order of the calls."""
    messages = await runtime.messages(run)
    call_message = next(message for message in messages if message.tool_calls)
    contents = {message.tool_call_id: str(message.content) for message in messages if message.role is Role.TOOL}
    assert len(contents) == sum(message.role is Role.TOOL for message in messages)
    return [contents[each.id] for each in call_message.tool_calls]


@settings(max_examples=20)
@given(order=orders)
async def test_each_call_gets_its_own_resume_cause_in_any_order(runtime: AgentRuntime, order: list[list[str]]) -> None:
    run, interrupts = await start_waiting_run(runtime)
    for group in order:
        await asyncio.gather(*(resume(runtime, run, name, interrupts) for name in group))
    ended_run = await runtime.wait_until_ended(run)
    assert ended_run.output == "done"
    assert await results(runtime, run) == EXPECTED
    assert {step.state for step in await runtime.steps(run)} == {StepState.DONE}
    await runtime.events(run)


@settings(max_examples=20)
@given(order=orders, at=st.integers(0, 4))
async def test_a_message_in_between_settles_the_remaining_waits_and_loses_nothing(
    runtime: AgentRuntime, order: list[list[str]], at: int
) -> None:
    run, interrupts = await start_waiting_run(runtime)
    for index, group in enumerate(order):
        names = ["word", *group] if index == at else group
        await asyncio.gather(*(resume(runtime, run, name, interrupts) for name in names))
    ended_run = await runtime.wait_until_ended(run)
    child = await runtime.wait_until_ended(await runtime.child(run))
    assert (ended_run.output, child.output) == ("done", "grown")
    for result, right, early in zip(await results(runtime, run), EXPECTED, INTERRUPTED, strict=True):
        assert result == right or early in result
    await runtime.events(run)
