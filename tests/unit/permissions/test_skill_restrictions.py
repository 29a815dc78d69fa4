"""`allowed-tools` of active skills narrows what the rules allow, for a run and its sub-agents, and never widens it."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.agent import Agent, Permissions
from holdfast.domain.content import Json
from holdfast.domain.ids import RunId, SkillId
from holdfast.domain.permission import PermissionAction
from holdfast.domain.run_skills import SKILLS_VALUE, ActivationCause, ActiveSkill, RunSkills
from holdfast.domain.skill import SkillSource
from holdfast.skills.catalog import tool_rules
from holdfast.tools.permissions.policy import permission_chain, values_for_child

CALLS: list[tuple[str, dict[str, Json]]] = [
    ("bash", {"command": "git log"}),
    ("bash", {"command": "git log; rm -rf x"}),
    ("bash", {"command": "rm x"}),
    ("read_file", {"path": "a"}),
    ("write_file", {"path": "a", "content": ""}),
    ("mcp__web__open", {}),
]


def agent(**rules: list[str]) -> Agent:
    return Agent(name="bot", description="", models=["a:b"], instructions="x", permissions=Permissions(**rules))


def values(*allowed: list[str] | None) -> dict[str, Json]:
    active = [
        ActiveSkill(
            id=SkillId(f"s{number}"),
            name=f"s{number}",
            source=SkillSource.WORKSPACE,
            version=1,
            digest="",
            cause=ActivationCause.NAMED,
            allowed_tools=rules,
        )
        for number, rules in enumerate(allowed)
    ]
    return {SKILLS_VALUE: msgspec.to_builtins(RunSkills(run_id=RunId("r"), locale="en", active=active))}


def decide(agent: Agent, run_values: dict[str, Json], call: tuple[str, dict[str, Json]]) -> Any:
    return permission_chain(agent, run_values).decide(*call)


_rules = st.lists(st.sampled_from(["bash", "bash(git *)", "read_file", "write_file(a)", "mcp__web__open"]), max_size=3)


@given(own=_rules, skills=st.lists(st.none() | _rules, max_size=3), call=st.sampled_from(CALLS))
def test_a_skill_never_makes_a_decision_milder(
    own: list[str], skills: list[list[str] | None], call: tuple[str, dict[str, Json]]
) -> None:
    bot = agent(allow=own)
    before, after = decide(bot, {}, call), decide(bot, values(*skills), call)
    assert after.action.strictness >= before.action.strictness
    child = values_for_child(bot, values(*skills))
    assert decide(bot, child, call).action.strictness >= after.action.strictness


@pytest.mark.parametrize(
    ("allowed", "call", "action"),
    [
        (["bash(git *)"], CALLS[0], PermissionAction.ALLOW),
        (["bash(git *)"], CALLS[1], PermissionAction.DENY),
        (["Bash(git:*)"], CALLS[0], PermissionAction.ALLOW),
        (["Read"], CALLS[3], PermissionAction.ALLOW),
        (["Read"], CALLS[0], PermissionAction.DENY),
        ([], CALLS[3], PermissionAction.DENY),
        (["not a rule (", "Read"], CALLS[3], PermissionAction.ALLOW),
        (["Read"], ("skill_activate", {"name": "x"}), PermissionAction.ALLOW),
    ],
)
def test_only_what_every_active_skill_allows_may_be_called(
    allowed: list[str], call: tuple[str, dict[str, Json]], action: PermissionAction
) -> None:
    bot = agent(allow=["bash"])
    assert decide(bot, values(tool_rules(allowed), None), call).action is action
    assert decide(bot, values(tool_rules(allowed), []), call).action is (
        action if call[0] == "skill_activate" else PermissionAction.DENY
    )
