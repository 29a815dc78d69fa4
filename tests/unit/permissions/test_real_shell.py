"""A differential fuzzer: a real bash runs no program that the rules do not allow, and reads what the readers read."""

import os
from random import Random
from typing import Final

import pytest

from holdfast.domain.agent import Permissions
from holdfast.domain.permission import PermissionAction
from holdfast.tools.permissions.policy import permission_policy
from holdfast.tools.permissions.shell.bash_reader import reading_problem
from holdfast.tools.permissions.shell.parser import parse_script
from holdfast.tools.permissions.shell.script import ShellWords
from tests.unit.permissions.shell_fuzz import CommandFuzzer
from tests.unit.permissions.stubs import STUBS, Call, Stubs

BATCH: Final = 250
"""Commands that one real shell runs."""
PARTS: Final = 8
"""Parts of the slow run, which several processes share."""
MANY: Final = 14_000
"""Commands of each part: 112,000 in all."""
SEED: Final = int(os.environ.get("SHELL_FUZZ_SEED", "16"))
"""Another seed generates other commands; a failure is repeated with the same one."""


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Stubs:
    return Stubs(tmp_path_factory.mktemp("stubs"))


def some_rules(random: Random) -> Permissions:
    """Return rules that deny one or two stubs, and allow all others or a few."""
    denied = random.sample(STUBS, random.randint(1, 2))
    asked = random.sample(STUBS, random.randint(0, 1))
    some = [*random.sample(STUBS, random.randint(1, 4)), "echo", "find", "sed", "sort", "tar", "git", "split"]
    return Permissions(
        deny=[f"bash({name} *)" for name in denied],
        ask=[f"bash({name} *)" for name in asked if name not in denied],
        allow=["bash"] if random.random() < 0.5 else [f"bash({name} *)" for name in some if name not in denied],
    )


def programs_of(rules: list[str]) -> set[str]:
    return {rule.removeprefix("bash(").removesuffix(" *)") for rule in rules}


def matches(call: Call, words: ShellWords) -> bool:
    """Return whether a call has these words, of which null is any number of words."""
    if not words:
        return not call
    if words[0] is None:
        return any(matches(call[count:], words[1:]) for count in range(len(call) + 1))
    return bool(call) and call[0] == words[0] and matches(call[1:], words[1:])


def check_allowed_commands(stubs: Stubs, *, seed: int, count: int) -> int:
    """Generate commands, run those that the rules allow, and return their number."""
    fuzzer, random = CommandFuzzer(seed), Random(seed)
    generated = [fuzzer.command(wild=(0, 0, 0.02, 0.1)[number % 4], noise=number % 2 == 0) for number in range(count)]
    allowed = []
    for command in generated:
        rules = some_rules(random)
        if permission_policy(rules).decide("bash", {"command": command}).action is PermissionAction.ALLOW:
            allowed.append((command, rules))
    for start in range(0, len(allowed), BATCH):
        batch = allowed[start : start + BATCH]
        for (command, rules), calls in zip(batch, stubs.run([command for command, _ in batch]), strict=True):
            ran, programs = {call[0] for call in calls}, parse_script(command).programs
            assert ran.isdisjoint(programs_of([*rules.deny, *rules.ask])), (seed, command, rules)
            assert rules.allow == ["bash"] or ran <= programs_of(rules.allow), (seed, command, rules)
            for call in calls:
                assert any(matches(call, program.words) for program in programs), (seed, command, call)
    return len(allowed)


def check_denied_programs(stubs: Stubs, *, seed: int, count: int) -> int:
    """Generate commands outside of the grammar, run them, and check that each program they ran would be denied."""
    fuzzer = CommandFuzzer(seed, data=False)
    commands = [fuzzer.command(wild=0.4, noise=False) for _ in range(count)]
    commands = [command for command in commands if not fuzzer.is_endless(command)]
    found = 0
    for start in range(0, len(commands), BATCH):
        batch = commands[start : start + BATCH]
        for command, calls in zip(batch, stubs.run(batch), strict=True):
            for name in {call[0] for call in calls}:
                policy = permission_policy(Permissions(deny=[f"bash({name} *)"], allow=["bash"]))
                assert policy.decide("bash", {"command": command}).action is PermissionAction.DENY, (
                    seed,
                    command,
                    name,
                )
                found += 1
    return found


def test_a_real_shell_runs_only_what_the_rules_allow(stubs: Stubs) -> None:
    assert check_allowed_commands(stubs, seed=SEED, count=3_000) > 150


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_a_real_shell_runs_only_what_the_rules_allow_in_many_commands(stubs: Stubs, part: int) -> None:
    assert check_allowed_commands(stubs, seed=SEED + 1_000 * (part + 1), count=MANY) > 1_000


def test_every_program_that_a_command_spells_out_can_be_denied(stubs: Stubs) -> None:
    assert check_denied_programs(stubs, seed=SEED, count=600) > 150


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_every_program_that_many_commands_spell_out_can_be_denied(stubs: Stubs, part: int) -> None:
    assert check_denied_programs(stubs, seed=SEED + 1_000 * (part + 1), count=6_000) > 2_000


def test_bash_reads_the_grammar_as_the_strict_reader_does() -> None:
    fuzzer = CommandFuzzer(SEED + 1)
    scripts = [parse_script(fuzzer.command(wild=0)) for _ in range(800)]
    clear = [script for script in scripts if not script.unclear]
    assert len(clear) > 100
    assert [(script.code, problem) for script in clear if (problem := reading_problem(script)) is not None] == []


def test_every_text_gets_a_decision() -> None:
    random = Random(SEED)
    policy = permission_policy(Permissions(deny=["bash(rm *)"], allow=["bash(git *)"]))
    for _ in range(3_000):
        text = "".join(
            random.choice("ab $`'\"(){}[]<>|&;\\\n=#!*?~-x1EOFé\x00\u2028") for _ in range(random.randint(0, 40))
        )
        assert policy.decide("bash", {"command": text}).action is not PermissionAction.ALLOW
