"""Tool calls are denied, approved or allowed, and the decisions are enforced."""

import asyncio
from datetime import timedelta
from typing import Any, Final

import pytest

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
from tests.scenario.agents.agent_workspace import SPACE, AgentRuntime, AgentWorkspace, call, calling, say
from tests.scenario.agents.fake_tools import READ_ONLY, BlockingTool, FakeTool, fixed_tool

COMMAND: Final[dict[str, Json]] = {
    "type": "object",
    "required": ["command"],
    "properties": {"command": {"type": "string", "minLength": 1}},
    "additionalProperties": False,
}


def shell(**fields: Any) -> FakeTool:
    """Return a tool named like the shell that runs nothing."""

    async def do(arguments: dict[str, Json]) -> ToolResult:
        return ToolResult(content=f"ran {arguments['command']}")

    return FakeTool("bash", do, parameters=COMMAND, **fields)


def run_count(tool: FakeTool) -> int:
    """Return the number of calls of a tool."""
    return len(tool.calls)


def bash(command: str) -> dict[str, Json]:
    """Return a shell call."""
    return call("bash", command=command)


async def respond(runtime: AgentRuntime, run: Run, interrupt: Interrupt, **response: Json) -> None:
    """Respond to an approval interrupt."""
    await runtime.runs.respond(SPACE, run.id, response, interrupt=interrupt.id, digest=interrupt.digest, by="ada")


async def results(runtime: AgentRuntime, run: Run) -> list[str]:
    """Return the tool results of a run."""
    return [text.removeprefix("tool: ") for text in await runtime.texts(run) if text.startswith("tool: ")]


async def decisions(runtime: AgentRuntime, run: Run) -> list[tuple[str, str | None]]:
    """Return the decisions about calls, with their rules."""
    events = await runtime.custom_events(run, PermissionDecided)
    return [(str(each.decision), each.rule if isinstance(each.rule, str) else None) for each in events]


async def test_a_denied_call_never_runs_and_its_result_names_the_rule(any_workspace: AgentWorkspace) -> None:
    tool = shell()
    any_workspace.agent(
        calling(bash("git log; rm -rf x"), bash("git log")),
        say("I see"),
        tools=["bash"],
        permissions={"deny": ["bash(rm *)"], "allow": ["bash(git *)"]},
    )
    async with any_workspace.open(tool) as runtime:
        run = await runtime.run_to_end()
        assert await results(runtime, run) == ["refused: the rule `bash(rm *)` denies this call", "ran git log"]
        assert await decisions(runtime, run) == [("deny", "bash(rm *)"), ("allow", "bash(git *)")]
        states = [step.state for step in await runtime.steps(run) if step.name == "bash"]
    assert (run.output, run_count(tool), states) == ("I see", 1, [StepState.FAILED, StepState.DONE])


async def test_an_approval_interrupt_has_arguments_rule_and_digest(any_workspace: AgentWorkspace) -> None:
    tool = shell()
    any_workspace.agent(
        calling(bash("git push origin")), say("{$last_tool}"), tools=["bash"], permissions={"ask": ["bash(git push *)"]}
    )
    async with any_workspace.open(tool) as runtime:
        run = await runtime.start()
        (interrupt,) = await runtime.wait_for_interrupts(run)
        await runtime.wait_for_status(run, RunStatus.WAITING)
        assert (interrupt.kind, interrupt.arguments) == (InterruptKind.APPROVAL, {"command": "git push origin"})
        assert interrupt.digest == call_digest("bash", {"command": "git push origin"})
        assert (interrupt.metadata["tool"], interrupt.metadata["rule"]) == ("bash", "bash(git push *)")
        assert run_count(tool) == 0
        await respond(runtime, run, interrupt, decision="approve")
        ended_run = await runtime.wait_until_ended(run)
        events = await runtime.custom_events(run, PermissionDecided)
    assert (ended_run.output, run_count(tool)) == ("ran git push origin", 1)
    assert [(each.decision, each.by) for each in events][1] == (PermissionAction.ALLOW, "ada")


async def test_a_response_needs_only_its_decision(workspace: AgentWorkspace) -> None:
    tool = shell()
    workspace.agent(calling(bash("git push")), say("done"), tools=["bash"])
    async with workspace.open(tool) as runtime:
        run = await runtime.start()
        await runtime.wait_for_interrupts(run)
        await runtime.runs.respond(SPACE, run.id, {"decision": "approve"})
        await runtime.wait_until_ended(run)
    assert run_count(tool) == 1


