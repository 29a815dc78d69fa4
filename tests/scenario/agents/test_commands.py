"""Agents run commands: in their folder, within their permissions, and no process outlives its run."""

import asyncio
from typing import Any

import pytest

from holdfast.domain.content import Json
from holdfast.domain.events import ActivityDelta, ActivitySnapshot
from holdfast.domain.events.custom import ArtifactCreated, PermissionDecided
from holdfast.domain.events.event import PatchAdd
from holdfast.domain.permission import PermissionAction
from holdfast.domain.run import Run, RunStatus
from holdfast.domain.step import StepState
from tests.scenario.agents.agent_workspace import (
    HANG_TIMEOUT_SECONDS,
    SPACE,
    AgentRuntime,
    AgentWorkspace,
    call,
    calling,
    say,
)
from tests.unit.sandbox.commands import (
    asleep,
    died_out,
    eventually,
    ignore_existing_supervisors,
    marked,
    new_mark,
    supervisor,
)
from tests.unit.sandbox.confined import need_sandbox

ALLOW_BASH: dict[str, Json] = {"allow": ["bash"]}


@pytest.fixture(scope="module", autouse=True)
async def sandboxed() -> None:
    await need_sandbox()


def command_agent(workspace: AgentWorkspace, *commands: str, **settings: Any) -> None:
    """Write an agent that runs commands, one after the other."""
    turns = [calling(call("bash", command=command)) for command in commands]
    workspace.agent(*turns, say("done"), **{"tools": ["bash"], "permissions": ALLOW_BASH, **settings})


async def results(runtime: AgentRuntime, run: Run) -> list[str]:
    """Return the tool results of a run."""
    return [str(message.content) for message in await runtime.messages(run) if message.role == "tool"]


async def test_a_command_runs_in_the_folder_of_its_agent(workspace: AgentWorkspace) -> None:
    command_agent(workspace, "echo hello >note; ls; echo oops >&2; exit 3")
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        assert await results(runtime, run) == ["note\noops\n[exit code 3]"]
        assert (await runtime.steps(run))[1].state is StepState.FAILED
    assert (workspace.folder / "files" / "note").read_text() == "hello\n"


async def test_the_next_command_starts_in_the_folder_of_the_last_one(workspace: AgentWorkspace) -> None:
    command_agent(workspace, "mkdir -p a/b; cd a/b", "pwd; cd ../../..; pwd", "pwd; false")
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        first, second, third = await results(runtime, run)
    root = workspace.folder / "files"
    assert first == "[exit code 0; the shell is in `a/b`]"
    assert second == f"{root}/a/b\n{root.parent}\n[exit code 0]"  # the shell does not stay outside its folder
    assert third == f"{root}\n[exit code 1]"


async def test_a_command_for_a_deleted_folder_is_not_run_elsewhere(workspace: AgentWorkspace) -> None:
    command_agent(workspace, "touch kept; mkdir a; cd a; rmdir ../a", "rm -f *", "ln -s /usr out; cd out", "ls", "ls")
    async with workspace.open() as runtime:
        first, second, third, fourth, fifth = await results(runtime, await runtime.run_to_end())
    assert first == "[exit code 0; the shell is in `a`]"
    assert second == "`a` is gone, so nothing was run: the shell is back in the working folder"
    assert third == "[exit code 0; the shell is in `out`]"
    assert fourth.startswith("`out` is gone")  # it leads out of the working folder
    assert fifth == "kept\nout\n[exit code 0]"


async def test_a_long_output_is_cut_for_the_model_and_kept_whole(workspace: AgentWorkspace) -> None:
    command_agent(workspace, "seq 100000")
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        (text,) = await results(runtime, run)
        (created,) = await runtime.custom_events(run, ArtifactCreated)
        artifact = await runtime.store.artifacts.get(SPACE, created.artifact_id)
    assert text.startswith("1\n2\n")
    assert text.endswith("100000\n[exit code 0]")
    assert len(text) <= 32 * 1024
    assert artifact.content == "".join(f"{number}\n" for number in range(1, 100_001)) + "[exit code 0]"


