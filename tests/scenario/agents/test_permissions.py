"""Tool calls that are denied, approved or allowed, and that their decisions hold."""

import asyncio
import json
from datetime import timedelta
from typing import Any, Final

import pytest
from msgspec import UNSET

from holdfast.domain.content import Json
from holdfast.domain.errors import AlreadyAnswered, Invalid
from holdfast.domain.events.custom import PermissionDecided
from holdfast.domain.interrupt import Interrupt, InterruptKind
from holdfast.domain.permission import PermissionAction, call_digest
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.step import StepState
from holdfast.domain.tool import ToolClass
from holdfast.testing.clock import HeldClock
from holdfast.tools.tool import ToolResult
from tests.scenario.agents.fake_tools import READ_ONLY, BlockingTool, FakeTool, answers
from tests.scenario.agents.workshop import SPACE, Floor, Workshop, call, calling, say

COMMAND: Final[dict[str, Json]] = {
    "type": "object",
    "required": ["command"],
    "properties": {"command": {"type": "string", "minLength": 1}},
    "additionalProperties": False,
}


def shell(**fields: Any) -> FakeTool:
    """Return a tool that is called like a shell, and runs nothing."""

    async def do(arguments: dict[str, Json]) -> ToolResult:
        return ToolResult(content=f"ran {arguments['command']}")

    return FakeTool("bash", do, parameters=COMMAND, **fields)


def ran(tool: FakeTool) -> int:
    """Return how often a tool was run."""
    return len(tool.calls)


def bash(command: str) -> dict[str, Json]:
    """Return a call of a shell."""
    return call("bash", command=command)


async def answer(floor: Floor, run: Run, asked: Interrupt, **response: Json) -> None:
    """Answer a question about a call."""
    await floor.runs.respond(SPACE, run.id, response, interrupt=asked.id, digest=asked.digest, by="ada")


async def results(floor: Floor, run: Run) -> list[str]:
    """Return what the calls of a run came to."""
    return [said.removeprefix("tool: ") for said in await floor.said(run) if said.startswith("tool: ")]


async def decisions(floor: Floor, run: Run) -> list[tuple[str, str | None]]:
    """Return what was decided about calls, and by which rule."""
    told = await floor.told(run, PermissionDecided)
    return [(str(each.decision), each.rule if isinstance(each.rule, str) else None) for each in told]


async def test_a_denied_call_never_runs_and_its_result_names_the_rule(anywhere: Workshop) -> None:
    tool = shell()
    anywhere.agent(
        calling(bash("git log; rm -rf x"), bash("git log")),
        say("I see"),
        tools=["bash"],
        permissions={"deny": ["bash(rm *)"], "allow": ["bash(git *)"]},
    )
    async with anywhere.open(tool) as floor:
        run = await floor.play()
        assert await results(floor, run) == ["refused: the rule `bash(rm *)` denies this call", "ran git log"]
        assert await decisions(floor, run) == [("deny", "bash(rm *)"), ("allow", "bash(git *)")]
        states = [step.state for step in await floor.steps(run) if step.name == "bash"]
    assert (run.output, ran(tool), states) == ("I see", 1, [StepState.FAILED, StepState.DONE])


async def test_an_approval_interrupt_has_arguments_rule_and_digest(anywhere: Workshop) -> None:
    tool = shell()
    anywhere.agent(
        calling(bash("git push origin")), say("{$last_tool}"), tools=["bash"], permissions={"ask": ["bash(git push *)"]}
    )
    async with anywhere.open(tool) as floor:
        run = await floor.start()
        (asked,) = await floor.asks(run)
        await floor.comes_to(run, RunStatus.WAITING)
        assert (asked.kind, asked.arguments) == (InterruptKind.APPROVAL, {"command": "git push origin"})
        assert asked.digest == call_digest("bash", {"command": "git push origin"})
        assert (asked.metadata["tool"], asked.metadata["rule"]) == ("bash", "bash(git push *)")
        assert ran(tool) == 0
        await answer(floor, run, asked, decision="approve")
        ended = await floor.ended(run)
        told = await floor.told(run, PermissionDecided)
    assert (ended.output, ran(tool)) == ("ran git push origin", 1)
    assert [(each.decision, each.by) for each in told][1] == (PermissionAction.ALLOW, "ada")


async def test_a_response_needs_only_its_decision(workshop: Workshop) -> None:
    tool = shell()
    workshop.agent(calling(bash("git push")), say("done"), tools=["bash"])
    async with workshop.open(tool) as floor:
        run = await floor.start()
        await floor.asks(run)
        await floor.runs.respond(SPACE, run.id, {"decision": "approve"})
        await floor.ended(run)
    assert ran(tool) == 1


