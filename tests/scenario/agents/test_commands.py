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
from tests.scenario.agents.workshop import LIMIT, SPACE, Floor, Workshop, call, calling, say
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

FREE: dict[str, Json] = {"allow": ["bash"]}


@pytest.fixture(scope="module", autouse=True)
async def sandboxed() -> None:
    await need_sandbox()


def hand(workshop: Workshop, *commands: str, **settings: Any) -> None:
    """Write an agent that runs commands, one after the other."""
    turns = [calling(call("bash", command=command)) for command in commands]
    workshop.agent(*turns, say("done"), **{"tools": ["bash"], "permissions": FREE, **settings})


async def results(floor: Floor, run: Run) -> list[str]:
    """Return what the calls of a run answered."""
    return [str(message.content) for message in await floor.messages(run) if message.role == "tool"]


async def test_a_command_runs_in_the_folder_of_its_agent(workshop: Workshop) -> None:
    hand(workshop, "echo hello >note; ls; echo oops >&2; exit 3")
    async with workshop.open() as floor:
        run = await floor.play()
        assert await results(floor, run) == ["note\noops\n[exit code 3]"]
        assert (await floor.steps(run))[1].state is StepState.FAILED
    assert (workshop.folder / "files" / "note").read_text() == "hello\n"


async def test_the_next_command_starts_in_the_folder_of_the_last_one(workshop: Workshop) -> None:
    hand(workshop, "mkdir -p a/b; cd a/b", "pwd; cd ../../..; pwd", "pwd; false")
    async with workshop.open() as floor:
        run = await floor.play()
        first, second, third = await results(floor, run)
    root = workshop.folder / "files"
    assert first == "[exit code 0; the shell is in `a/b`]"
    assert second == f"{root}/a/b\n{root.parent}\n[exit code 0]"  # out of its folder it does not stay
    assert third == f"{root}\n[exit code 1]"


async def test_a_command_for_a_deleted_folder_is_not_run_elsewhere(workshop: Workshop) -> None:
    hand(workshop, "touch kept; mkdir a; cd a; rmdir ../a", "rm -f *", "ln -s /usr out; cd out", "ls", "ls")
    async with workshop.open() as floor:
        first, second, third, fourth, fifth = await results(floor, await floor.play())
    assert first == "[exit code 0; the shell is in `a`]"
    assert second == "`a` is gone, so nothing was run: the shell is back in the working folder"
    assert third == "[exit code 0; the shell is in `out`]"
    assert fourth.startswith("`out` is gone")  # it leads out of the working folder
    assert fifth == "kept\nout\n[exit code 0]"


async def test_a_long_output_is_cut_for_the_model_and_kept_whole(workshop: Workshop) -> None:
    hand(workshop, "seq 100000")
    async with workshop.open() as floor:
        run = await floor.play()
        (text,) = await results(floor, run)
        (made,) = await floor.told(run, ArtifactCreated)
        kept = await floor.store.artifacts.get(SPACE, made.artifact_id)
    assert text.startswith("1\n2\n")
    assert text.endswith("100000\n[exit code 0]")
    assert len(text) <= 32 * 1024
    assert kept.content == "".join(f"{number}\n" for number in range(1, 100_001)) + "[exit code 0]"


async def test_the_output_of_a_command_is_streamed_while_it_runs(workshop: Workshop) -> None:
    hand(workshop, "echo first; while [ ! -e go ]; do sleep 0.05; done; echo last")
    async with workshop.open() as floor:
        run = await floor.start()
        await floor.until(run, lambda event: isinstance(event, ActivityDelta))
        assert (await floor.get(run)).status is RunStatus.RUNNING
        (workshop.folder / "files" / "go").touch()
        await floor.ended(run)
        events = await floor.events(run)
        (begun,) = [event for event in events if isinstance(event, ActivitySnapshot)]
        pieces = [event.patch for event in events if isinstance(event, ActivityDelta)]
    assert begun.activity_type == "holdfast.output"
    assert pieces == [[PatchAdd(path="/output/-", value="first\n")], [PatchAdd(path="/output/-", value="last\n")]]


