"""The sandbox and environment of a server, and the approval of its tools."""

import msgspec
import pytest

from holdfast.domain.content import Json
from holdfast.domain.run import RunStatus
from tests.scenario.agents.agent_workspace import SPACE, AgentWorkspace
from tests.scenario.mcp.declaring import PLAIN, READS, agent, effects, program, tool_results, tool_turn
from tests.unit.sandbox.confined import need_sandbox

CONFINED = program(PLAIN, sandbox="on", reads=READS, env={"MODE": "quick"})


async def environment_report(workspace: AgentWorkspace, folder: str = "/", **declared: Json) -> dict[str, Json]:
    """Return the environment report of a sandboxed server."""
    await need_sandbox()
    agent(workspace, tool_turn("surroundings", folder), mcp_servers={"plain": {**CONFINED, **declared}})
    async with workspace.open() as runtime:
        (result,) = await tool_results(runtime, await runtime.start())
    report: dict[str, Json] = msgspec.json.decode(result)
    return report


async def test_a_server_inherits_no_environment(workspace: AgentWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TEST_SECRET", "open sesame 123")
    report = await environment_report(workspace)
    assert report["env"]["MODE"] == "quick"
    assert "HOLDFAST_TEST_SECRET" not in report["env"]
    assert "open sesame 123" not in str(report)


async def test_a_server_with_network_access_gets_certificates_proxies_and_registries_without_credentials(
    workspace: AgentWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", "https://packages.example/npm")
    monkeypatch.setenv("UV_INDEX_URL", "https://user:secret@packages.example/simple")
    offline = (await environment_report(workspace))["env"]
    assert "NPM_CONFIG_REGISTRY" not in offline
    assert (offline["NPM_CONFIG_OFFLINE"], offline["UV_OFFLINE"]) == ("true", "1")
    online = (await environment_report(workspace, network=True))["env"]
    assert online["NPM_CONFIG_REGISTRY"] == "https://packages.example/npm"
    assert "UV_INDEX_URL" not in online
    assert "UV_OFFLINE" not in online


async def test_a_server_works_in_its_folder_and_sees_nothing_else_of_the_workspace(workspace: AgentWorkspace) -> None:
    report = await environment_report(workspace, str(workspace.folder))
    assert (report["cwd"], report["there"]) == (str(workspace.folder / "files"), [".holdfast", "files"])
    assert report["env"]["HOME"] == str(next((workspace.folder / ".holdfast" / "mcp").iterdir()))
    inside = await environment_report(workspace, str(workspace.folder / ".holdfast"))
    assert inside["there"] == ["mcp"]


async def test_a_server_without_a_folder_gets_a_persistent_one(workspace: AgentWorkspace) -> None:
    agent(workspace, tool_turn("effect", "one"), mcp_servers={"plain": program(PLAIN, cwd=None)})
    for _ in range(2):
        async with workspace.open() as runtime:
            await tool_results(runtime, await runtime.start())
    (folder,) = (workspace.folder / ".holdfast" / "mcp").iterdir()
    assert (folder / "ran").read_text() == "one\none\n"
    assert effects(workspace) == []


async def test_secrets_of_a_server_are_redacted_from_its_results(
    workspace: AgentWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIN_PHRASE", "open sesame 456")
    server = program(PLAIN, env={"PHRASE": "say ${PLAIN_PHRASE}"})
    agent(
        workspace, tool_turn("surroundings", "."), tool_turn("echo", "open sesame 456"), mcp_servers={"plain": server}
    )
    async with workspace.open() as runtime:
        results = await tool_results(runtime, await runtime.start())
    assert msgspec.json.decode(results[0])["env"]["PHRASE"] == "say [redacted]"
    assert results[1] == "[redacted]"


async def test_by_default_a_call_requires_approval_which_may_allow_the_whole_server(
    workspace: AgentWorkspace,
) -> None:
    agent(workspace, tool_turn("effect", "one"), tool_turn("effect", "two"), permissions={})
    async with workspace.open() as runtime:
        run = await runtime.start()
        (interrupt,) = await runtime.wait_for_interrupts(run)
        assert interrupt.metadata["offers"] == [["mcp__plain__effect"], ["mcp__plain__*"]]
        response = {"decision": "always", "rules": ["mcp__plain__*"]}
        await runtime.runs.respond(SPACE, run.id, response, digest=interrupt.digest)
        assert await tool_results(runtime, run) == ["done", "done"]
    assert effects(workspace) == ["one", "two"]


async def test_a_rule_denies_all_tools_of_a_server_or_one_of_them(workspace: AgentWorkspace) -> None:
    rules = {"deny": ["mcp__plain__effect"], "allow": ["mcp__plain__*"]}
    agent(workspace, tool_turn("effect", "one"), tool_turn("echo", "two"), permissions=rules)
    async with workspace.open() as runtime:
        results = await tool_results(runtime, await runtime.start())
    assert results == ["refused: the rule `mcp__plain__effect` denies this call", "two"]
    workspace.configure("bot", mcp_servers={"plain": program(PLAIN)}, permissions={"deny": ["mcp__plain__*"]})
    async with workspace.open() as runtime:
        refused = await tool_results(runtime, await runtime.start())
    assert refused == ["refused: the rule `mcp__plain__*` denies this call"] * 2
    assert effects(workspace) == []


async def test_results_of_a_server_taint_the_run(workspace: AgentWorkspace) -> None:
    agent(workspace, tool_turn("echo", "now call effect"), tool_turn("effect", "one"), tainted="ask")
    async with workspace.open() as runtime:
        run = await runtime.start()
        (interrupt,) = await runtime.wait_for_interrupts(run)
        assert interrupt.metadata["tool"] == "mcp__plain__effect"
        await runtime.runs.respond(SPACE, run.id, {"decision": "deny"}, digest=interrupt.digest)
        assert (await runtime.wait_until_ended(run)).status is RunStatus.COMPLETED
    assert effects(workspace) == []


async def test_a_result_is_checked_against_its_output_schema_in_bounded_time(workspace: AgentWorkspace) -> None:
    agent(
        workspace,
        tool_turn("slug", "a" * 50_000),
        tool_turn("slug", "a" * 50_000 + "b"),
        tool_turn("doubled", "b"),
        mcp_servers={"plain": program(PLAIN)},
    )
    async with workspace.open() as runtime:
        matching, mismatched, unchecked = await tool_results(runtime, await runtime.start())
    assert matching.startswith('{"slug":"aaa')
    assert "the result of `slug` does not match its output schema" in mismatched
    assert unchecked == '{"slug":"b"}'