async def test_a_response_must_have_the_digest_of_the_call(workshop: Workshop) -> None:
    tool = shell()
    workshop.agent(calling(bash("git push")), say("done"), tools=["bash"])
    async with workshop.open(tool) as floor:
        run = await floor.start()
        (asked,) = await floor.asks(run)
        other = call_digest("bash", {"command": "git push --force"})
        with pytest.raises(Invalid, match="other arguments"):
            await floor.runs.respond(SPACE, run.id, {"decision": "approve"}, interrupt=asked.id, digest=other)
        for wrong in ("yes", {}, {"decision": "maybe"}, {"decision": "approve", "arguments": {"command": ""}}):
            with pytest.raises(Invalid, match="does not match"):
                await floor.runs.respond(SPACE, run.id, wrong, interrupt=asked.id, digest=asked.digest)
        assert ran(tool) == 0
        await answer(floor, run, asked, decision="deny", reason="not today")
        await floor.ended(run)
        assert await results(floor, run) == ["refused: a person said no: not today"]
        with pytest.raises(AlreadyAnswered):
            await answer(floor, run, asked, decision="approve")
    assert ran(tool) == 0


async def test_no_call_of_a_message_runs_until_all_are_decided(anywhere: Workshop) -> None:
    tool, look = shell(), answers("look", "seen", **READ_ONLY)
    anywhere.agent(
        calling(call("look"), bash("a"), bash("rm b"), bash("c")),
        say("done"),
        tools=["*"],
        permissions={"deny": ["bash(rm *)"]},
    )
    async with anywhere.open(tool, look) as floor:
        run = await floor.start()
        first, second = await floor.asks(run, 2)
        await answer(floor, run, second, decision="approve")
        await floor.asks(run, 1)
        await floor.comes_to(run, RunStatus.WAITING)
        assert (ran(tool), ran(look)) == (0, 0)
        assert [each.id for each in await floor.questions(run)] == [first.id]
        await answer(floor, run, first, decision="deny")
        await floor.ended(run)
        denied = "refused: the rule `bash(rm *)` denies this call"
        assert await results(floor, run) == ["seen", "refused: a person said no", denied, "ran c"]
        verdicts = [str(each.decision) for each in await floor.told(run, PermissionDecided)]
    assert sorted(verdicts) == ["allow", "ask", "ask", "deny", "deny"]


async def test_a_person_may_edit_arguments_but_not_to_denied_ones(workshop: Workshop) -> None:
    tool = shell()
    workshop.agent(
        calling(bash("git push --force")),
        calling(bash("git push --tags")),
        say("done"),
        tools=["bash"],
        permissions={"deny": ["bash(rm *)"]},
    )
    async with workshop.open(tool) as floor:
        run = await floor.start()
        (asked,) = await floor.asks(run)
        await answer(floor, run, asked, decision="approve", arguments={"command": "git push"})
        (again,) = await floor.asks(run)
        while again.id == asked.id:
            (again,) = await floor.asks(run)
        await answer(floor, run, again, decision="approve", arguments={"command": "rm -rf ."})
        await floor.ended(run)
        edited, denied = await results(floor, run)
        told = [each.arguments for each in await floor.told(run, PermissionDecided) if each.by == "ada"]
    assert edited == 'a person changed the arguments of this call to {"command":"git push"}. Its result:\nran git push'
    assert denied == "refused: the rule `bash(rm *)` denies this call"
    assert (ran(tool), told[0]) == (1, {"command": "git push"})


async def test_a_granted_call_needs_no_further_approval(workshop: Workshop) -> None:
    tool = shell()
    push = calling(bash("git push origin main"))
    workshop.agent(push, push, say("done"), tools=["bash"], permissions={"ask": ["bash(git push *)"]})
    async with workshop.open(tool) as floor:
        run = await floor.start()
        (asked,) = await floor.asks(run)
        assert asked.metadata["offers"] == [["bash(git push origin main)"], ["bash(git push *)"]]
        await answer(floor, run, asked, decision="always")
        assert (await floor.ended(run)).status is RunStatus.COMPLETED
        assert (await floor.play()).status is RunStatus.COMPLETED
        granted = [each.granted for each in await floor.told(run, PermissionDecided) if each.by == "ada"]
    assert (ran(tool), granted) == (4, [["bash(git push origin main)"]])
    written = json.loads((workshop.folder / "permissions.json").read_text())
    assert written == {"allow": {"bot": ["bash(git push origin main)"]}}


async def test_a_grant_that_cannot_be_written_allows_the_call_once(workshop: Workshop) -> None:
    tool = shell()
    workshop.agent(calling(bash("git push")), say("done"), tools=["bash"])
    workshop.write("permissions.json", "{")
    async with workshop.open(tool) as floor:
        run = await floor.start()
        (asked,) = await floor.asks(run)
        await answer(floor, run, asked, decision="always")
        assert (await floor.ended(run)).status is RunStatus.COMPLETED
        (decided,) = [each for each in await floor.told(run, PermissionDecided) if each.by == "ada"]
    assert (ran(tool), decided.decision, decided.granted) == (1, PermissionAction.ALLOW, UNSET)
    assert (workshop.folder / "permissions.json").read_text() == "{"


