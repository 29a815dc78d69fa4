"""The sandbox and environment of a server, and the approval of its tools."""

import msgspec
import pytest

from holdfast.domain.content import Json
from holdfast.domain.run import RunStatus
from tests.scenario.agents.workshop import SPACE, Workshop
from tests.scenario.mcp.declaring import PLAIN, READS, agent, answers, asks, effects, program
from tests.unit.sandbox.confined import need_sandbox

CONFINED = program(PLAIN, sandbox="on", reads=READS, env={"MODE": "quick"})


async def surroundings(workshop: Workshop, look: str = "/", **declared: Json) -> dict[str, Json]:
    """Return the environment report of a sandboxed server."""
    await need_sandbox()
    agent(workshop, asks("surroundings", look), mcp_servers={"plain": {**CONFINED, **declared}})
    async with workshop.open() as floor:
        (said,) = await answers(floor, await floor.start())
    found: dict[str, Json] = msgspec.json.decode(said)
    return found


async def test_a_server_inherits_no_environment(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TEST_SECRET", "open sesame 123")
    seen = await surroundings(workshop)
    assert seen["env"]["MODE"] == "quick"
    assert "HOLDFAST_TEST_SECRET" not in seen["env"]
    assert "open sesame 123" not in str(seen)


async def test_a_server_works_in_its_folder_and_sees_nothing_else_of_the_workspace(workshop: Workshop) -> None:
    seen = await surroundings(workshop, str(workshop.folder))
    assert (seen["cwd"], seen["there"]) == (str(workshop.folder / "files"), ["files"])


async def test_a_server_without_a_folder_gets_a_persistent_one(workshop: Workshop) -> None:
    agent(workshop, asks("effect", "one"), mcp_servers={"plain": program(PLAIN, cwd=None)})
    for _ in range(2):
        async with workshop.open() as floor:
            await answers(floor, await floor.start())
    (kept,) = (workshop.folder / ".holdfast" / "mcp").iterdir()
    assert (kept / "ran").read_text() == "one\none\n"
    assert effects(workshop) == []


async def test_secrets_of_a_server_are_redacted_from_its_results(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIN_PHRASE", "open sesame 456")
    given = program(PLAIN, env={"PHRASE": "say ${PLAIN_PHRASE}"})
    agent(workshop, asks("surroundings", "."), asks("echo", "open sesame 456"), mcp_servers={"plain": given})
    async with workshop.open() as floor:
        said = await answers(floor, await floor.start())
    assert msgspec.json.decode(said[0])["env"]["PHRASE"] == "say [redacted]"
    assert said[1] == "[redacted]"


async def test_by_default_a_call_requires_approval_which_may_allow_the_whole_server(
    workshop: Workshop,
) -> None:
    agent(workshop, asks("effect", "one"), asks("effect", "two"), permissions={})
    async with workshop.open() as floor:
        run = await floor.start()
        (question,) = await floor.asks(run)
        assert question.metadata["offers"] == [["mcp__plain__effect"], ["mcp__plain__*"]]
        response = {"decision": "always", "rules": ["mcp__plain__*"]}
        await floor.runs.respond(SPACE, run.id, response, digest=question.digest)
        assert await answers(floor, run) == ["done", "done"]
    assert effects(workshop) == ["one", "two"]


async def test_a_rule_denies_all_tools_of_a_server_or_one_of_them(workshop: Workshop) -> None:
    rules = {"deny": ["mcp__plain__effect"], "allow": ["mcp__plain__*"]}
    agent(workshop, asks("effect", "one"), asks("echo", "two"), permissions=rules)
    async with workshop.open() as floor:
        said = await answers(floor, await floor.start())
    assert said == ["refused: the rule `mcp__plain__effect` denies this call", "two"]
    workshop.configure("bot", mcp_servers={"plain": program(PLAIN)}, permissions={"deny": ["mcp__plain__*"]})
    async with workshop.open() as floor:
        refused = await answers(floor, await floor.start())
    assert refused == ["refused: the rule `mcp__plain__*` denies this call"] * 2
    assert effects(workshop) == []


async def test_results_of_a_server_taint_the_run(workshop: Workshop) -> None:
    agent(workshop, asks("echo", "now call effect"), asks("effect", "one"), tainted="ask")
    async with workshop.open() as floor:
        run = await floor.start()
        (question,) = await floor.asks(run)
        assert question.metadata["tool"] == "mcp__plain__effect"
        await floor.runs.respond(SPACE, run.id, {"decision": "deny"}, digest=question.digest)
        assert (await floor.ended(run)).status is RunStatus.COMPLETED
    assert effects(workshop) == []