async def test_a_cancelled_run_leaves_no_process(workshop: Workshop) -> None:
    mark = new_mark()
    hand(workshop, f"(setsid sleep {mark} &); sleep {mark}")
    async with workshop.open() as floor:
        run = await floor.start()
        assert await eventually(lambda: len(marked(mark)) >= 2, within=LIMIT)
        await floor.runs.cancel(SPACE, run.id)
        assert await died_out(mark)
        await floor.ended(run)


async def test_an_interrupted_command_is_not_done(workshop: Workshop) -> None:
    mark = new_mark()
    hand(workshop, f"sleep {mark}")
    ignore_existing_supervisors()
    async with workshop.open() as floor:
        run = await floor.start()
        assert await eventually(lambda: asleep(mark), within=LIMIT)
        supervisor().kill()
        await floor.ended(run)
        assert (await floor.steps(run))[1].state is StepState.UNKNOWN
        (text,) = await results(floor, run)
    assert "was killed, because its supervisor died" in text
    assert await died_out(mark)


async def test_a_command_that_takes_too_long_is_killed(workshop: Workshop) -> None:
    mark = new_mark()
    asked = call("bash", command=f"echo begun; sleep {mark}", timeout_seconds=1)
    workshop.agent(calling(asked), say("done"), tools=["bash"], permissions=FREE)
    async with workshop.open() as floor:
        (text,) = await results(floor, await floor.play())
    assert text == "begun\n[it was killed after 1 seconds; its effects until then remain]"
    assert await died_out(mark)


async def test_denied_files_are_hidden_from_commands(workshop: Workshop) -> None:
    hand(
        workshop,
        "./look",
        permissions={"deny": ["read_file(conf/.env)", "write_file(ci/**)"], "allow": ["bash(./look)"]},
    )
    files = workshop.folder / "files"
    for name in ("conf", "ci"):
        (files / name).mkdir(parents=True)
    (files / "conf" / ".env").write_text("SECRET")
    (files / "look").write_text("#!/bin/sh\ncat conf/.env\nmv conf moved\necho x >ci/run\necho looked\n")
    (files / "look").chmod(0o755)
    async with workshop.open() as floor:
        (text,) = await results(floor, await floor.play())
    assert "SECRET" not in text
    assert "looked" in text
    assert sorted(path.name for path in files.iterdir()) == ["ci", "conf", "look"]
    assert list((files / "ci").iterdir()) == []


async def test_a_file_denied_by_name_cannot_be_created(workshop: Workshop) -> None:
    make = "mkdir -p .git/hooks; echo x >.git/hooks/post-commit; mkdir -p a/b; echo x >a/b/c; echo x >a/d; ls -A . a"
    denied = ["write_file(.git/hooks/**)", "write_file(a/b/c)"]
    workshop.write("tools/make/run.sh", f"({make}) >&2; echo 1")
    described = {"name": "make", "description": "make", "parameters": {"type": "object"}, "command": ["sh", "./run.sh"]}
    workshop.write("tools/make/tool.json", described)
    workshop.agent(
        *(calling(call("make")), calling(call("bash", command="sh make"))),
        say("done"),
        tools=["bash", "make"],
        permissions={"deny": denied, "allow": ["bash(sh make)"]},
    )
    workshop.write("files/make", make)
    async with workshop.open() as floor:
        assert len(await results(floor, await floor.play())) == 2
    files = workshop.folder / "files"
    found = sorted(str(path.relative_to(files)) for path in files.rglob("*"))
    assert found == ["a", "a/d", "make"]  # what stood for what is denied is gone again, and no more than that


async def test_a_file_created_against_a_denied_pattern_is_reported(workshop: Workshop) -> None:
    rules = {"deny": ["write_file(*.pem)"], "allow": ["bash(sh make)", "bash(ls)"]}
    hand(workshop, "sh make", "ls", permissions=rules)
    workshop.write("files/make", "echo x >key.pem; echo x >note; echo made")
    workshop.write("files/old.pem", "as it was")
    async with workshop.open() as floor:
        run = await floor.play()
        first, second = await results(floor, run)
        (told,) = [each for each in await floor.told(run, PermissionDecided) if each.decision is PermissionAction.DENY]
        assert (await floor.steps(run))[1].state is StepState.FAILED
    assert first == (
        "made\n[exit code 0]\n[it created `key.pem`, which the rules do not allow to be written: "
        "undo that, and report it to the user]"
    )
    assert told.reason == "it created `key.pem`, which the rules do not allow to be written"
    assert second == "key.pem\nmake\nnote\nold.pem\n[exit code 0]"  # it is told once, and nobody else's file is taken


