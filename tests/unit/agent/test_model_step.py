"""Whole runs on a model that the test controls."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from holdfast.agent.context.tokens import EstimatedTokens
from holdfast.agent.loop import AgentExecutor
from holdfast.bootstrap import open_store
from holdfast.bus.local import LocalBus
from holdfast.control.local_runtime import LocalLibrary, LocalSubagentRuns
from holdfast.control.platform_tools import PlatformTools
from holdfast.control.skills import SkillShelf
from holdfast.domain.agent import Agent
from holdfast.domain.agent_version import AgentBundle, AgentHead, LiveRules
from holdfast.domain.artifact import NewFile
from holdfast.domain.commit import Lease
from holdfast.domain.content import DataSource, ImagePart
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import SpaceId, ToolCallId
from holdfast.domain.inbox import InboxKind
from holdfast.domain.limits import ZERO_USAGE
from holdfast.domain.message import Role
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.skill import BrokenSkill, Skill
from holdfast.domain.step import StepState
from holdfast.ports.model import Model, ModelDelta, ModelFinished, TextDelta, ToolArgumentsDelta, ToolCallStarted
from holdfast.ports.runtime import MemoryLibrary
from holdfast.ports.workspace import BrokenAgent
from holdfast.store.store import Store
from holdfast.testing.clock import HeldClock
from holdfast.testing.stream_verifier import verify_stream
from tests.conformance.conftest import SPACE
from tests.conformance.run_builders import get, messages_of, running, stream
from tests.unit.agent.fakes import FakeModel

CALL = ToolCallId("c")
FINISHED = ModelFinished(usage=ZERO_USAGE)


class NoSkills:
    """`FolderSkills` without any."""

    def of_agent(self, agent: str | None) -> Sequence[Skill]:
        return ()

    def broken(self) -> list[BrokenSkill]:
        return []

    def file(self, skill: Skill, path: str) -> bytes:
        raise NotFound(path)


class SingleAgent:
    """`Agents`, `RunAgents` and `Models` with one agent and one model."""

    def __init__(self, fake_model: FakeModel) -> None:
        self._model = fake_model
        self._agent = Agent(
            name="bot", description="", models=["fake_model"], instructions="Help.", tools=["log_write"]
        )

    def get(self, name: str) -> Agent:
        return self._agent

    def all(self) -> list[Agent]:
        return [self._agent]

    def broken(self) -> list[BrokenAgent]:
        return []

    async def active(self, name: str, *, space: SpaceId | None = None) -> Agent:
        return self._agent

    async def of_space(self, space: SpaceId, name: str) -> Agent:
        return self._agent

    async def broken_of_space(self, space: SpaceId) -> list[BrokenAgent]:
        return []

    async def all_of_space(self, space: SpaceId) -> list[Agent]:
        return [self._agent]

    async def of_run(self, run: Run) -> Agent:
        return self._agent

    async def skills_of_run(self, run: Run) -> None:
        return None

    async def bundle_of_run(self, run: Run) -> AgentBundle:
        raise NotFound(run.id)

    async def bundle_files(self, run: Run, digests: Sequence[str]) -> dict[str, bytes]:
        raise NotFound(run.id)

    async def owner(self, space: SpaceId, agent: str) -> SpaceId | None:
        return None

    async def check_usable(self, agent: str, version: str, *, owner: SpaceId | None = None) -> None:
        raise NotFound(agent)

    async def follow(self, head: AgentHead) -> None:
        raise NotFound(head.agent)

    async def rules(self, agent: str, *, space: SpaceId) -> LiveRules:
        return LiveRules()

    def find(self, name: str, *, folder: str | None = None) -> Model:
        return self._model

    def fallback(self, names: Sequence[str], *, folder: str | None = None) -> Model:
        return self._model

    async def prepare(self, names: Sequence[str]) -> None:
        pass


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(tmp_path / "holdfast.db", bus=LocalBus(), clock=HeldClock()) as store:
        await store.spaces.create(SPACE, name="Acme")
        yield store


@asynccontextmanager
async def executing(store: Store, fake_model: FakeModel, lease: Lease | None = None) -> AsyncIterator[Lease]:
    """Execute a run while the block runs; it must end by then."""
    single = SingleAgent(fake_model)
    executor = AgentExecutor(
        journal=store.journal,
        library=LocalLibrary(
            single,
            single,
            store.files,
            store.artifacts,
            store.grants,
            store.reminders,
            SkillShelf(NoSkills(), store.skills),
        ),
        memory=cast(MemoryLibrary, None),  # the agent has no memory
        subagents=LocalSubagentRuns(store.runs, store.subscriptions, store.journal, store.values),
        remote=PlatformTools(store.runs, store.journal, store.values),
        models=single,
        tokens=EstimatedTokens(),
        clock=HeldClock(),
        workspace="w",
    )
    lease = lease or await leased(store)
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(executor.execute(lease, stop=asyncio.Event()))
        yield lease


async def leased(store: Store) -> Lease:
    """Create and claim a run."""
    return await running(store, "go", agent_type="bot", model="fake_model")


def calling(arguments: str) -> list[ModelDelta]:
    """Return the deltas of a tool call."""
    return [ToolCallStarted(CALL, "log_write"), ToolArgumentsDelta(CALL, arguments), FINISHED]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [('{"message":', "not JSON"), ("[]", "not a JSON object"), ('{"massage": "x"}', "`message` is missing")],
)
async def test_unparsable_arguments_are_reported_to_the_model(store: Store, arguments: str, why: str) -> None:
    fake_model = FakeModel()
    fake_model.say(*calling(arguments), *calling('{"message": "x"}'), TextDelta("done"), FINISHED)
    async with executing(store, fake_model) as lease:
        pass
    run = await get(store, lease.run_id)
    results = [str(text) for _, role, text in await messages_of(store, run.id) if role is Role.TOOL]
    states = [step.state for step in await store.steps.of_run(SPACE, run.id) if step.tool_call_id is not None]
    assert (run.status, run.output) == (RunStatus.COMPLETED, "done")
    assert why in results[0]
    assert results[1] == '{"logged":true}'
    assert states == [StepState.FAILED, StepState.DONE]
    verify_stream(await stream(store, run.id))


async def test_a_lease_with_a_snapshot_needs_no_read_of_the_journal(store: Store) -> None:
    fake_model = FakeModel()
    fake_model.say(TextDelta("done"), FINISHED)
    lease = await leased(store)
    read = await store.journal.open(lease)
    snapshot = replace(read, messages=[replace(message, content="as the lease says") for message in read.messages])
    async with executing(store, fake_model, replace(lease, snapshot=snapshot)):
        pass
    assert [message.content for message in fake_model.requests[0].messages] == ["as the lease says"]


async def test_reminders_are_read_only_if_one_may_be_due(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[object] = []

    async def of_turn(*arguments: object, **more: object) -> list[object]:
        reads.append(arguments)
        return []

    monkeypatch.setattr(store.reminders, "of_turn", of_turn)
    for due, read in ((False, 0), (True, 1)):
        fake_model = FakeModel()
        fake_model.say(TextDelta("done"), FINISHED)
        lease = await leased(store)
        assert not lease.reminders_due
        async with executing(store, fake_model, replace(lease, reminders_due=due)):
            pass
        assert len(reads) == read


async def test_a_message_after_the_final_answer_is_answered_before_the_run_ends(store: Store) -> None:
    fake_model = FakeModel()
    async with executing(store, fake_model) as lease:
        fake_model.say(TextDelta("that is all"))
        while not fake_model.lines.empty():  # noqa: ASYNC110 - the run continues meanwhile
            await asyncio.sleep(0.001)
        data = {"role": "user", "content": "wait"}
        await store.inbox.put(SPACE, lease.run_id, kind=InboxKind.MESSAGE, data=data)
        fake_model.say(FINISHED, TextDelta("yes?"), FINISHED)
    run = await get(store, lease.run_id)
    assert [text for _, _, text in await messages_of(store, run.id)] == ["go", "that is all", "wait", "yes?"]
    assert (run.status, run.output, run.iterations) == (RunStatus.COMPLETED, "yes?", 2)
    verify_stream(await stream(store, run.id))


async def test_a_file_of_a_message_is_sent_with_its_content(store: Store) -> None:
    file = await store.files.create(SPACE, NewFile(name="a.png", media_type="image/png", content=b"\x89PNG"))
    fake_model = FakeModel()
    async with executing(store, fake_model) as lease:
        content = [{"type": "image", "source": {"type": "file", "value": file.id}}]
        await store.inbox.put(SPACE, lease.run_id, kind=InboxKind.MESSAGE, data={"role": "user", "content": content})
        fake_model.say(TextDelta("hm"), FINISHED, TextDelta("a picture"), FINISHED)
    image = ImagePart(source=DataSource(value="iVBORw==", mime_type="image/png"))
    assert fake_model.requests[-1].messages[-1].content == [image]


async def test_nothing_is_written_to_a_run_that_has_ended(store: Store) -> None:
    fake_model = FakeModel()
    with pytest.raises(ExceptionGroup, match="unhandled errors") as raised:
        async with executing(store, fake_model) as lease:
            fake_model.say(TextDelta("one moment"))
            while len(await stream(store, lease.run_id)) < 3:  # noqa: ASYNC110 - the run continues meanwhile
                await asyncio.sleep(0.001)
            await store.runs.end(SPACE, lease.run_id)
            fake_model.say(TextDelta("here it is"), FINISHED)
    assert [type(error).__name__ for error in raised.value.exceptions] == ["LeaseLost"]
    assert [text for _, _, text in await messages_of(store, lease.run_id)] == ["go"]
    verify_stream(await stream(store, lease.run_id))
