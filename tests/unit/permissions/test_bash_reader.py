"""bash itself is the second reader of a command: a rule allows nothing that it does not confirm."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.domain.agent import Permissions
from holdfast.domain.permission import PermissionAction, PermissionDecision
from holdfast.tools.permissions.policy import permission_policy
from holdfast.tools.permissions.shell import bash_reader


@pytest.fixture(autouse=True)
def _forget_readings() -> Iterator[None]:
    yield
    forget()


def forget() -> None:
    bash_reader._launcher.cache_clear()
    bash_reader._code_problem.cache_clear()


def decide(command: str) -> PermissionDecision:
    return permission_policy(Permissions(allow=["bash(ls *)"])).decide("bash", {"command": command})


@pytest.mark.parametrize("printed", ["ls; rm v", "ls 'x", "", "ls y", "ls | x"])
def test_a_command_that_bash_reads_in_another_way_requires_approval(
    printed: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "bash"
    other.write_text(f'#!/bin/sh\nread line\n[ "$line" = : ] && echo : || cat <<"END"\n{printed}\nEND\n')
    other.chmod(0o755)
    monkeypatch.setattr(bash_reader, "_PARSE", (str(other),))
    monkeypatch.setattr(bash_reader, "_SANDBOX", ("--bind", "/", "/"))
    forget()
    decision = decide("ls x")
    assert decision.action is PermissionAction.ASK
    assert (
        decision.reason == "no rule can allow this command, because it has a construct that bash reads in another way"
    )


def test_without_an_answer_of_bash_a_command_requires_approval_until_there_is_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as without:
        without.setattr(bash_reader, "_SEARCH_PATH", str(tmp_path))
        forget()
        decision = decide("ls x")
        assert decision.action is PermissionAction.ASK
        assert "bash could not be asked" in (decision.reason or "")
    assert decide("ls x").action is PermissionAction.ALLOW


def test_without_bubblewrap_bash_reads_within_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bash_reader, "_SANDBOX", ("--no-such-option",))
    forget()
    assert decide("ls x").action is PermissionAction.ALLOW
    assert bash_reader._launcher()[0].endswith("prlimit")


def test_reading_executes_nothing_and_sees_no_files(tmp_path: Path) -> None:
    run = bash_reader._run(
        [*bash_reader._launcher(), *bash_reader._PARSE], f"touch {tmp_path}/x\n$(touch {tmp_path}/y)"
    )
    assert run.returncode == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("locale", "action"), [("ja_JP.SJIS", "ask"), ("de_DE.UTF-8", "allow"), ("C", "allow")])
def test_other_characters_than_ascii_need_a_locale_in_which_they_are_unambiguous(
    locale: str, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", locale)
    forget()
    assert decide("ls 'é'").action == action
    assert decide("ls x").action is PermissionAction.ALLOW
