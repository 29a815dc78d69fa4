"""Structured output: the final answer of a run is JSON that matches a schema, or the model is told what is wrong."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.message import Role
from holdfast.domain.run import Run, RunStatus
from holdfast.testing.openai_server import StubOpenAIServer, StubReply
from tests.scenario.agents.agent_workspace import SPACE, AgentWorkspace, call, calling, say
from tests.scenario.agents.fake_tools import fixed_tool
from tests.scenario.agents.killed_process import KILLS, RUN, KilledWorkspace, kill_and_resume
from tests.support.fork_server import ForkServer

QUOTE: Final[Json] = {
    "type": "object",
    "properties": {"symbol": {"type": "string"}, "price": {"type": "number"}},
    "required": ["symbol", "price"],
    "additionalProperties": False,
}
VALID: Final = '{"symbol": "ACME", "price": 7.5}'
VALUE: Final = {"symbol": "ACME", "price": 7.5}


async def test_the_output_is_the_decoded_answer(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(say(VALID, chunks=4), output=QUOTE)
    async with any_workspace.open() as runtime:
        run = await runtime.run_to_end()
        context = await runtime.context(run, 0)
    assert (run.status, run.output, run.output_schema) == (RunStatus.COMPLETED, VALUE, None)
    assert '"required":["symbol","price"]' in context.system


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("It is 7.5.", "not JSON"),
        (f"```json\n{VALID}\n```", "not JSON"),
        ('{"symbol": "ACME"}', "`price` is missing"),
        ('{"symbol": "ACME", "price": "7.5"}', "it must be number"),
        ('{"symbol": "ACME", "price": 7.5, "at": 0}', "does not take `at`"),
        ("", "empty"),
    ],
)
async def test_a_model_is_told_what_is_wrong_and_answers_again(
    workspace: AgentWorkspace, answer: str, problem: str
) -> None:
    workspace.agent(say(answer), say(VALID), output=QUOTE)
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        contexts = [await runtime.context(run, iteration) for iteration in (0, 1)]
        texts = await runtime.texts(run)
    assert (run.output, run.iterations) == (VALUE, 2)
    assert texts == ["user: go", f"assistant: {answer}", f"assistant: {VALID}"]
    notices = [[str(each.content) for each in context.messages if each.role is Role.SYSTEM] for context in contexts]
    assert notices[0] == [] and problem in notices[1][0]


async def test_a_run_fails_after_three_invalid_answers_and_a_retry_may_succeed(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(*[say("no")] * 3, say(VALID), output=QUOTE)
    async with any_workspace.open() as runtime:
        run = await runtime.run_to_end()
        assert run.error is not None
        assert (run.error.code, run.iterations) == ("OUTPUT_INVALID", 3)
        assert "not JSON" in run.error.details["problems"][0]
        retry = await runtime.wait_until_ended((await runtime.runs.retry(SPACE, run.id)).run)
    assert retry.output == VALUE


async def test_a_request_names_its_own_schema_and_a_retry_keeps_it(any_workspace: AgentWorkspace) -> None:
    any_workspace.agent(*[say("no")] * 3, say('["a"]'))
    schema = {"type": "array", "items": {"type": "string"}}
    async with any_workspace.open() as runtime:
        run = await runtime.run_to_end(output_schema=schema)
        assert run.error is not None and run.error.code == "OUTPUT_INVALID"
        retry = await runtime.wait_until_ended((await runtime.runs.retry(SPACE, run.id)).run)
        later = await runtime.run_to_end(thread=run.thread_id)
    assert (retry.output, retry.output_schema) == (["a"], schema)
    assert (later.status, later.output_schema) == (RunStatus.COMPLETED, None)


async def test_tools_run_before_the_final_answer(workspace: AgentWorkspace) -> None:
    workspace.agent(calling(call("look"), say="I look it up"), say("7.5"), say(VALID), tools=["look"], output=QUOTE)
    async with workspace.open(fixed_tool("look", "seen")) as runtime:
        run = await runtime.run_to_end()
    assert (run.output, run.iterations) == (VALUE, 3)


@pytest.mark.parametrize("schema", [{"type": 7}, {"$ref": "file:///etc/passwd"}, {"pattern": "("}])
async def test_a_schema_that_cannot_be_used_is_refused(workspace: AgentWorkspace, schema: dict[str, Json]) -> None:
    workspace.agent(say("x"))
    async with workspace.open() as runtime:
        with pytest.raises(Invalid, match="output_schema"):
            await runtime.start(output_schema=schema)
        assert (await runtime.store.threads.page(SPACE, limit=10)).items == []
        workspace.configure(output=schema)
    async with workspace.open() as runtime:
        assert ["output" in broken.message for broken in runtime.holdfast.agents.broken()] == [True]


async def test_a_provider_that_can_enforce_a_schema_receives_it(workspace: AgentWorkspace) -> None:
    async with StubOpenAIServer(StubReply(text=VALID)) as server:
        workspace.provider(server)
        workspace.agent(model="local:gpt-5", output=QUOTE)
        async with workspace.open() as runtime:
            run = await runtime.run_to_end()
    assert run.output == VALUE
    (request,) = server.requests
    assert request["response_format"]["json_schema"]["schema"]["required"] == ["symbol", "price"]


@pytest.fixture(scope="module")
async def victims() -> AsyncIterator[ForkServer]:
    async with ForkServer("tests.scenario.agents.approval_process:work") as server:
        yield server


def _new_killed_workspace(tmp_path: Path, shared_memory: Path, name: str) -> KilledWorkspace:
    workspace = AgentWorkspace(tmp_path / name, shared_memory / f"{name}.db")
    workspace.agent(say("no", chunks=2), say('{"symbol": 1}'), say(VALID), output=QUOTE)
    return KilledWorkspace(workspace, workspace.folder / "none")


async def _check(killed_workspace: KilledWorkspace) -> None:
    async with killed_workspace.workspace.open(workers=0) as runtime:
        run: Run = await runtime.store.runs.get(SPACE, RUN)
        texts = await runtime.texts(run)
    assert (run.status, run.output) == (RunStatus.COMPLETED, VALUE)
    assert texts == ["user: go", "assistant: no", 'assistant: {"symbol": 1}', f"assistant: {VALID}"]


@pytest.mark.parametrize("deaths", [KILLS, pytest.param(None, marks=pytest.mark.slow, id="everywhere")])
async def test_a_killed_worker_changes_nothing_about_the_tries(
    victims: ForkServer, tmp_path: Path, shared_memory: Path, deaths: int | None
) -> None:
    await kill_and_resume(victims, partial(_new_killed_workspace, tmp_path, shared_memory), _check, kills=deaths)
