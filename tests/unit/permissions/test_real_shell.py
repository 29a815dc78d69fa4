"""The parser finds every program that a real shell runs, so that no denied program ever runs."""

from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.domain.agent import Permissions
from holdfast.domain.permission import PermissionAction
from holdfast.tools.permissions.policy import permission_policy
from holdfast.tools.permissions.shell.parser import parse_script
from tests.unit.permissions.shell_commands import commands
from tests.unit.permissions.stubs import STUBS, Stubs

EXAMPLES: Final = 60
MANY: Final = 5_000

rules: Final = st.builds(
    lambda denied, asked, allowed: Permissions(
        deny=[f"bash({name} *)" for name in denied],
        ask=[f"bash({name} *)" for name in asked],
        allow=["bash"] if allowed is None else [f"bash({name} *)" for name in allowed],
    ),
    st.sets(st.sampled_from(STUBS), min_size=1, max_size=2),
    st.sets(st.sampled_from(STUBS), max_size=1),
    st.none() | st.sets(st.sampled_from((*STUBS, "echo", "find")), min_size=1),
)


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Stubs:
    return Stubs(tmp_path_factory.mktemp("stubs"))


def check(stubs: Stubs, command: str, permissions: Permissions) -> None:
    """Run a command if it is allowed, and check that only allowed programs ran."""
    if permission_policy(permissions).decide("bash", {"command": command}).action is not PermissionAction.ALLOW:
        return
    stopped = {rule.removeprefix("bash(").removesuffix(" *)") for rule in (*permissions.deny, *permissions.ask)}
    allowed = {rule.removeprefix("bash(").removesuffix(" *)") for rule in permissions.allow}
    ran = stubs.run(command)
    assert ran.isdisjoint(stopped)
    assert allowed == {"bash"} or ran <= allowed


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(command=commands, permissions=rules)
def test_no_denied_program_ever_runs(stubs: Stubs, command: str, permissions: Permissions) -> None:
    check(stubs, command, permissions)


@pytest.mark.slow
@settings(max_examples=MANY, deadline=None, suppress_health_check=list(HealthCheck))
@given(command=commands, permissions=rules)
def test_no_denied_program_runs_in_many_commands(stubs: Stubs, command: str, permissions: Permissions) -> None:
    check(stubs, command, permissions)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(command=commands)
def test_every_program_that_runs_was_found(stubs: Stubs, command: str) -> None:
    script = parse_script(command)
    if not script.unclear:
        assert stubs.run(command) <= {(one.words[0] or "").rpartition("/")[2] for one in script.programs}


@given(command=st.text(max_size=40) | st.text(st.sampled_from("ab $`'\"(){}[]<>|&;\\\n=#!*?~-x1EOF"), max_size=40))
def test_every_command_gets_a_decision(command: str) -> None:
    decision = permission_policy(Permissions(deny=["bash(rm *)"], allow=["bash(git *)"])).decide(
        "bash", {"command": command}
    )
    assert decision.action is not PermissionAction.ALLOW or "git" in command


@pytest.mark.parametrize(
    "command", ["(" * 9_000 + ")" * 9_000, "$(" * 5_000 + ")" * 5_000, "{ " * 3_000 + "; }" * 3_000]
)
def test_code_nested_too_deeply_requires_approval(command: str) -> None:
    assert (
        permission_policy(Permissions(allow=["bash(git *)"])).decide("bash", {"command": command}).action
        is PermissionAction.ASK
    )
