"""Rules for one tool of an MCP server, or for all of them."""

import pytest

from holdfast.domain.agent import Permissions
from holdfast.domain.errors import Invalid
from holdfast.domain.permission import PermissionAction
from holdfast.tools.permissions.policy import permission_policy
from holdfast.tools.permissions.rule_checks import check_rule, rule_problems, suggest_grants

TOOL = "mcp__github__get_issue"


@pytest.mark.parametrize(
    ("rules", "action"),
    [
        (Permissions(), PermissionAction.ASK),
        (Permissions(allow=[TOOL]), PermissionAction.ALLOW),
        (Permissions(allow=["mcp__github__*"]), PermissionAction.ALLOW),
        (Permissions(allow=["mcp__github__get_*"]), PermissionAction.ALLOW),
        (Permissions(allow=["mcp__git__*"]), PermissionAction.ASK),
        (Permissions(allow=["mcp__github__*"], ask=[TOOL]), PermissionAction.ASK),
        (Permissions(allow=[TOOL], deny=["mcp__github__*"]), PermissionAction.DENY),
    ],
)
def test_a_rule_matches_one_tool_or_all_of_a_server(rules: Permissions, action: PermissionAction) -> None:
    assert permission_policy(rules).decide(TOOL, {}, default=PermissionAction.ASK).action is action


@pytest.mark.parametrize("rule", [TOOL, "mcp__github__*", "mcp__a-b__c_d*"])
def test_a_rule_may_name_a_server_that_is_not_connected(rule: str) -> None:
    check_rule(rule)


@pytest.mark.parametrize("rule", ["mcp__github", "mcp__github__", "mcp____x", "bash*", "remote__*", f"{TOOL}(x)"])
def test_a_rule_that_can_never_match_is_refused(rule: str) -> None:
    with pytest.raises(Invalid):
        check_rule(rule)


def test_a_rule_covered_by_one_for_the_whole_server_is_never_reached() -> None:
    (problem,) = rule_problems(Permissions(deny=["mcp__github__*"], allow=[TOOL, "mcp__git__*"]))
    assert problem.reason == "it is never reached: `mcp__github__*` in `deny` comes first"


def test_suggested_grants_are_the_tool_or_the_server() -> None:
    assert suggest_grants(permission_policy(Permissions()), TOOL, {}) == [[TOOL], ["mcp__github__*"]]
    assert suggest_grants(permission_policy(Permissions()), "other", {}) == [["other"]]