async def test_the_output_of_a_command_is_streamed_while_it_runs(workspace: AgentWorkspace) -> None:
    command_agent(workspace, "echo first; while [ ! -e go ]; do sleep 0.05; done; echo last")
    async with workspace.open() as runtime:
        run = await runtime.start()
        await runtime.wait_for_event(run, lambda event: isinstance(event, ActivityDelta))
        assert (await runtime.get(run)).status is RunStatus.RUNNING
        (workspace.folder / "files" / "go").touch()
        await runtime.wait_until_ended(run)
        events = await runtime.events(run)
        (snapshot,) = [event for event in events if isinstance(event, ActivitySnapshot)]
        pieces = [event.patch for event in events if isinstance(event, ActivityDelta)]
    assert snapshot.activity_type == "holdfast.output"
    assert pieces == [[PatchAdd(path="/output/-", value="first\n")], [PatchAdd(path="/output/-", value="last\n")]]


async def test_a_cancelled_run_leaves_no_process(workspace: AgentWorkspace) -> None:
    mark = new_mark()
    command_agent(workspace, f"(setsid sleep {mark} &); sleep {mark}")
    async with workspace.open() as runtime:
        run = await runtime.start()
        assert await eventually(lambda: len(marked(mark)) >= 2, within=HANG_TIMEOUT_SECONDS)
        await runtime.runs.cancel(SPACE, run.id)
        assert await died_out(mark)
        await runtime.wait_until_ended(run)


async def test_an_interrupted_command_is_not_done(workspace: AgentWorkspace) -> None:
    mark = new_mark()
    command_agent(workspace, f"sleep {mark}")
    ignore_existing_supervisors()
    async with workspace.open() as runtime:
        run = await runtime.start()
        assert await eventually(lambda: asleep(mark), within=HANG_TIMEOUT_SECONDS)
        supervisor().kill()
        await runtime.wait_until_ended(run)
        assert (await runtime.steps(run))[1].state is StepState.UNKNOWN
        (text,) = await results(runtime, run)
    assert "was killed, because its supervisor died" in text
    assert await died_out(mark)


async def test_a_command_that_takes_too_long_is_killed(workspace: AgentWorkspace) -> None:
    mark = new_mark()
    command = call("bash", command=f"echo begun; sleep {mark}", timeout_seconds=4)
    workspace.agent(calling(command), say("done"), tools=["bash"], permissions=ALLOW_BASH)
    async with workspace.open() as runtime:
        (text,) = await results(runtime, await runtime.run_to_end())
    assert text == "begun\n[it was killed after 4 seconds; its effects until then remain]"
    assert await died_out(mark)


async def test_denied_files_are_hidden_from_commands(workspace: AgentWorkspace) -> None:
    command_agent(
        workspace,
        "./look",
        permissions={"deny": ["read_file(conf/.env)", "write_file(ci/**)"], "allow": ["bash(./look)"]},
    )
    files = workspace.folder / "files"
    for name in ("conf", "ci"):
        (files / name).mkdir(parents=True)
    (files / "conf" / ".env").write_text("SECRET")
    (files / "look").write_text("#!/bin/sh\ncat conf/.env\nmv conf moved\necho x >ci/run\necho looked\n")
    (files / "look").chmod(0o755)
    async with workspace.open() as runtime:
        (text,) = await results(runtime, await runtime.run_to_end())
    assert "SECRET" not in text
    assert "looked" in text
    assert sorted(path.name for path in files.iterdir()) == ["ci", "conf", "look"]
    assert list((files / "ci").iterdir()) == []


