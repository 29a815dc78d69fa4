"""MCP tools are called like any other, and a failure of a server never ends a run."""

import msgspec
import pytest

from holdfast.domain.content import Json
from holdfast.domain.run import RunStatus
from holdfast.domain.step import StepState
from tests.scenario.agents.workshop import SPACE, Workshop, call, calling, say
from tests.scenario.mcp.declaring import PLAIN, agent, answers, asks, effects, program, written


async def test_a_tool_of_a_server_is_called_under_the_key_of_its_step(workshop: Workshop) -> None:
    agent(workshop, asks("echo", "hello"), asks("key"))
    async with workshop.open() as floor:
        run = await floor.start()
        said, meta = await answers(floor, run)
        assert said == "hello"
        assert msgspec.json.decode(meta) == {"io.holdfast/call-key": (await floor.steps(run))[3].key}


async def test_a_server_that_dies_floods_or_sends_invalid_messages_fails_the_call_and_is_restarted(
    workshop: Workshop,
) -> None:
    bad = [("die", ""), ("notes", ""), ("nonsense", ""), ("shapeless", ""), ("huge", str(17 * 1024 * 1024))]
    turns = [turn for tool, text in bad for turn in (asks(tool, text), asks("echo", f"after {tool}"))]
    agent(workshop, *turns)
    async with workshop.open() as floor:
        run = await floor.start()
        said = await answers(floor, run)
        states = [step.state for step in await floor.steps(run) if step.name.startswith("mcp__")]
    assert said[1::2] == [f"after {tool}" for tool, _ in bad]
    assert all(text.startswith("MCP_SERVER_FAILED: the MCP server `plain` failed: ") for text in said[::2])
    assert all("Its outcome is unknown" in text for text in said[::2])
    assert "it ended (exit code 3): it hurts" in said[0]
    assert states == [StepState.UNKNOWN, StepState.DONE] * len(bad)


async def test_a_call_that_times_out_is_cancelled_on_the_server(workshop: Workshop) -> None:
    slow = program(PLAIN, timeout_seconds=0.5)
    agent(workshop, asks("stall"), asks("effect", "on we go"), mcp_servers={"plain": slow})
    async with workshop.open() as floor:
        said = await answers(floor, await floor.start())
    assert "did not respond within 0.5 seconds" in said[0]
    assert said[1] == "done"
    assert effects(workshop) == ["stalls", "cancelled", "on we go"]


async def test_a_long_result_is_truncated_and_stored_in_full(workshop: Workshop) -> None:
    agent(workshop, asks("huge", "100000"))
    async with workshop.open() as floor:
        run = await floor.start()
        (said,) = await answers(floor, run)
        (kept,) = (await floor.store.artifacts.page(SPACE, run=run.id)).items
    assert len(said) < 40_000
    assert kept.id in said


async def test_a_server_that_cannot_be_restarted_fails_the_call_and_is_retried_later(
    workshop: Workshop,
) -> None:
    script = workshop.folder / "tools" / "plain" / "server.py"
    script.parent.mkdir(parents=True)
    script.write_text(PLAIN.read_text().replace("os._exit(3)", "os.unlink(__file__) or os._exit(3)"))
    declared = {**program(PLAIN), "args": ["-I", "./tools/plain/server.py"]}
    agent(workshop, asks("die"), asks("echo"), asks("echo"), mcp_servers={"plain": declared})
    async with workshop.open() as floor:
        _, gone, paused = await answers(floor, await floor.start())
    assert "it ended (exit code 2)" in gone
    assert "it is retried in " in paused
    assert not any("Nobody knows" in said for said in (gone, paused))


@pytest.mark.parametrize(
    "declared",
    [
        {"command": "no-such-program", "sandbox": "off"},
        {"command": "./agents", "sandbox": "off"},
        {"command": "./../elsewhere", "sandbox": "off"},
        {"command": "./.holdfast/holdfast.db", "sandbox": "off"},
        {"url": "http://127.0.0.1:9/mcp"},
        program(PLAIN, env={"TOKEN": "${NO_SUCH_VARIABLE}"}),
    ],
    ids=["program", "folder", "outside", "own", "address", "variable"],
)
async def test_a_server_that_cannot_be_reached_leaves_a_run_without_its_tools(
    workshop: Workshop, declared: dict[str, Json]
) -> None:
    agent(workshop, mcp_servers={"plain": declared}, tools=["mcp__plain__echo"])
    workshop.script(say("done"))
    async with workshop.open() as floor:
        run = await floor.play()
        assert (run.status, run.output) == (RunStatus.COMPLETED, "done")
        assert [tool["name"] for tool in (await floor.context(run)).tools] == []


async def test_only_the_tools_that_are_listed_may_be_used(workshop: Workshop) -> None:
    agent(workshop, asks("echo", "hello"), mcp_servers={"plain": program(PLAIN, tools=["echo", "no such"])})
    async with workshop.open() as floor:
        run = await floor.start()
        assert await answers(floor, run) == ["hello"]
        assert [tool["name"] for tool in (await floor.context(run)).tools] == ["mcp__plain__echo"]


async def test_arguments_are_checked_before_they_reach_the_server(workshop: Workshop) -> None:
    agent(workshop, calling(call("mcp__plain__effect", text=7)))
    async with workshop.open() as floor:
        (said,) = await answers(floor, await floor.start())
    assert "`text`: it must be string" in said
    assert effects(workshop) == []


async def test_new_tools_are_available_at_the_next_model_call(workshop: Workshop) -> None:
    agent(workshop, asks("grow", "juggle"), asks("juggle"))
    async with workshop.open() as floor:
        assert await answers(floor, await floor.start()) == ["grown", "did juggle"]


async def test_a_failed_listing_of_new_tools_is_retried(workshop: Workshop) -> None:
    agent(workshop, asks("grow_unseen", "juggle"), asks("echo", "well?"), asks("juggle"))
    async with workshop.open() as floor:
        assert await answers(floor, await floor.start()) == ["grown", "well?", "did juggle"]


async def test_agents_of_a_space_share_a_server_and_one_of_the_settings_must_be_named(workshop: Workshop) -> None:
    workshop.write("settings.json", {"mcp_servers": {"plain": program(PLAIN)}})
    for name, tools in (("one", ["mcp__plain__*"]), ("two", ["mcp__plain__pid"])):
        agent(workshop, asks("pid"), name=name, mcp_servers={}, tools=tools)
    workshop.agent(say("done"), name="none")
    async with workshop.open() as floor:
        first, second = [await answers(floor, await floor.start(agent=name)) for name in ("one", "two")]
        last = await floor.play(agent="none")
        assert first == second
        assert (await floor.context(last)).tools == []


async def test_a_cancelled_run_cancels_the_call_on_the_server(workshop: Workshop) -> None:
    agent(workshop, asks("stall"), asks("effect"))
    async with workshop.open() as floor:
        run = await floor.start()
        await written(workshop, "stalls")
        await floor.runs.cancel(SPACE, run.id)
        assert (await floor.ended(run)).status is RunStatus.CANCELLED
        await written(workshop, "cancelled")
    assert effects(workshop) == ["stalls", "cancelled"]
