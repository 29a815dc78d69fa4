"""Decisions about tool calls, rights of child runs, and suggested grants."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.agent import Agent, Permissions
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.permission import RIGHTS_VALUE, PermissionAction, parse_rule
from holdfast.tools.permissions.policy import (
    denied_paths,
    denied_programs,
    permission_chain,
    permission_policy,
    values_for_child,
)
from holdfast.tools.permissions.rule_checks import suggest_grants

rules = st.lists(
    st.sampled_from(["read_file", "read_file(*.env)", "write_file(src/**)", "grep", "bash(rm *)", "bash", "sleep"]),
    max_size=3,
)
permissions = st.builds(Permissions, deny=rules, ask=rules, allow=rules)
calls = st.sampled_from(
    [
        ("read_file", {"path": "a.env"}),
        ("write_file", {"path": "src/a"}),
        ("edit_file", {"path": "src/a"}),
        ("grep", {"pattern": "x"}),
        ("bash", {"command": "rm x; ls"}),
        ("sleep", {"seconds": 1}),
    ]
)

LS = ["bash(ls)"]


def an_agent(name: str, **given: list[str]) -> Agent:
    return Agent(name=name, description="", models=["a:b"], instructions="Help.", permissions=Permissions(**given))


def action_for(rules: Permissions, tool: str, **arguments: Json) -> str:
    return str(permission_policy(rules).decide(tool, arguments).action)


@given(given=permissions, call=calls)
def test_deny_comes_before_ask_and_ask_before_allow(given: Permissions, call: tuple[str, dict[str, Json]]) -> None:
    tool, arguments = call
    decision = permission_policy(given).decide(tool, arguments)
    bare = {kind: tool in getattr(given, kind) for kind in ("deny", "ask", "allow")}
    if bare["deny"]:
        assert decision.action is PermissionAction.DENY
    elif bare["ask"]:
        assert decision.action is not PermissionAction.ALLOW
    if decision.rule is not None:
        lists = {
            PermissionAction.DENY: given.deny,
            PermissionAction.ASK: given.deny + given.ask,
            PermissionAction.ALLOW: given.allow,
        }
        assert decision.rule in lists[decision.action]


@given(given=st.lists(permissions, min_size=1, max_size=3), call=calls)
def test_a_run_has_at_most_the_rights_of_its_ancestors(
    given: list[Permissions], call: tuple[str, dict[str, Json]]
) -> None:
    tool, arguments = call
    values: dict[str, Json] = {}
    for number, each in enumerate(given):
        agent = Agent(name=f"a{number}", description="", models=["a:b"], instructions="x", permissions=each)
        strictest = max(permission_policy(one).decide(tool, arguments).action.strictness for one in given[: number + 1])
        assert permission_chain(agent, values).decide(tool, arguments).action.strictness == strictest
        values = values_for_child(agent, values)


def test_unreadable_rights_are_an_error() -> None:
    with pytest.raises(Invalid, match="the rights of this run cannot be read"):
        permission_chain(an_agent("bot"), {RIGHTS_VALUE: "all"})


def test_a_path_rule_binds_every_tool_with_the_same_access() -> None:
    rules = Permissions(deny=["read_file(*.env)", "write_file(ci/**)"], ask=["edit_file(*.lock)"])
    assert action_for(rules, "read_file", path="a/x.env") == "deny"
    assert action_for(rules, "grep", pattern="x", path="x.env") == "deny"
    assert action_for(rules, "edit_file", path="x.env") == "deny"
    assert action_for(rules, "edit_file", path="ci/run") == "deny"
    assert action_for(rules, "write_file", path="./a/../ci/run") == "deny"
    assert action_for(rules, "write_file", path="uv.lock") == "ask"
    assert action_for(rules, "read_file", path="ci/run") == "allow"
    assert action_for(rules, "list_dir", path="ci") == "allow"
    assert action_for(rules, "read_file", path=3) == "ask"


def test_a_grant_overrides_an_ask_rule_but_not_a_deny_rule() -> None:
    rules = Permissions(deny=["bash(git push --force)"], ask=["bash(git push *)"])
    granted = permission_policy(rules, ["bash(git push *)"])
    assert granted.decide("bash", {"command": "git push"}).action is PermissionAction.ALLOW
    assert granted.decide("bash", {"command": "git push --force"}).action is PermissionAction.DENY


def test_a_grant_overrides_an_ask_rule_for_every_command() -> None:
    rules = Permissions(ask=["bash"], allow=["bash"])
    assert action_for(rules, "bash", command="ls") == "ask"
    assert permission_policy(rules, ["bash(ls)"]).decide("bash", {"command": "ls"}).action is PermissionAction.ALLOW
    assert permission_policy(rules, ["bash(ls)"]).decide("bash", {"command": "ls; id"}).rule == "bash"
    assert permission_policy(rules, ["bash"]).decide("bash", {"command": "ls; id"}).action is PermissionAction.ALLOW
    assert suggest_grants(permission_policy(rules), "bash", {"command": "echo x"}) == [["bash(echo x)"]]


def test_bash_requires_approval_by_default() -> None:
    assert action_for(Permissions(), "bash", command="ls") == "ask"
    assert action_for(Permissions(), "bash", command="") == "ask"
    assert action_for(Permissions(), "bash") == "ask"
    assert action_for(Permissions(), "bash", command="cd x && echo y") == "ask"
    assert action_for(Permissions(allow=["bash"]), "bash", command="$X | python -c y > /etc/z") == "allow"
    assert action_for(Permissions(), "read_file", path="x") == "allow"


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("bash", {"command": "git push origin"}, [["bash(git push origin)"], ["bash(git push *)"]]),
        ("bash", {"command": "ls"}, [LS]),
        ("bash", {"command": "ls -la x"}, [["bash(ls -la x)"]]),
        ("bash", {"command": "cat 'a b' | wc -l"}, [["bash(cat 'a b')", "bash(wc -l)"]]),
        (
            "bash",
            {"command": "ls > /tmp/a/b"},
            [["bash(ls)", "write_file(/tmp/a/b)"], ["bash(ls)", "write_file(/tmp/a/**)"]],
        ),
        ("bash", {"command": "$X"}, []),
        ("write_file", {"path": "a/b.txt"}, [["write_file(a/b.txt)"], ["write_file(a/**)"]]),
        ("agent_spawn", {"agent": "kid", "input": "x"}, [["agent_spawn(kid)"]]),
        ("remote_thing", {"x": 1}, [["remote_thing"]]),
    ],
)
def test_the_suggested_grants_allow_the_call(tool: str, arguments: dict[str, Json], expected: list[list[str]]) -> None:
    policy = permission_policy(Permissions(ask=["write_file", "agent_spawn"] if tool != "bash" else []))
    assert suggest_grants(policy, tool, arguments) == expected
    for rules in expected:
        assert (
            policy.with_grants(rules).decide(tool, arguments, default=PermissionAction.ASK).action
            is PermissionAction.ALLOW
        )


def test_nothing_is_suggested_against_a_deny_rule() -> None:
    policy = permission_policy(Permissions(deny=["bash(rm *)"]))
    assert suggest_grants(policy, "bash", {"command": "ls; rm x"}) == []


def test_denied_paths_include_those_of_ancestors() -> None:
    boss = an_agent("boss", deny=["read_file(*.env)", "write_file(ci/**)"])
    denied = denied_paths(an_agent("kid", deny=["edit_file(docs)", "bash(rm *)"]), values_for_child(boss, {}))
    assert (denied.hidden, denied.read_only) == (("*.env",), ("docs", "ci/**"))
    assert denied.is_hidden("a/x.env") and not denied.is_hidden("a/x")
    assert denied.is_read_only("./ci/run") and denied.is_read_only("docs/a") and not denied.is_read_only("src")
    assert denied_paths(an_agent("bot", deny=["read_file"]), {}).is_hidden("anything")


def test_programs_denied_with_any_arguments_include_those_of_ancestors() -> None:
    boss = an_agent("boss", deny=["bash(rm *)", "bash(git push *)"])
    kid = an_agent("kid", deny=["bash(/usr/bin/curl *)", "bash(ls)", "bash(cat x)", "read_file(*.env)"])
    assert denied_programs(kid, values_for_child(boss, {})) == {"rm", "curl"}


@pytest.mark.parametrize("text", ["", "(x)", "a b", "bash()", "1x"])
def test_an_invalid_rule_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="is not a rule"):
        parse_rule(text)


@pytest.mark.parametrize(
    ("rule", "origin", "to", "denied", "permitted"),
    [
        # The folder of the child is in that of the parent.
        ("private/**", "work", "work/private", [".", "a", "a/b"], []),
        ("private", "work", "work/private/deep", [".", "a"], []),
        ("site/secret/*.txt", "work", "work/site", ["secret/a.txt"], ["secret/a.md", "b/secret/a.txt", "site"]),
        ("**/secret/x", "work", "work/site", ["secret/x", "a/secret/x"], ["secret/y"]),
        ("*/secret", "work", "work/site", ["secret", "secret/a"], ["a/b/secret/c"]),
        ("a**z/secret", "work", "work/a/b", ["z/secret"], []),
        ("other/secret", "work", "work/site", [], ["secret"]),
        # It contains that of the parent.
        ("secret/**", "work/site", "work", ["site/secret/a"], ["site/a"]),
        ("*.env", "work/site", "work", ["a.env", "site/x/a.env"], ["site"]),
        # They do not overlap.
        ("secret/key", "work", "workshop", [], ["key"]),
        ("secret/key", "/srv/site", "srv/site", [], ["key"]),
        ("site/key", "/srv", "/srv/site", ["key"], ["a/key"]),
        # In a folder outside the workspace, an absolute path means the same file.
        ("/srv/site/keys/**", "files", "/srv/site", ["keys", "keys/a"], ["a/keys"]),
        ("/srv/*/k", "/srv/site", "/srv/site", ["k"], ["a/k"]),
        ("/srv/site/keys/**", "files", "files", [], ["keys/a"]),
    ],
)
def test_denied_paths_of_an_ancestor_are_read_against_its_folder(
    rule: str, origin: str, to: str, denied: list[str], permitted: list[str]
) -> None:
    boss = an_agent("boss", deny=[f"read_file({rule})", f"write_file({rule})"])
    values = values_for_child(boss, values_for_child(an_agent("grand"), {}, folder="elsewhere"), folder=origin)
    paths, chain = (
        denied_paths(an_agent("kid"), values, folder=to),
        permission_chain(an_agent("kid"), values, folder=to),
    )
    for path in denied:
        assert paths.is_hidden(path) and paths.is_read_only(path), path
        assert chain.decide("read_file", {"path": path}).action is PermissionAction.DENY
    for path in permitted:
        assert not paths.is_hidden(path) and not paths.is_read_only(path), path
        assert chain.decide("write_file", {"path": path}).action is PermissionAction.ALLOW


def test_denied_paths_of_an_ancestor_also_apply_in_another_folder() -> None:
    values = values_for_child(an_agent("boss", deny=["read_file(secret/**)", "read_file(*.env)"]), {}, folder="work")
    paths = denied_paths(an_agent("kid"), values, folder="elsewhere")
    assert paths.is_hidden("secret/a") and paths.is_hidden("a/b.env")
    assert not paths.is_hidden("a/secret/b")


def test_a_grant_applies_to_every_link_of_its_agent() -> None:
    values = values_for_child(an_agent("boss", ask=["log_write"]), {})
    chain = permission_chain(an_agent("kid", ask=["log_write"]), values)
    assert chain.decide("log_write", {}).action is PermissionAction.ASK
    assert chain.with_grants({"kid": ["log_write"]}).decide("log_write", {}).agent == "boss"
    both = chain.with_grants({"kid": ["log_write"], "boss": ["log_write"], "other": ["bash"]})
    assert both.decide("log_write", {}).action is PermissionAction.ALLOW
    assert chain.decide("log_write", {}).action is PermissionAction.ASK


def test_an_absolute_path_in_a_rule_is_denied_to_an_agent_that_works_there() -> None:
    agent = an_agent("bot", deny=["read_file(/srv/site/.env)"], ask=["write_file(/srv/site/ci/**)"])
    chain = permission_chain(agent, {}, folder="/srv/site")
    assert chain.decide("read_file", {"path": ".env"}).action is PermissionAction.DENY
    assert chain.decide("write_file", {"path": "ci/run"}).action is PermissionAction.ASK
    assert denied_paths(agent, {}, folder="/srv/site").is_hidden(".env")
    assert not denied_paths(agent, {}, folder="/srv/other").is_hidden(".env")
