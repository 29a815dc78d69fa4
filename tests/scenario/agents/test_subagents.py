"""Agents send messages to each other, start tasks and subscribe to their ends, each delivered once."""

import pytest

from holdfast.domain.events import SubagentFinished, SubagentStarted
from holdfast.domain.events.custom import ChildChanged
from holdfast.domain.ids import ThreadId
from holdfast.domain.limits import Limits
from holdfast.domain.permission import RIGHTS_VALUE
from holdfast.domain.run import Mode, RunStatus
from holdfast.domain.thread import NewThread
from holdfast.domain.tool import ToolClass
from tests.scenario.agents.agent_workspace import SPACE, AgentWorkspace, call, calling, say
from tests.scenario.agents.fake_tools import BlockingTool
from tests.scenario.agents.subagent_calls import (
    ASK,
    LONG,
    ROOT,
    TOOLS,
    derived_from_step,
    message,
    results,
    runs_of,
    send,
    spawn,
    subscribe,
)


class TestMessages:
    """`agent_message` and `agent_send`."""

    async def test_the_reply_is_the_result_and_the_agent_keeps_the_conversation(
        self, any_workspace: AgentWorkspace
    ) -> None:
        any_workspace.agent(calling(message("one")), calling(message("two")), say("{$last_tool}"), tools=TOOLS)
        any_workspace.agent(say("heard {$last_user}"), name="kid")
        async with any_workspace.open(workers=1) as runtime:
            run = await runtime.run_to_end()
            first, second = await runtime.store.runs.children(SPACE, run.id)
            context = await runtime.context(second)
            events = await runtime.events(run)
        assert run.output == "heard two"
        assert first.thread_id == second.thread_id != run.thread_id
        assert (second.base_run_id, second.root_run_id) == (first.id, run.id)
        assert [str(each.content) for each in context.messages] == ["one", "heard one", "two"]
        agents = [event for event in events if isinstance(event, SubagentStarted | SubagentFinished)]
        assert [event.subagent_run_id for event in agents] == [first.id, first.id, second.id, second.id]

    async def test_the_next_turn_goes_on_with_the_same_conversation(self, workspace: AgentWorkspace) -> None:
        workspace.agent(calling(message("hi")), say("so"), tools=TOOLS)
        workspace.agent(say("heard"), name="kid")
        async with workspace.open() as runtime:
            first = await runtime.run_to_end()
            second = await runtime.run_to_end(thread=first.thread_id)
            one, two = await runs_of(runtime, "kid")
        assert second.base_run_id == first.id
        assert (two.thread_id, two.base_run_id, two.root_run_id) == (one.thread_id, one.id, second.id)

    async def test_several_agents_are_messaged_in_parallel(self, workspace: AgentWorkspace) -> None:
        workspace.agent(calling(message("a"), message("b", to="other"), ASK), say("done"), tools=TOOLS)
        for name in ("kid", "other"):
            workspace.agent(say(name + " heard {$last_user}"), name=name)
        async with workspace.open() as runtime:
            run = await runtime.start()
            (interrupt,) = await runtime.wait_for_interrupts(run)
            await runtime.runs.respond(SPACE, run.id, "yes", interrupt=interrupt.id)
            await runtime.wait_until_ended(run)
            assert sorted(await results(runtime, run)) == ["kid heard a", "other heard b", "yes"]

    async def test_a_message_to_a_child_goes_to_its_own_thread(self, workspace: AgentWorkspace) -> None:
        workspace.agent(
            calling(spawn(wait=False)),
            calling(message("and now?", thread_id=derived_from_step("thr"))),
            say("{$last_tool}"),
            tools=TOOLS,
        )
        workspace.agent(say("I {$last_user}"), name="kid")
        async with workspace.open() as runtime:
            run = await runtime.run_to_end(id=ROOT)
            first, second = await runtime.store.runs.children(SPACE, run.id)
        assert run.output == "I and now?"
        assert (second.thread_id, second.base_run_id) == (first.thread_id, first.id)

    async def test_messages_to_a_busy_agent_are_read_in_order(self, any_workspace: AgentWorkspace) -> None:
        gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
        words = [str(number) for number in range(6)]
        any_workspace.agent(calling(*map(send, words)), calling(message("last")), say("{$last_tool}"), tools=TOOLS)
        any_workspace.agent(calling(call("gate")), say("heard {$last_user}"), name="kid", tools=["gate"])
        async with any_workspace.open(gate) as runtime:
            run = await runtime.start()
            await gate.started.acquire()
            await runtime.wait_for_status(run, RunStatus.WAITING)
            kid_runs = await runs_of(runtime, "kid")
            assert [each.status for each in kid_runs[1:]] == [RunStatus.PENDING] * 6
            gate.open.set()
            ended_run = await runtime.wait_until_ended(run)
            kid_runs = await runs_of(runtime, "kid")
            contents = [(await runtime.messages(each))[0].content for each in kid_runs]
            changes = await runtime.custom_events(run, ChildChanged)
        assert ended_run.output == "heard last"
        assert contents == [*words, "last"]
        assert [each.base_run_id for each in kid_runs[1:]] == [each.id for each in kid_runs[:-1]]
        assert [change.run_id for change in changes if change.status is RunStatus.QUEUED] == [
            each.id for each in kid_runs[:-1]
        ]

    async def test_the_reply_to_a_sent_message_arrives_later(self, workspace: AgentWorkspace) -> None:
        workspace.agent(calling(send("look")), calling(LONG), say("{$last_user}"), tools=TOOLS)
        workspace.agent(say("seen"), name="kid")
        async with workspace.open() as runtime:
            run = await runtime.run_to_end()
            child = await runtime.child(run)
        assert run.output == f"Run `{child.id}`, which you started in the background, has completed: seen"

    @pytest.mark.parametrize(
        ("agents", "expected"),
        [
            (["nobody"], "NOT_FOUND: there is no agent `nobody` that this run may spawn"),
            (["kid", "thr_nowhere"], "NOT_FOUND: there is no thread `thr_nowhere`"),
            (["kid", "not an id"], "INVALID: `thread_id` must be"),
        ],
    )
    @pytest.mark.parametrize("make", [message, send])
    async def test_an_undeliverable_message_is_a_result_for_the_model(
        self, workspace: AgentWorkspace, agents: list[str], expected: str, make: type
    ) -> None:
        thread = {"thread_id": agents[1]} if len(agents) > 1 else {}
        workspace.agent(calling(make("x", to=agents[0], **thread)), say("{$last_tool}"), tools=TOOLS)
        workspace.agent(say("never"), name="kid")
        async with workspace.open() as runtime:
            run = await runtime.run_to_end()
            assert await runs_of(runtime, "kid") == []
        assert str(run.output).startswith(expected)

    async def test_other_agents_threads_and_user_threads_accept_no_messages(self, workspace: AgentWorkspace) -> None:
        """A thread of another tree, the thread of the root, and a thread of another agent are refused."""
        workspace.agent(say("private"), name="other")
        async with workspace.open() as runtime:
            stranger = await runtime.run_to_end(agent="other")
            first = calling(spawn(), message("x", to="other", thread_id=stranger.thread_id))
            workspace.agent(first, say("{$last_tool}"), tools=TOOLS)
            workspace.agent(calling(message("up", to="bot", thread_id="thr-own")), say("{$last_tool}"), name="kid")
            workspace.configure("kid", tools=TOOLS)
            run = await runtime.run_to_end(thread=NewThread(id=ThreadId("thr-own"), agent_type="bot"))
            below, beside = sorted(await results(runtime, run))
        assert below.startswith("NOT_FOUND: there is no thread `thr-own` that this run may write to")
        assert beside.startswith(f"NOT_FOUND: there is no thread `{stranger.thread_id}`")

    async def test_a_message_to_a_thread_must_name_its_agent(self, workspace: AgentWorkspace) -> None:
        turns = [
            calling(spawn(wait=False)),
            calling(message("x", to="other", thread_id=derived_from_step("thr"))),
            say("{$last_tool}"),
        ]
        workspace.agent(*turns, tools=TOOLS)
        workspace.script(*turns, after_last="repeat")  # the end of the child may need another answer
        workspace.agent(say("I did"), name="kid")
        workspace.agent(say("not me"), name="other")
        async with workspace.open() as runtime:
            run = await runtime.run_to_end(id=ROOT)
        assert str(run.output).endswith("belongs to agent `kid`: name that agent")

    async def test_an_agent_that_waits_for_a_person_accepts_no_message(self, workspace: AgentWorkspace) -> None:
        turns = [calling(send("one")), calling(call("gate")), calling(send("two")), say("{$last_tool}")]
        workspace.agent(*turns, tools=[*TOOLS, "gate"])
        workspace.agent(calling(ASK), say("never"), name="kid", tools=TOOLS)
        gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
        async with workspace.open(gate) as runtime:
            run = await runtime.start()
            await runtime.wait_for_interrupts(run)
            gate.open.set()
            ended_run = await runtime.wait_until_ended(run)
        assert str(ended_run.output).startswith("WAITING: run `")

    async def test_the_receiver_of_a_message_has_at_most_the_rights_of_its_sender(
        self, workspace: AgentWorkspace
    ) -> None:
        rules = {"deny": ["log_write"]}
        workspace.agent(calling(message("log it")), say("{$last_tool}"), tools=TOOLS, permissions=rules)
        workspace.agent(calling(call("log_write", message="x")), say("{$last_tool}"), name="kid", tools=["log_write"])
        async with workspace.open() as runtime:
            run = await runtime.run_to_end()
            values = await runtime.store.values.of_run(SPACE, (await runtime.child(run)).id)
        assert run.output == "refused: the rule `log_write` of agent `bot` denies this call"
        assert [each["agent"] for each in values[RIGHTS_VALUE]] == ["bot"]