async def test_only_an_offered_rule_can_be_granted(workshop: Workshop) -> None:
    workshop.agent(calling(bash("npm run lint")), say("done"), tools=["bash"])
    async with workshop.open(shell()) as floor:
        run = await floor.start()
        (asked,) = await floor.asks(run)
        with pytest.raises(Invalid, match="does not match"):
            await answer(floor, run, asked, decision="always", rules=["bash"])
        with pytest.raises(Invalid, match="does not match"):  # what it is changed to, no rule was offered for
            await answer(floor, run, asked, decision="always", arguments={"command": "npm run build"})
        await answer(floor, run, asked, decision="always", rules=["bash(npm run *)"])
        await floor.ended(run)
    assert json.loads((workshop.folder / "permissions.json").read_text())["allow"]["bot"] == ["bash(npm run *)"]


async def test_an_unparsable_command_needs_approval_and_cannot_be_granted(workshop: Workshop) -> None:
    workshop.agent(calling(bash("$X")), say("done"), tools=["bash"], permissions={"allow": ["bash(git *)"]})
    async with workshop.open(shell()) as floor:
        run = await floor.start()
        (asked,) = await floor.asks(run)
        assert asked.metadata["offers"] == []
        with pytest.raises(Invalid, match="does not match"):
            await answer(floor, run, asked, decision="always")
        await answer(floor, run, asked, decision="deny")
        await floor.ended(run)


async def test_a_call_that_would_fail_anyway_needs_no_approval(workshop: Workshop) -> None:
    tool = shell()
    workshop.agent(calling(call("bash", commando="x")), say("done"), tools=["bash"])
    async with workshop.open(tool) as floor:
        run = await floor.play()
        assert "`command` is missing" in (await results(floor, run))[0]
    assert ran(tool) == 0


async def test_an_expired_approval_denies_the_call(workshop: Workshop, clock: HeldClock) -> None:
    tool = shell()
    workshop.agent(calling(bash("x")), say("done"), tools=["bash"])
    async with workshop.open(tool, clock=clock) as floor:
        run = await floor.start()
        await floor.asks(run)
        await floor.comes_to(run, RunStatus.WAITING)
        await floor.later(timedelta(days=8))
        await floor.ended(run)
        assert await results(floor, run) == ["refused: nobody approved it in time"]
    assert ran(tool) == 0


async def test_a_run_cancelled_during_an_approval_never_makes_the_call(anywhere: Workshop) -> None:
    tool = shell()
    anywhere.agent(calling(bash("x"), bash("y")), say("done"), tools=["bash"])
    async with anywhere.open(tool) as floor:
        run = await floor.start()
        asked = await floor.asks(run, 2)
        await answer(floor, run, asked[0], decision="approve")
        await floor.runs.cancel(SPACE, run.id)
        ended = await floor.ended(run)
        assert await floor.questions(run) == []
    assert (ended.status, ran(tool)) == (RunStatus.CANCELLED, 0)


@pytest.mark.parametrize("kind", list(ToolClass))
async def test_an_approved_call_is_not_asked_again_by_the_next_worker(workshop: Workshop, kind: ToolClass) -> None:
    """The worker is drained in the middle of the first of two approved calls; another goes on."""
    gate = BlockingTool("bash", kind=kind)
    workshop.agent(
        calling(bash("a"), bash("b")),
        say("done"),
        tools=["bash"],
        unknown_outcome="tell",
        permissions={"ask": ["bash"]},
    )
    async with workshop.open(gate, drain=timedelta(0)) as floor:
        run = await floor.start()
        for asked in await floor.asks(run, 2):
            await answer(floor, run, asked, decision="approve")
        await gate.begun.acquire()
    gate.open.set()
    async with workshop.open(gate) as floor:
        ended = await floor.ended(run)
        asked_for = [each for each in await floor.told(run, PermissionDecided) if each.decision is PermissionAction.ASK]
        first, second = await results(floor, run)
    again = kind is not ToolClass.EFFECTFUL
    assert (ended.output, len(asked_for), gate.times) == ("done", 2, 3 if again else 2)
    assert (first.startswith("unknown") is not again, second) == (True, "open")


