"""Rules are applied to a command in the current folder of the shell."""

from typing import Any

import pytest

from holdfast.domain.agent import Permissions
from holdfast.domain.permission import PermissionAction
from holdfast.domain.working_path import WORKING_ROOT, WorkingPath
from holdfast.tools.builtin.shell import arguments_for_rules, shell_folder, shell_folder_value
from holdfast.tools.permissions.policy import permission_policy

RULES = Permissions(deny=["bash(rm *)"], ask=["write_file(ci/**)"], allow=["bash"])


def test_the_folder_of_the_shell_is_remembered() -> None:
    assert shell_folder({}) == WORKING_ROOT
    assert shell_folder(shell_folder_value(WorkingPath("a/b"))) == "a/b"


@pytest.mark.parametrize("value", [None, 7, {"folder": 7}, {"folder": "/etc"}, {"folder": "../x"}, {"folder": "a\0"}])
def test_an_unreadable_value_is_the_working_folder(value: Any) -> None:
    assert shell_folder({"shell": value}) == WORKING_ROOT


def test_only_commands_of_a_shell_in_another_folder_are_changed() -> None:
    elsewhere = shell_folder_value(WorkingPath("it's"))
    assert arguments_for_rules("bash", {"command": "ls"}, {}) == {"command": "ls"}
    assert arguments_for_rules("write_file", {"path": "x"}, elsewhere) == {"path": "x"}
    assert arguments_for_rules("bash", {"command": 7}, elsewhere) == {"command": 7}
    assert arguments_for_rules("bash", {"command": "ls", "timeout_seconds": 1}, elsewhere) == {
        "command": "cd 'it'\"'\"'s'\nls",
        "timeout_seconds": 1,
    }


@pytest.mark.parametrize(
    ("command", "here", "there"),
    [
        ("echo x >run", PermissionAction.ALLOW, PermissionAction.ASK),
        ("echo x >ci/run", PermissionAction.ASK, PermissionAction.ASK),
        ("rm x", PermissionAction.DENY, PermissionAction.DENY),
        ("ls", PermissionAction.ALLOW, PermissionAction.ALLOW),
        ("cat <<EOF\nx\nEOF\n", PermissionAction.ASK, PermissionAction.ASK),
    ],
)
def test_a_path_rule_considers_the_folder_of_the_shell(
    command: str, here: PermissionAction, there: PermissionAction
) -> None:
    policy = permission_policy(RULES)
    for values, expected in (({}, here), (shell_folder_value(WorkingPath("ci")), there)):
        assert policy.decide("bash", arguments_for_rules("bash", {"command": command}, values)).action is expected
