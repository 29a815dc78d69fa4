"""Rules that can never match are reported when they are loaded."""

import pytest

from holdfast.domain.agent import Permissions
from holdfast.tools.permissions.rule_checks import rule_problems


def problems(**rules: list[str]) -> list[tuple[str, int, str]]:
    return [(kind, position, reason) for kind, position, reason in rule_problems(Permissions(**rules))]


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("bsh", "there is no tool `bsh`: did you mean `bash`"),
        ("bsh(x)", "there is no tool `bsh`"),
        ("ask_user(x)", "rules of `ask_user` take nothing in brackets: write `ask_user`"),
        ("bash(*)", "a rule names its program: write `bash` alone"),
        ("bash(  )", "there is no command"),
        ("bash('x)", "the command is not closed"),
        ("bash(git log | cat)", "a rule is about one command"),
        ("bash(a && b)", "a rule is about one command"),
        ("bash(echo $X)", "a rule is about one command"),
        ("bash(A=1 git log)", "variables before it are not part of a rule"),
        ("read_file(../x)", "it would never match"),
        ("read_file(./x)", "it would never match"),
        ("read_file(a//b)", "it would never match"),
        ("read_file(/)", "it would never match"),
        ("read_file(~/x)", "`~` is not expanded"),
        ("read_file(x )", "the path begins or ends with a space"),
        ("read_file([z-a])", "the path is not a valid pattern"),
        ("agent_spawn(Boss)", "agent names have lower-case letters"),
        ("agent_spawn(a b)", "agent names have lower-case letters"),
    ],
)
def test_a_rule_that_can_never_match_is_a_problem(rule: str, reason: str) -> None:
    ((kind, position, message),) = problems(ask=["bash(ls *)", rule])
    assert (kind, position) == ("ask", 1)
    assert reason in message


@pytest.mark.parametrize(
    ("rules", "which"),
    [
        ({"deny": ["bash"], "allow": ["bash(git *)"]}, ("allow", 0)),
        ({"ask": ["bash"], "allow": ["bash(git *)"]}, ("allow", 0)),
        ({"deny": ["bash(git *)"], "ask": ["bash(git push *)"]}, ("ask", 0)),
        ({"deny": ["bash(git push)"], "allow": ["bash(git push)"]}, ("allow", 0)),
        ({"allow": ["bash(git *)", "bash(git log)"]}, ("allow", 1)),
        ({"allow": ["read_file", "read_file"]}, ("allow", 1)),
        ({"deny": ["read_file(**)"], "allow": ["read_file(src/**)"]}, ("allow", 0)),
    ],
)
def test_a_rule_covered_by_an_earlier_one_is_a_problem(rules: dict[str, list[str]], which: tuple[str, int]) -> None:
    ((kind, position, message),) = problems(**rules)
    assert (kind, position) == which
    assert "it is never reached" in message


def test_a_transparent_wrapper_cannot_be_allowed() -> None:
    ((_, _, message),) = problems(allow=["bash(env *)"])
    assert message == "`env` only runs another program: allow that one"
    assert problems(deny=["bash(env *)"]) == []


def test_a_remote_method_may_be_named_before_anybody_offers_it() -> None:
    assert problems(allow=["remote__ring"], deny=["remote__open-page"]) == []
    assert [message for _, _, message in problems(allow=["remote__ring(*)"])] == [
        "rules of `remote__ring` take nothing in brackets: write `remote__ring`"
    ]


def test_valid_rules_have_no_problems() -> None:
    assert (
        problems(
            deny=["bash(rm *)", "read_file(*.env)", "write_file(/etc/**)", "agent_spawn(boss)"],
            ask=["bash(git push *)", "bash(sudo *)", "edit_file(src/**)", "task_create(*)", "ask_user"],
            allow=["bash(git *)", "bash(npm run test:*)", "bash(git-lfs)", "bash", "read_file(src/**)", "sleep"],
        )
        == []
    )
