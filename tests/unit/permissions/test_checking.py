"""Rules that can never match are refused when they are loaded."""

import pytest

from holdfast.domain.agent import Permissions
from holdfast.tools.permissions.rule_checks import rule_problems


def said(**rules: list[str]) -> list[tuple[str, int, str]]:
    return [(kind, place, reason) for kind, place, reason in rule_problems(Permissions(**rules))]


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
    ((kind, place, why),) = said(ask=["bash(ls *)", rule])
    assert (kind, place) == ("ask", 1)
    assert reason in why


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
def test_a_rule_behind_one_that_covers_it_is_a_problem(rules: dict[str, list[str]], which: tuple[str, int]) -> None:
    ((kind, place, why),) = said(**rules)
    assert (kind, place) == which
    assert "it is never reached" in why


def test_a_program_that_only_runs_others_cannot_be_allowed() -> None:
    ((_, _, why),) = said(allow=["bash(env *)"])
    assert why == "`env` only runs another program: allow that one"
    assert said(deny=["bash(env *)"]) == []


def test_a_remote_method_may_be_named_before_anybody_offers_it() -> None:
    assert said(allow=["remote__ring"], deny=["remote__open-page"]) == []
    assert [why for _, _, why in said(allow=["remote__ring(*)"])] == [
        "rules of `remote__ring` take nothing in brackets: write `remote__ring`"
    ]


def test_rules_that_matter_are_no_problem() -> None:
    assert (
        said(
            deny=["bash(rm *)", "read_file(*.env)", "write_file(/etc/**)", "agent_spawn(boss)"],
            ask=["bash(git push *)", "bash(sudo *)", "edit_file(src/**)", "task_create(*)", "ask_user"],
            allow=["bash(git *)", "bash(npm run test:*)", "bash(git-lfs)", "bash", "read_file(src/**)", "sleep"],
        )
        == []
    )