async def test_rules_apply_in_every_shell_folder(workshop: Workshop) -> None:
    rules = {"ask": ["write_file(ci/**)"], "allow": ["bash"]}
    hand(workshop, "mkdir ci; cd ci", "echo x >run", permissions=rules)
    async with workshop.open() as floor:
        run = await floor.start()
        (asked,) = await floor.asks(run)
        assert asked.arguments == {"command": "echo x >run"}
        assert (asked.metadata["folder"], asked.metadata["rule"]) == ("ci", "write_file(ci/**)")
        await floor.runs.respond(SPACE, run.id, {"decision": "deny"}, digest=asked.digest)
        await floor.ended(run)
    assert list((workshop.folder / "files" / "ci").iterdir()) == []


async def test_a_command_approved_for_one_folder_is_not_run_in_another(workshop: Workshop) -> None:
    """All calls of a message are decided before the first of them moves the shell."""
    commands = ("mkdir ci; touch ci/run; cd ci", "rm -f *")
    workshop.agent(
        calling(*(call("bash", command=command) for command in commands)),
        calling(call("bash", command="ls")),
        say("done"),
        tools=["bash"],
        permissions={"allow": ["bash(mkdir *)", "bash(touch *)", "bash(ls)"]},
    )
    async with workshop.open() as floor:
        run = await floor.start()
        (asked,) = await floor.asks(run)
        assert (asked.arguments, asked.metadata["folder"]) == ({"command": "rm -f *"}, ".")
        await floor.runs.respond(SPACE, run.id, {"decision": "approve"}, digest=asked.digest)
        await floor.ended(run)
        _, refused, allowed = await results(floor, run)
        reasons = [
            each.reason for each in await floor.told(run, PermissionDecided) if each.decision is PermissionAction.DENY
        ]
    assert reasons == [refused]
    assert refused.startswith("refused: this was decided for a shell in `.`, but an earlier call changed to `ci`")
    assert allowed == "run\n[exit code 0; the shell is in `ci`]"  # whatever the folder, the rules allow it


@pytest.mark.parametrize(("rules", "reached"), [({}, "no"), ({"allow": ["network"]}, "yes")])
async def test_a_command_has_the_network_only_if_a_rule_allows_it(
    workshop: Workshop, rules: dict[str, list[str]], reached: str
) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        script = f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo yes || echo no"
        hand(workshop, script, permissions={"allow": ["bash", *rules.get("allow", [])]})
        async with workshop.open() as floor:
            assert await results(floor, await floor.play()) == [f"{reached}\n[exit code 0]"]


async def test_secrets_reach_neither_the_model_nor_the_log(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "very-secret-value")
    hand(workshop, "cat notes; sh slowly")
    (workshop.folder / "files").mkdir()
    (workshop.folder / "files" / "notes").write_text("key=very-secret-value token=ghp_" + "a" * 36 + "\n")
    (workshop.folder / "files" / "slowly").write_text("printf 'very-sec'; sleep 0.3; printf 'ret-value\\n'")
    async with workshop.open() as floor:
        run = await floor.play()
        assert await results(floor, run) == ["key=[redacted] token=[redacted]\n[redacted]\n[exit code 0]"]
        said = repr(await floor.events(run))
    assert "very-sec" not in said
    assert "ghp_" not in said


async def test_without_a_sandbox_a_command_is_refused_with_the_remedy(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(workshop.folder))
    hand(workshop, "echo ran >note")
    async with workshop.open() as floor:
        (text,) = await results(floor, await floor.play())
    assert text.startswith("UNAVAILABLE: commands are refused, because bubblewrap is not installed")
    assert '`"sandbox": "off"`' in text
    assert not (workshop.folder / "files" / "note").exists()


async def test_an_operator_can_disable_the_sandbox(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "SECRET")
    workshop.write("settings.json", {"sandbox": "off"})
    hand(workshop, f"ls {workshop.folder}; env")
    async with workshop.open() as floor:
        (text,) = await results(floor, await floor.play())
    assert "settings.json" in text
    assert "SECRET" not in text