async def test_a_response_must_have_the_digest_of_the_call(workspace: AgentWorkspace) -> None:
    tool = shell()
    workspace.agent(calling(bash("git push")), say("done"), tools=["bash"])
    async with workspace.open(tool) as runtime:
        run = await runtime.start()
        (interrupt,) = await runtime.wait_for_interrupts(run)
        other = call_digest("bash", {"command": "git push --force"})
        with pytest.raises(Invalid, match="other arguments"):
            await runtime.runs.respond(SPACE, run.id, {"decision": "approve"}, interrupt=interrupt.id, digest=other)
        for wrong in ("yes", {}, {"decision": "maybe"}, {"decision": "approve", "arguments": {"command": ""}}):
            with pytest.raises(Invalid, match="does not match its schema"):
                await runtime.runs.respond(SPACE, run.id, wrong, interrupt=interrupt.id, digest=interrupt.digest)
        assert run_count(tool) == 0
        await respond(runtime, run, interrupt, decision="deny", reason="not today")
        await runtime.wait_until_ended(run)
        assert await results(runtime, run) == ["refused: a person said no: not today"]
        with pytest.raises(AlreadyAnswered):
            await respond(runtime, run, interrupt, decision="approve")
    assert run_count(tool) == 0


async def test_no_call_of_a_message_runs_until_all_are_decided(any_workspace: AgentWorkspace) -> None:
    tool, look = shell(), fixed_tool("look", "seen", **READ_ONLY)
    any_workspace.agent(
        calling(call("look"), bash("a"), bash("rm b"), bash("c")),
        say("done"),
        tools=["*"],
        permissions={"deny": ["bash(rm *)"]},
    )
    async with any_workspace.open(tool, look) as runtime:
        run = await runtime.start()
        first, second = await runtime.wait_for_interrupts(run, 2)
        await respond(runtime, run, second, decision="approve")
        await runtime.wait_for_interrupts(run, 1)
        await runtime.wait_for_status(run, RunStatus.WAITING)
        assert (run_count(tool), run_count(look)) == (0, 0)
        assert [each.id for each in await runtime.open_interrupts(run)] == [first.id]
        await respond(runtime, run, first, decision="deny")
        await runtime.wait_until_ended(run)
        denied = "refused: the rule `bash(rm *)` denies this call"
        assert await results(runtime, run) == ["seen", "refused: a person said no", denied, "ran c"]
        verdicts = [str(each.decision) for each in await runtime.custom_events(run, PermissionDecided)]
    assert sorted(verdicts) == ["allow", "ask", "ask", "deny", "deny"]


async def test_a_person_may_edit_arguments_but_not_to_denied_ones(workspace: AgentWorkspace) -> None:
    tool = shell()
    workspace.agent(
        calling(bash("git push --force")),
        calling(bash("git push --tags")),
        say("done"),
        tools=["bash"],
        permissions={"deny": ["bash(rm *)"]},
    )
    async with workspace.open(tool) as runtime:
        run = await runtime.start()
        (interrupt,) = await runtime.wait_for_interrupts(run)
        await respond(runtime, run, interrupt, decision="approve", arguments={"command": "git push"})
        (second_interrupt,) = await runtime.wait_for_interrupts(run)
        while second_interrupt.id == interrupt.id:
            (second_interrupt,) = await runtime.wait_for_interrupts(run)
        await respond(runtime, run, second_interrupt, decision="approve", arguments={"command": "rm -rf ."})
        await runtime.wait_until_ended(run)
        edited, denied = await results(runtime, run)
        events = [each.arguments for each in await runtime.custom_events(run, PermissionDecided) if each.by == "ada"]
    assert edited == 'a person changed the arguments of this call to {"command":"git push"}. Its result:\nran git push'
    assert denied == "refused: the rule `bash(rm *)` denies this call"
    assert (run_count(tool), events[0]) == (1, {"command": "git push"})