async def test_responses_without_a_worker_are_applied_later(anywhere: Workshop) -> None:
    tool = shell()
    anywhere.agent(calling(bash("a"), bash("b")), say("done"), tools=["bash"])
    async with anywhere.open(tool) as floor:
        run = await floor.start()
        asked = await floor.asks(run, 2)
        await floor.comes_to(run, RunStatus.WAITING)
    async with anywhere.open(tool, workers=0) as floor:
        await answer(floor, run, asked[0], decision="deny")
        await answer(floor, run, asked[1], decision="approve")
    async with anywhere.open(tool) as floor:
        await floor.ended(run)
        assert await results(floor, run) == ["refused: a person said no", "ran b"]
    assert ran(tool) == 1


async def test_a_new_deny_rule_wins_over_an_approval(workshop: Workshop) -> None:
    tool = shell()
    workshop.agent(calling(bash("rm x")), say("done"), tools=["bash"])
    async with workshop.open(tool) as floor:
        run = await floor.start()
        (asked,) = await floor.asks(run)
        await floor.comes_to(run, RunStatus.WAITING)
    workshop.configure(tools=["bash"], permissions={"deny": ["bash(rm *)"]})
    async with workshop.open(tool) as floor:
        await answer(floor, run, asked, decision="approve")
        await floor.ended(run)
        assert await results(floor, run) == ["refused: the rule `bash(rm *)` denies this call"]
    assert ran(tool) == 0


async def test_a_child_has_at_most_the_rights_of_its_parent(anywhere: Workshop) -> None:
    tool = shell()
    spawn = calling(call("agent_spawn", agent="kid", input="go"))
    rules = {"deny": ["bash(rm *)"], "allow": ["bash(git *)"]}
    anywhere.agent(spawn, say("{$last_tool}"), name="boss", tools=["agent_spawn"], permissions=rules)
    anywhere.agent(
        spawn.copy(), say("{$last_tool}"), name="bot", tools=["agent_spawn"], permissions={"allow": ["bash"]}
    )
    anywhere.script(calling(call("agent_spawn", agent="bot", input="go")), say("{$last_tool}"), agent="boss")
    anywhere.agent(
        calling(bash("rm x"), bash("git log"), bash("ls")),
        say("done"),
        name="kid",
        tools=["bash"],
        permissions={"allow": ["bash"]},
    )
    async with anywhere.open(tool) as floor:
        run = await floor.start(agent="boss")
        (asked,) = await floor.asks(run)
        assert (asked.arguments, asked.metadata["agent"]) == ({"command": "ls"}, "boss")
        await answer(floor, run, asked, decision="deny")
        assert (await floor.ended(run)).output == "done"
        kid = await floor.child(await floor.child(run))
        denied = "refused: the rule `bash(rm *)` of agent `boss` denies this call"
        assert await results(floor, kid) == [denied, "ran git log", "refused: a person said no"]


async def test_rules_decide_which_agents_may_be_spawned(workshop: Workshop) -> None:
    spawn = [call("agent_spawn", agent=name, input="go") for name in ("kid", "other")]
    workshop.agent(calling(*spawn), say("done"), tools=["agent_spawn"], permissions={"deny": ["agent_spawn(oth*)"]})
    workshop.agent(say("I did"), name="kid")
    workshop.agent(say("I did"), name="other")
    async with workshop.open() as floor:
        run = await floor.play()
        assert await results(floor, run) == ["refused: the rule `agent_spawn(oth*)` denies this call", "I did"]


async def test_a_call_without_a_rule_emits_no_decision(workshop: Workshop) -> None:
    workshop.agent(calling(call("look"), call("act")), say("done"), tools=["*"])
    async with workshop.open(answers("look", 1, **READ_ONLY), answers("act", 2)) as floor:
        run = await floor.play()
        assert await floor.told(run, PermissionDecided) == []


async def test_a_message_instead_of_a_response_denies_the_call(workshop: Workshop) -> None:
    """What is said comes in before the run waits: the question is taken back, and the call is refused."""
    tool = shell()
    workshop.agent(say("thinking", chunks=20, delay_ms=20) | calling(bash("x")), say("{$last_user}"), tools=["bash"])
    async with workshop.open(tool) as floor:
        run = await floor.start()
        await floor.until(run, lambda event: "TextMessageContent" in type(event).__name__)
        await floor.runs.steer(SPACE, run.id, "stop")
        ended = await floor.ended(run)
        assert (await results(floor, run))[0].startswith("refused: nobody approved it, because the person")
    assert (ended.output, ran(tool)) == ("stop", 0)


async def test_only_one_of_many_responses_is_accepted(workshop: Workshop) -> None:
    tool = shell()
    workshop.agent(calling(bash("x")), say("done"), tools=["bash"])
    async with workshop.open(tool) as floor:
        run = await floor.start()
        (asked,) = await floor.asks(run)
        racers = [answer(floor, run, asked, decision="approve") for _ in range(20)]
        refusals = [each for each in await asyncio.gather(*racers, return_exceptions=True) if each is not None]
        await floor.ended(run)
    assert (len(refusals), ran(tool)) == (19, 1)