class TestTasks:
    """`task_spawn` and `task_subscribe`."""

    async def test_an_independent_task_outlives_the_run_that_started_it(self, workspace: AgentWorkspace) -> None:
        workspace.agent(calling(call("task_spawn", agent="kid", input="x")), calling(LONG), say("never"), tools=TOOLS)
        workspace.agent(calling(ASK), say("I did"), name="kid", tools=TOOLS)
        async with workspace.open() as runtime:
            run = await runtime.start()
            await runtime.wait_for_status(run, RunStatus.WAITING)
            (task,) = await runs_of(runtime, "kid")
            await runtime.runs.cancel(SPACE, run.id)
            await runtime.wait_for_interrupts(task)
            await runtime.runs.respond(SPACE, task.id, "yes")
            ended_run = await runtime.wait_until_ended(task)
            assert await runtime.store.runs.children(SPACE, run.id) == []
        assert (ended_run.output, ended_run.mode, ended_run.parent_run_id) == ("I did", Mode.TASK, None)
        assert ended_run.root_run_id == ended_run.id

    @pytest.mark.parametrize("begin", ["task_spawn", "task_create"])
    async def test_a_task_is_waited_for(self, any_workspace: AgentWorkspace, begin: str) -> None:
        wait = calling(subscribe(derived_from_step("run"), wait=True))
        any_workspace.agent(calling(call(begin, agent="kid", input="x")), wait, say("{$last_tool}"), tools=TOOLS)
        any_workspace.agent(calling(call("gate")), say("I did"), name="kid", tools=["gate"])
        gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
        async with any_workspace.open(gate) as runtime:
            run = await runtime.start(id=ROOT)
            waiting = await runtime.wait_for_status(run, RunStatus.WAITING)
            gate.open.set()
            ended_run = await runtime.wait_until_ended(run)
            texts = await runtime.texts(run)
            changes = await runtime.custom_events(run, ChildChanged)
        assert (waiting.status_reason, ended_run.output) == ("task", "I did")
        assert sum(line.startswith("user: Run `") for line in texts) == 0, "it is reported once"
        expected = [RunStatus.QUEUED, RunStatus.COMPLETED] if begin == "task_create" else []
        assert [change.status for change in changes] == expected

    async def test_the_end_of_a_task_wakes_its_subscriber(self, any_workspace: AgentWorkspace) -> None:
        any_workspace.agent(
            calling(call("task_spawn", agent="kid", input="x")),
            calling(subscribe(derived_from_step("run"))),
            calling(LONG),
            say("{$last_user}"),
            tools=TOOLS,
        )
        any_workspace.agent(calling(call("gate")), say("I did"), name="kid", tools=["gate"])
        gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
        async with any_workspace.open(gate) as runtime:
            run = await runtime.start(id=ROOT)
            await runtime.wait_for_status(run, RunStatus.WAITING)
            gate.open.set()
            ended_run = await runtime.wait_until_ended(run)
            (task,) = await runs_of(runtime, "kid")
            slept = (await results(runtime, run))[-1]
        assert ended_run.output == f"Run `{task.id}`, which you asked about, has completed: I did"
        assert slept == '{"woke_early":true,"because":"a run that you wait for has ended"}'

    async def test_a_subscription_to_an_ended_task_resolves_at_once(self, workspace: AgentWorkspace) -> None:
        workspace.agent(say("long ago"), name="kid")
        async with workspace.open() as runtime:
            task = await runtime.run_to_end(agent="kid")
            subscribe_turn = calling(subscribe(task.id), subscribe(task.id, wait=True))
            workspace.agent(subscribe_turn, say("{$last_tool}"), tools=TOOLS)
            run = await runtime.run_to_end()
            assert await results(runtime, run) == ["long ago", "long ago"]

    @pytest.mark.parametrize(("wait", "expected"), [(True, "task `{id}` was cancelled"), (False, "was cancelled")])
    async def test_a_task_ended_from_outside_resolves_its_subscription(
        self, any_workspace: AgentWorkspace, wait: bool, expected: str
    ) -> None:
        begin = calling(call("task_spawn", agent="kid", input="x"))
        wants = subscribe(derived_from_step("run"), wait=wait)
        any_workspace.agent(begin, calling(wants), *([] if wait else [calling(LONG)]), say("{$last_user}"), tools=TOOLS)
        any_workspace.agent(calling(ASK), say("never"), name="kid", tools=TOOLS)
        async with any_workspace.open() as runtime:
            run = await runtime.start(id=ROOT)
            await runtime.wait_for_status(run, RunStatus.WAITING)
            (task,) = await runs_of(runtime, "kid")
            await runtime.runs.cancel(SPACE, task.id)
            ended_run = await runtime.wait_until_ended(run)
            tool_results = [*await results(runtime, run), str(ended_run.output)]
        assert any(expected.format(id=task.id) in each for each in tool_results)

    async def test_a_message_ends_the_wait_and_the_task_reports_later(self, workspace: AgentWorkspace) -> None:
        workspace.agent(
            calling(call("task_create", agent="kid", input="x")),
            calling(subscribe(derived_from_step("run"), wait=True)),
            calling(ASK),
            say("{$last_user}"),
            tools=TOOLS,
        )
        workspace.agent(calling(call("gate")), say("I did"), name="kid", tools=["gate"])
        gate = BlockingTool(kind=ToolClass.IDEMPOTENT)
        async with workspace.open(gate) as runtime:
            run = await runtime.start(id=ROOT)
            await runtime.wait_for_status(run, RunStatus.WAITING)
            await runtime.runs.steer(SPACE, run.id, "hurry")
            (interrupt,) = await runtime.wait_for_interrupts(run)
            gate.open.set()
            (task,) = await runtime.store.runs.children(SPACE, run.id)
            await runtime.wait_until_ended(task)
            await runtime.runs.respond(SPACE, run.id, "yes", interrupt=interrupt.id)
            ended_run = await runtime.wait_until_ended(run)
            texts = await runtime.texts(run)
        report = f"Run `{task.id}`, which you started in the background, has completed: I did"
        assert ended_run.output == report
        assert texts.count(f"user: {report}") == 1
        assert sum("which you asked about" in line for line in texts) == 0

    async def test_a_wait_for_a_task_continues_in_another_process(self, any_workspace: AgentWorkspace) -> None:
        begin = calling(call("task_spawn", agent="kid", input="x"))
        any_workspace.agent(
            begin, calling(subscribe(derived_from_step("run"), wait=True), LONG), say("{$last_tool}"), tools=TOOLS
        )
        any_workspace.agent(calling(ASK), say("I did"), name="kid", tools=TOOLS)
        async with any_workspace.open() as runtime:
            run = await runtime.start(id=ROOT)
            await runtime.wait_for_status(run, RunStatus.WAITING)
        async with any_workspace.open() as runtime:
            (task,) = await runs_of(runtime, "kid")
            await runtime.wait_for_interrupts(task)
            await runtime.runs.respond(SPACE, task.id, "yes")
            await runtime.wait_for_event(run, lambda event: "I did" in str(event))
            await runtime.runs.steer(SPACE, run.id, "wake up")
            await runtime.wait_until_ended(run)
            assert sorted(await results(runtime, run))[0] == "I did"

    async def test_an_independent_task_is_refused_where_there_is_a_budget(self, workspace: AgentWorkspace) -> None:
        workspace.agent(calling(call("task_spawn", agent="kid", input="x")), say("{$last_tool}"), tools=TOOLS)
        workspace.agent(say("never"), name="kid")
        async with workspace.open() as runtime:
            run = await runtime.run_to_end(limits=Limits(token_budget=1000))
            assert await runs_of(runtime, "kid") == []
        assert str(run.output).startswith("CONFLICT: this run has a budget")

    async def test_an_unknown_task_is_a_result_for_the_model(self, workspace: AgentWorkspace) -> None:
        workspace.agent(calling(subscribe("run_nowhere", wait=True)), say("{$last_tool}"), tools=TOOLS)
        async with workspace.open() as runtime:
            assert (await runtime.run_to_end()).output == "NOT_FOUND: there is no run `run_nowhere`"