@pytest.mark.parametrize(
    ("edited", "answer"),
    [
        ("ls\n\\rm v", "refused: the rule `bash(rm *)` denies this call"),
        ("cat <<E'O'F\nx\nEOF\nrm v", "refused: the rule `bash(rm *)` denies this call"),
        ("ls ${x:-'$(rm v)'}", "refused: the rule `bash(rm *)` denies this call"),
        ("X=r; Y=m; $X$Y v", "an assignment): write it in a plainer way"),
        ("$(printf 'r%s' m) v", "a command substitution): write it in a plainer way"),
        ("git -C . push", "the rule may match this call): write it in a plainer way"),
        ("printf -vPATH x", "`printf` with something other than a format): write it in a plainer way"),
    ],
)
async def test_an_edited_command_that_a_deny_rule_may_match_is_refused(
    workspace: AgentWorkspace, edited: str, answer: str
) -> None:
    tool = shell()
    denied = ["bash(rm *)", "bash(git push *)"]
    workspace.agent(calling(bash("ls")), say("done"), tools=["bash"], permissions={"deny": denied})
    async with workspace.open(tool) as runtime:
        run = await runtime.start()
        (interrupt,) = await runtime.wait_for_interrupts(run)
        await respond(runtime, run, interrupt, decision="approve", arguments={"command": edited})
        await runtime.wait_until_ended(run)
        (result,) = await results(runtime, run)
    assert result.startswith("refused: ") and result.endswith(answer)
    assert run_count(tool) == 0


async def test_a_question_names_the_construct_that_no_rule_can_allow(workspace: AgentWorkspace) -> None:
    workspace.agent(
        calling(bash("ls $(pwd) && git status")), say("done"), tools=["bash"], permissions={"allow": ["bash(ls *)"]}
    )
    async with workspace.open(shell()) as runtime:
        run = await runtime.start()
        (interrupt,) = await runtime.wait_for_interrupts(run)
        await respond(runtime, run, interrupt, decision="deny")
        await runtime.wait_until_ended(run)
    assert interrupt.metadata["reason"] == "no rule can allow this command, because it has a command substitution"
    assert interrupt.metadata["offers"] == []


async def test_a_granted_call_needs_no_further_approval(workspace: AgentWorkspace) -> None:
    tool = shell()
    push = calling(bash("git push origin main"))
    workspace.agent(push, push, say("done"), tools=["bash"], permissions={"ask": ["bash(git push *)"]})
    async with workspace.open(tool) as runtime:
        run = await runtime.start()
        (interrupt,) = await runtime.wait_for_interrupts(run)
        assert interrupt.metadata["offers"] == [["bash(git push origin main)"], ["bash(git push *)"]]
        await respond(runtime, run, interrupt, decision="always")
        assert (await runtime.wait_until_ended(run)).status is RunStatus.COMPLETED
        assert (await runtime.run_to_end()).status is RunStatus.COMPLETED
        granted = [each.granted for each in await runtime.custom_events(run, PermissionDecided) if each.by == "ada"]
    assert (run_count(tool), granted) == (4, [["bash(git push origin main)"]])
    assert not (workspace.folder / "permissions.json").exists()


async def test_an_always_answer_is_kept_although_a_new_rule_denies_the_call(workspace: AgentWorkspace) -> None:
    tool = shell()
    workspace.agent(calling(bash("git push")), say("done"), tools=["bash"])
    async with workspace.open(tool) as runtime:
        run = await runtime.start()
        (interrupt,) = await runtime.wait_for_interrupts(run)
        workspace.configure(tools=["bash"], permissions={"deny": ["bash(git push)"]})
        await asyncio.sleep(0.25)  # the files of agents are polled
        await respond(runtime, run, interrupt, decision="always")
        assert (await runtime.wait_until_ended(run)).status is RunStatus.COMPLETED
        (decision_event,) = [each for each in await runtime.custom_events(run, PermissionDecided) if each.by == "ada"]
        assert await runtime.store.grants.in_force(SPACE) == {"bot": ["bash(git push)"]}
    assert (run_count(tool), decision_event.decision) == (0, PermissionAction.DENY)
    assert decision_event.granted == ["bash(git push)"]


async def test_only_an_offered_rule_can_be_granted(workspace: AgentWorkspace) -> None:
    workspace.agent(calling(bash("npm run lint")), say("done"), tools=["bash"])
    async with workspace.open(shell()) as runtime:
        run = await runtime.start()
        (interrupt,) = await runtime.wait_for_interrupts(run)
        with pytest.raises(Invalid, match="does not match its schema"):
            await respond(runtime, run, interrupt, decision="always", rules=["bash"])
        with pytest.raises(Invalid, match="does not match its schema"):  # no rule was offered for the edited arguments
            await respond(runtime, run, interrupt, decision="always", arguments={"command": "npm run build"})
        await respond(runtime, run, interrupt, decision="always", rules=["bash(npm run *)"])
        await runtime.wait_until_ended(run)
        assert await runtime.store.grants.in_force(SPACE) == {"bot": ["bash(npm run *)"]}


