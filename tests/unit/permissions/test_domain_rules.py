"""Rules for hosts of the web."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.agent import Permissions
from holdfast.domain.errors import Invalid
from holdfast.domain.permission import PermissionAction, inherited_rights
from holdfast.tools.permissions.patterns import domain_pattern
from holdfast.tools.permissions.policy import PermissionChain, permission_policy, values_for_child
from holdfast.tools.permissions.rule_checks import check_rule, rule_problems, suggest_grants
from tests.support.calls import an_agent


def action_for(url: str, **rules: list[str]) -> str:
    """Return the action for a fetch."""
    return str(
        permission_policy(Permissions(**rules)).decide("web_fetch", {"url": url}, default=PermissionAction.ASK).action
    )


@pytest.mark.parametrize(
    ("rule", "url", "matches"),
    [
        ("domain:example.com", "https://example.com/x", True),
        ("domain:example.com", "https://docs.example.com:8080/", True),
        ("domain:example.com", "http://EXAMPLE.com./", True),
        ("domain:Example.COM", "http://example.com/", True),
        ("domain:example.com", "https://badexample.com/", False),
        ("domain:example.com", "https://example.com.evil.org/", False),
        ("domain:example.com", "https://evil.org/?example.com", False),
        ("domain:example.com", "https://example.com@evil.org/", False),
        ("domain:*.example.com", "https://docs.example.com/", True),
        ("domain:*.example.com", "https://example.com/", False),
        ("domain:例え.jp", "https://xn--r8jz45g.jp/", True),
        ("domain:93.184.216.34", "http://93.184.216.34/", True),
        ("domain:[2606:4700::1]", "http://[2606:4700:0::1]/", True),
        ("domain:example.com", "not an address", False),
    ],
)
def test_a_rule_matches_a_host_and_its_subdomains(rule: str, url: str, matches: bool) -> None:
    assert domain_pattern(rule).matches(url) is matches
    assert action_for(url, allow=[f"web_fetch({rule})"]) == ("allow" if matches else "ask")
    assert action_for(url, deny=[f"web_fetch({rule})"], allow=["web_fetch"]) == ("deny" if matches else "allow")


def test_a_fetch_without_a_matching_rule_requires_approval() -> None:
    assert action_for("https://example.com/") == "ask"
    assert action_for("https://example.com/", allow=["web_fetch"]) == "allow"
    assert action_for("https://example.com/", ask=["web_fetch(domain:example.com)"], allow=["web_fetch"]) == "ask"


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("web_fetch(example.com)", "a rule about the web names a host: write `domain:example.com`"),
        ("web_fetch(domain:)", "is not a valid host name"),
        ("web_fetch(domain:*)", "is not a valid host name"),
        ("web_fetch(domain:a.*.com)", "is not a valid host name"),
        ("web_fetch(domain:https://example.com)", "is not a valid host name"),
        ("web_fetch(domain:127.1)", "is not an IP address"),
        ("web_search(domain:example.com)", "rules of `web_search` take nothing in brackets: write `web_search`"),
    ],
)
def test_a_rule_that_no_url_can_match_is_an_error(rule: str, why: str) -> None:
    with pytest.raises(Invalid, match=why.replace("(", r"\(")):
        check_rule(rule)


def test_a_rule_covered_by_an_earlier_one_is_an_error() -> None:
    rules = Permissions(
        deny=["web_fetch(domain:example.com)"],
        allow=["web_fetch(domain:docs.example.com)", "web_fetch(domain:*.example.com)", "web_fetch(domain:other.org)"],
    )
    assert [(problem.kind, problem.position) for problem in rule_problems(rules)] == [("allow", 0), ("allow", 1)]
    subdomains = Permissions(deny=["web_fetch(domain:*.example.com)"], allow=["web_fetch(domain:example.com)"])
    assert list(rule_problems(subdomains)) == []


def test_the_suggested_grant_is_the_host_and_not_the_page() -> None:
    policy = permission_policy(Permissions())
    assert suggest_grants(policy, "web_fetch", {"url": "https://docs.example.com/a?b"}) == [
        ["web_fetch(domain:docs.example.com)"]
    ]
    assert suggest_grants(policy, "web_fetch", {"url": "nonsense"}) == []


def test_a_child_may_fetch_at_most_what_its_parent_may() -> None:
    parent = an_agent("parent", permissions=Permissions(allow=["web_fetch(domain:example.com)"]))
    child = an_agent("child", permissions=Permissions(allow=["web_fetch"]))
    chain = PermissionChain(child, inherited_rights(values_for_child(parent, {})))
    actions = {
        host: str(chain.decide("web_fetch", {"url": f"https://{host}/"}, default=PermissionAction.ASK).action)
        for host in ("example.com", "other.org")
    }
    assert actions == {"example.com": "allow", "other.org": "ask"}


_LABEL = st.text("abc1", min_size=1, max_size=3).filter(lambda text: not text.isdigit())


@given(st.lists(_LABEL, min_size=1, max_size=4), st.lists(_LABEL, max_size=3), st.booleans())
def test_a_covering_rule_matches_whatever_the_covered_one_matches(
    labels: list[str], subdomains: list[str], itself: bool
) -> None:
    wide = domain_pattern(f"domain:{'.'.join(labels)}")
    narrow = domain_pattern(f"domain:{'' if itself else '*.'}{'.'.join([*subdomains, *labels])}")
    url = f"http://{'.'.join(['x', *subdomains, *labels])}/"
    assert wide.covers(narrow)
    assert narrow.matches(url) <= wide.matches(url)