async def test_a_program_that_a_rule_denies_entirely_cannot_be_run_by_any_other(workspace: AgentWorkspace) -> None:
    ways = (
        *("rm victim", "/bin/rm victim", "env rm victim", "sh -c 'rm victim'", "find . -name victim -exec rm {} +"),
        "cp /usr/bin/rm mine; chmod +x mine; ./mine victim",
        "$(ls /lib64/ld-linux* /lib/ld-linux* 2>/dev/null | head -n 1) /usr/bin/rm victim",
        "perl -e 'exec(q(rm), q(victim))'",
        "x=r; y=m; $x$y victim",
    )
    command_agent(workspace, "./look", permissions={"deny": ["bash(rm *)", "bash(cat x)"], "allow": ["bash(./look)"]})
    files = workspace.folder / "files"
    files.mkdir(parents=True, exist_ok=True)
    (files / "victim").write_text("x")
    (files / "look").write_text(
        "\n".join(["#!/bin/sh", *(f"( {way} )" for way in ways), "cat look | tail -n 1", ": end"])
    )
    (files / "look").chmod(0o755)
    async with workspace.open() as runtime:
        (text,) = await results(runtime, await runtime.run_to_end())
    assert (files / "victim").exists()
    assert ": end" in text  # it ran to its end, and `cat` is denied with one argument only


async def test_a_program_denied_to_bash_can_be_run_by_a_custom_tool(workspace: AgentWorkspace) -> None:
    workspace.write("tools/clean/run.sh", "rm victim && echo 1")
    described = {"name": "clean", "description": "x", "parameters": {"type": "object"}, "command": ["sh", "./run.sh"]}
    workspace.write("tools/clean/tool.json", described)
    workspace.agent(
        calling(call("clean")), say("done"), tools=["clean"], permissions={"deny": ["bash(rm *)"], "allow": ["clean"]}
    )
    (workspace.folder / "files").mkdir(parents=True, exist_ok=True)
    (workspace.folder / "files" / "victim").touch()
    async with workspace.open() as runtime:
        await runtime.run_to_end()
    assert not (workspace.folder / "files" / "victim").exists()


async def test_a_file_denied_by_name_cannot_be_created(workspace: AgentWorkspace) -> None:
    make = "mkdir -p .git/hooks; echo x >.git/hooks/post-commit; mkdir -p a/b; echo x >a/b/c; echo x >a/d; ls -A . a"
    denied = ["write_file(.git/hooks/**)", "write_file(a/b/c)"]
    workspace.write("tools/make/run.sh", f"({make}) >&2; echo 1")
    described = {"name": "make", "description": "make", "parameters": {"type": "object"}, "command": ["sh", "./run.sh"]}
    workspace.write("tools/make/tool.json", described)
    workspace.agent(
        *(calling(call("make")), calling(call("bash", command="sh make"))),
        say("done"),
        tools=["bash", "make"],
        permissions={"deny": denied, "allow": ["bash(sh make)"]},
    )
    workspace.write("files/make", make)
    async with workspace.open() as runtime:
        assert len(await results(runtime, await runtime.run_to_end())) == 2
    files = workspace.folder / "files"
    paths = sorted(str(path.relative_to(files)) for path in files.rglob("*"))
    assert paths == ["a", "a/d", "make"]  # only the placeholders of denied paths are removed


async def test_a_file_created_against_a_denied_pattern_is_reported(workspace: AgentWorkspace) -> None:
    rules = {"deny": ["write_file(*.pem)"], "allow": ["bash(sh make)", "bash(ls)"]}
    command_agent(workspace, "sh make", "ls", permissions=rules)
    workspace.write("files/make", "echo x >key.pem; echo x >note; echo made")
    workspace.write("files/old.pem", "as it was")
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        first, second = await results(runtime, run)
        (event,) = [
            each
            for each in await runtime.custom_events(run, PermissionDecided)
            if each.decision is PermissionAction.DENY
        ]
        assert (await runtime.steps(run))[1].state is StepState.FAILED
    assert first == (
        "made\n[exit code 0]\n[it created `key.pem`, which the rules do not allow to be written: "
        "undo that, and report it to the user]"
    )
    assert event.reason == "it created `key.pem`, which the rules do not allow to be written"
    assert (
        second == "key.pem\nmake\nnote\nold.pem\n[exit code 0]"
    )  # the file is reported once, and no other file is removed


