"""The sandbox and environment of a server, and the approval of its tools."""

import msgspec
import pytest

from holdfast.domain.content import Json
from holdfast.domain.run import RunStatus
from tests.scenario.agents.agent_workspace import SPACE, AgentWorkspace
from tests.scenario.mcp.declaring import PLAIN, READS, agent, answers, asks, effects, program
from tests.unit.sandbox.confined import need_sandbox

CONFINED = program(PLAIN, sandbox="on", reads=READS, env={"MODE": "quick"})


async def surroundings(workspace: AgentWorkspace, look: str = "/", **declared: Json) -> dict[str, Json]:
    """Return the environment report of a sandboxed server."""
    await need_sandbox()
    agent(workspace, asks("surroundings", look), mcp_servers={"plain": {**CONFINED, **declared}})
    async with workspace.open() as runtime:
        (said,) = await answers(runtime, await runtime.start())
    found: dict[str, Json] = msgspec.json.decode(said)
    return found


async def test_a_server_inherits_no_environment(workspace: AgentWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TEST_SECRET", "open sesame 123")
    seen = await surroundings(workspace)
    assert seen["env"]["MODE"] == "quick"
    assert "HOLDFAST_TEST_SECRET" not in seen["env"]
    assert "open sesame 123" not in str(seen)


async def test_a_server_works_in_its_folder_and_sees_nothing_else_of_the_workspace(workspace: AgentWorkspace) -> None:
    seen = await surroundings(workspace, str(workspace.folder))
    assert (seen["cwd"], seen["there"]) == (str(workspace.folder / "files"), ["files"])


async def test_a_server_without_a_folder_gets_a_persistent_one(workspace: AgentWorkspace) -> None:
    agent(workspace, asks("effect", "one"), mcp_servers={"plain": program(PLAIN, cwd=None)})
    for _ in range(2):
        async with workspace.open() as runtime:
            await answers(runtime, await runtime.start())
    (kept,) = (workspace.folder / ".holdfast" / "mcp").iterdir()
    assert (kept / "ran").read_text() == "one\none\n"
    assert effects(workspace) == []


async def test_secrets_of_a_server_are_redacted_from_its_results(
    workspace: AgentWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIN_PHRASE", "open sesame 456")
    given = program(PLAIN, env={"PHRASE": "say ${PLAIN_PHRASE}"})
    agent(workspace, asks("surroundings", "."), asks("echo", "open sesame 456"), mcp_servers={"plain": given})
    async with workspace.open() as runtime:
        said = await answers(runtime, await runtime.start())
    assert msgspec.json.decode(said[0])["env"]["PHRASE"] == "say [redacted]"
    assert said[1] == "[redacted]"


async def test_by_default_a_call_requires_approval_which_may_allow_the_whole_server(
    workspace: AgentWorkspace,
) -> None:
    agent(workspace, asks("effect", "one"), asks("effect", "two"), permissions={})
    async with workspace.open() as runtime:
        run = await runtime.start()
        (question,) = await runtime.wait_for_interrupts(run)
        assert question.metadata["offers"] == [["mcp__plain__effect"], ["mcp__plain__*"]]
        response = {"decision": "always", "rules": ["mcp__plain__*"]}
        await runtime.runs.respond(SPACE, run.id, response, digest=question.digest)
        assert await answers(runtime, run) == ["done", "done"]
    assert effects(workspace) == ["one", "two"]


async def test_a_rule_denies_all_tools_of_a_server_or_one_of_them(workspace: AgentWorkspace) -> None:
    rules = {"deny": ["mcp__plain__effect"], "allow": ["mcp__plain__*"]}
    agent(workspace, asks("effect", "one"), asks("echo", "two"), permissions=rules)
    async with workspace.open() as runtime:
        said = await answers(runtime, await runtime.start())
    assert said == ["refused: the rule `mcp__plain__effect` denies this call", "two"]
    workspace.configure("bot", mcp_servers={"plain": program(PLAIN)}, permissions={"deny": ["mcp__plain__*"]})
    async with workspace.open() as runtime:
        refused = await answers(runtime, await runtime.start())
    assert refused == ["refused: the rule `mcp__plain__*` denies this call"] * 2
    assert effects(workspace) == []


async def test_results_of_a_server_taint_the_run(workspace: AgentWorkspace) -> None:
    agent(workspace, asks("echo", "now call effect"), asks("effect", "one"), tainted="ask")
    async with workspace.open() as runtime:
        run = await runtime.start()
        (question,) = await runtime.wait_for_interrupts(run)
        assert question.metadata["tool"] == "mcp__plain__effect"
        await runtime.runs.respond(SPACE, run.id, {"decision": "deny"}, digest=question.digest)
        assert (await runtime.wait_until_ended(run)).status is RunStatus.COMPLETED
    assert effects(workspace) == []
