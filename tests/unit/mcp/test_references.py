"""A server is given the variables that its declaration names, and no other."""

import pytest

from holdfast.domain.errors import McpServerFailed
from holdfast.domain.mcp_server import McpServer, env_references
from holdfast.mcp.servers import resolve_variables

ENVIRONMENT = {"TOKEN": "abc", "OTHER": "${TOKEN}"}


def test_a_reference_stands_for_the_value_which_is_not_looked_at_again() -> None:
    texts = {"a": "Bearer ${TOKEN}", "b": "${TOKEN}${OTHER}", "c": "$TOKEN ${ TOKEN }"}
    assert resolve_variables(texts, ENVIRONMENT) == {"a": "Bearer abc", "b": "abc${TOKEN}", "c": "$TOKEN ${ TOKEN }"}


def test_a_variable_that_is_not_there_is_named() -> None:
    with pytest.raises(McpServerFailed, match="there is no variable `NONE`") as failed:
        resolve_variables({"a": "${NONE}"}, ENVIRONMENT)
    assert failed.value.details == {"started": False}


def test_what_a_server_is_given_is_known() -> None:
    assert env_references(McpServer(command="a", env={"A": "${B} ${C}", "D": "e"})) == ["B", "C"]
    assert env_references(McpServer(url="http://a", headers={"X": "${Y}"})) == ["Y"]