async def test_rules_apply_in_every_shell_folder(workspace: AgentWorkspace) -> None:
    rules = {"ask": ["write_file(ci/**)"], "allow": ["bash"]}
    command_agent(workspace, "mkdir ci; cd ci", "echo x >run", permissions=rules)
    async with workspace.open() as runtime:
        run = await runtime.start()
        (interrupt,) = await runtime.wait_for_interrupts(run)
        assert interrupt.arguments == {"command": "echo x >run"}
        assert (interrupt.metadata["folder"], interrupt.metadata["rule"]) == ("ci", "write_file(ci/**)")
        await runtime.runs.respond(SPACE, run.id, {"decision": "deny"}, digest=interrupt.digest)
        await runtime.wait_until_ended(run)
    assert list((workspace.folder / "files" / "ci").iterdir()) == []


async def test_a_command_approved_for_one_folder_is_not_run_in_another(workspace: AgentWorkspace) -> None:
    """All calls of a message are decided before the first one changes the folder of the shell."""
    commands = ("mkdir ci; touch ci/run; cd ci", "rm -f *")
    workspace.agent(
        calling(*(call("bash", command=command) for command in commands)),
        calling(call("bash", command="ls")),
        say("done"),
        tools=["bash"],
        permissions={"allow": ["bash(mkdir *)", "bash(touch *)", "bash(ls)"]},
    )
    async with workspace.open() as runtime:
        run = await runtime.start()
        (interrupt,) = await runtime.wait_for_interrupts(run)
        assert (interrupt.arguments, interrupt.metadata["folder"]) == ({"command": "rm -f *"}, ".")
        await runtime.runs.respond(SPACE, run.id, {"decision": "approve"}, digest=interrupt.digest)
        await runtime.wait_until_ended(run)
        _, refused, allowed = await results(runtime, run)
        reasons = [
            each.reason
            for each in await runtime.custom_events(run, PermissionDecided)
            if each.decision is PermissionAction.DENY
        ]
    assert reasons == [refused]
    assert refused.startswith("refused: this was decided for a shell in `.`, but an earlier call changed to `ci`")
    assert allowed == "run\n[exit code 0; the shell is in `ci`]"  # the rules allow it in any folder


@pytest.mark.parametrize(("rules", "reached"), [({}, "no"), ({"allow": ["network"]}, "yes")])
async def test_a_command_has_the_network_only_if_a_rule_allows_it(
    workspace: AgentWorkspace, rules: dict[str, list[str]], reached: str
) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        script = f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo yes || echo no"
        command_agent(workspace, script, permissions={"allow": ["bash", *rules.get("allow", [])]})
        async with workspace.open() as runtime:
            assert await results(runtime, await runtime.run_to_end()) == [f"{reached}\n[exit code 0]"]


async def test_secrets_reach_neither_the_model_nor_the_log(
    workspace: AgentWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "very-secret-value")
    command_agent(workspace, "cat notes; sh slowly")
    (workspace.folder / "files").mkdir()
    (workspace.folder / "files" / "notes").write_text("key=very-secret-value token=ghp_" + "a" * 36 + "\n")
    (workspace.folder / "files" / "slowly").write_text("printf 'very-sec'; sleep 0.3; printf 'ret-value\\n'")
    async with workspace.open() as runtime:
        run = await runtime.run_to_end()
        assert await results(runtime, run) == ["key=[redacted] token=[redacted]\n[redacted]\n[exit code 0]"]
        log = repr(await runtime.events(run))
    assert "very-sec" not in log
    assert "ghp_" not in log


async def test_without_a_sandbox_a_command_is_refused_with_the_remedy(
    workspace: AgentWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(workspace.folder))
    command_agent(workspace, "echo ran >note")
    async with workspace.open() as runtime:
        (text,) = await results(runtime, await runtime.run_to_end())
    assert text.startswith("UNAVAILABLE: commands are refused, because bubblewrap is not installed")
    assert '`"sandbox": "off"`' in text
    assert not (workspace.folder / "files" / "note").exists()


async def test_an_operator_can_disable_the_sandbox(workspace: AgentWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "SECRET")
    workspace.write("settings.json", {"sandbox": "off"})
    command_agent(workspace, f"ls {workspace.folder}; env")
    async with workspace.open() as runtime:
        (text,) = await results(runtime, await runtime.run_to_end())
    assert "settings.json" in text
    assert "SECRET" not in text