async def test_an_unparsable_command_needs_approval_and_cannot_be_granted(workspace: AgentWorkspace) -> None:
    workspace.agent(calling(bash("$X")), say("done"), tools=["bash"], permissions={"allow": ["bash(git *)"]})
    async with workspace.open(shell()) as runtime:
        run = await runtime.start()
        (interrupt,) = await runtime.wait_for_interrupts(run)
        assert interrupt.metadata["offers"] == []
        with pytest.raises(Invalid, match="does not match its schema"):
            await respond(runtime, run, interrupt, decision="always")
        await respond(runtime, run, interrupt, decision="deny")
        await runtime.wait_until_ended(run)


async def test_a_call_that_would_fail_anyway_needs_no_approval(workspace: AgentWorkspace) -> None:
    tool = shell()
    workspace.agent(calling(call("bash", commando="x")), say("done"), tools=["bash"])
    async with workspace.open(tool) as runtime:
        run = await runtime.run_to_end()
        assert "`command` is missing" in (await results(runtime, run))[0]
    assert run_count(tool) == 0


async def test_an_expired_approval_denies_the_call(workspace: AgentWorkspace, clock: HeldClock) -> None:
    tool = shell()
    workspace.agent(calling(bash("x")), say("done"), tools=["bash"])
    async with workspace.open(tool, clock=clock) as runtime:
        run = await runtime.start()
        await runtime.wait_for_interrupts(run)
        await runtime.wait_for_status(run, RunStatus.WAITING)
        await runtime.advance(timedelta(days=8))
        await runtime.wait_until_ended(run)
        assert await results(runtime, run) == ["refused: nobody approved it in time"]
    assert run_count(tool) == 0


async def test_a_run_cancelled_during_an_approval_never_makes_the_call(any_workspace: AgentWorkspace) -> None:
    tool = shell()
    any_workspace.agent(calling(bash("x"), bash("y")), say("done"), tools=["bash"])
    async with any_workspace.open(tool) as runtime:
        run = await runtime.start()
        interrupts = await runtime.wait_for_interrupts(run, 2)
        await respond(runtime, run, interrupts[0], decision="approve")
        await runtime.runs.cancel(SPACE, run.id)
        ended_run = await runtime.wait_until_ended(run)
        assert await runtime.open_interrupts(run) == []
    assert (ended_run.status, run_count(tool)) == (RunStatus.CANCELLED, 0)


@pytest.mark.parametrize("kind", list(ToolClass))
async def test_an_approved_call_is_not_asked_again_by_the_next_worker(
    workspace: AgentWorkspace, kind: ToolClass
) -> None:
    """The worker is drained during the first of two approved calls; another worker continues."""
    gate = BlockingTool("bash", kind=kind)
    workspace.agent(
        calling(bash("a"), bash("b")),
        say("done"),
        tools=["bash"],
        unknown_outcome="tell",
        permissions={"ask": ["bash"]},
    )
    async with workspace.open(gate, drain=timedelta(0)) as runtime:
        run = await runtime.start()
        for interrupt in await runtime.wait_for_interrupts(run, 2):
            await respond(runtime, run, interrupt, decision="approve")
        await gate.started.acquire()
    gate.open.set()
    async with workspace.open(gate) as runtime:
        ended_run = await runtime.wait_until_ended(run)
        approval_events = [
            each
            for each in await runtime.custom_events(run, PermissionDecided)
            if each.decision is PermissionAction.ASK
        ]
        first, second = await results(runtime, run)
    runs_again = kind is not ToolClass.EFFECTFUL
    assert (ended_run.output, len(approval_events), gate.call_count) == ("done", 2, 3 if runs_again else 2)
    assert (first.startswith("unknown") is not runs_again, second) == (True, "open")


async def test_responses_without_a_worker_are_applied_later(any_workspace: AgentWorkspace) -> None:
    tool = shell()
    any_workspace.agent(calling(bash("a"), bash("b")), say("done"), tools=["bash"])
    async with any_workspace.open(tool) as runtime:
        run = await runtime.start()
        interrupts = await runtime.wait_for_interrupts(run, 2)
        await runtime.wait_for_status(run, RunStatus.WAITING)
    async with any_workspace.open(tool, workers=0) as runtime:
        await respond(runtime, run, interrupts[0], decision="deny")
        await respond(runtime, run, interrupts[1], decision="approve")
    async with any_workspace.open(tool) as runtime:
        await runtime.wait_until_ended(run)
        assert await results(runtime, run) == ["refused: a person said no", "ran b"]
    assert run_count(tool) == 1


async def test_a_new_deny_rule_wins_over_an_approval(workspace: AgentWorkspace) -> None:
    tool = shell()
    workspace.agent(calling(bash("rm x")), say("done"), tools=["bash"])
    async with workspace.open(tool) as runtime:
        run = await runtime.start()
        (interrupt,) = await runtime.wait_for_interrupts(run)
        await runtime.wait_for_status(run, RunStatus.WAITING)
    workspace.configure(tools=["bash"], permissions={"deny": ["bash(rm *)"]})
    async with workspace.open(tool) as runtime:
        await respond(runtime, run, interrupt, decision="approve")
        await runtime.wait_until_ended(run)
        assert await results(runtime, run) == ["refused: the rule `bash(rm *)` denies this call"]
    assert run_count(tool) == 0


async def test_a_child_has_at_most_the_rights_of_its_parent(any_workspace: AgentWorkspace) -> None:
    tool = shell()
    spawn = calling(call("agent_spawn", agent="kid", input="go"))
    rules = {"deny": ["bash(rm *)"], "allow": ["bash(git *)"]}
    any_workspace.agent(spawn, say("{$last_tool}"), name="boss", tools=["agent_spawn"], permissions=rules)
    any_workspace.agent(
        spawn.copy(), say("{$last_tool}"), name="bot", tools=["agent_spawn"], permissions={"allow": ["bash"]}
    )
    any_workspace.script(calling(call("agent_spawn", agent="bot", input="go")), say("{$last_tool}"), agent="boss")
    any_workspace.agent(
        calling(bash("rm x"), bash("git log"), bash("ls")),
        say("done"),
        name="kid",
        tools=["bash"],
        permissions={"allow": ["bash"]},
    )
    async with any_workspace.open(tool) as runtime:
        run = await runtime.start(agent="boss")
        (interrupt,) = await runtime.wait_for_interrupts(run)
        assert (interrupt.arguments, interrupt.metadata["agent"]) == ({"command": "ls"}, "boss")
        await respond(runtime, run, interrupt, decision="deny")
        assert (await runtime.wait_until_ended(run)).output == "done"
        kid = await runtime.child(await runtime.child(run))
        denied = "refused: the rule `bash(rm *)` of agent `boss` denies this call"
        assert await results(runtime, kid) == [denied, "ran git log", "refused: a person said no"]


async def test_rules_decide_which_agents_may_be_spawned(workspace: AgentWorkspace) -> None:
    spawn = [call("agent_spawn", agent=name, input="go") for name in ("kid", "other")]
    workspace.agent(calling(*spawn), say("done"), tools=["agent_spawn"], permissions={"deny": ["agent_spawn(oth*)"]})
    workspace.agent(say("I did"), name="kid")
    workspace.agent(say("I did"), name="other")
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        assert await results(runtime, run) == ["refused: the rule `agent_spawn(oth*)` denies this call", "I did"]


async def test_a_call_without_a_rule_emits_no_decision(workspace: AgentWorkspace) -> None:
    workspace.agent(calling(call("look"), call("act")), say("done"), tools=["*"])
    async with workspace.open(fixed_tool("look", 1, **READ_ONLY), fixed_tool("act", 2)) as runtime:
        run = await runtime.run_to_end()
        assert await runtime.custom_events(run, PermissionDecided) == []


async def test_a_message_instead_of_a_response_denies_the_call(workspace: AgentWorkspace) -> None:
    """A message arrives before the run waits: the interrupt is withdrawn, and the call is refused."""
    tool = shell()
    workspace.agent(say("thinking", chunks=20, delay_ms=20) | calling(bash("x")), say("{$last_user}"), tools=["bash"])
    async with workspace.open(tool) as runtime:
        run = await runtime.start()
        await runtime.wait_for_event(run, lambda event: "TextMessageContent" in type(event).__name__)
        await runtime.runs.steer(SPACE, run.id, "stop")
        ended_run = await runtime.wait_until_ended(run)
        assert (await results(runtime, run))[0].startswith("refused: nobody approved it, because the person")
    assert (ended_run.output, run_count(tool)) == ("stop", 0)


async def test_only_one_of_many_responses_is_accepted(workspace: AgentWorkspace) -> None:
    tool = shell()
    workspace.agent(calling(bash("x")), say("done"), tools=["bash"])
    async with workspace.open(tool) as runtime:
        run = await runtime.start()
        (interrupt,) = await runtime.wait_for_interrupts(run)
        racers = [respond(runtime, run, interrupt, decision="approve") for _ in range(20)]
        refusals = [each for each in await asyncio.gather(*racers, return_exceptions=True) if each is not None]
        await runtime.wait_until_ended(run)
    assert (len(refusals), run_count(tool)) == (19, 1)
