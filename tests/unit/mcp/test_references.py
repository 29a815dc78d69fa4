"""Environment references: a server gets the variables of its declaration, and no others."""

import pytest

from holdfast.domain.errors import McpServerFailed
from holdfast.domain.mcp_server import McpServer, env_references
from holdfast.mcp.launcher import resolve_variables

ENVIRONMENT = {"TOKEN": "abc", "OTHER": "${TOKEN}"}


def test_a_reference_is_replaced_once() -> None:
    texts = {"a": "Bearer ${TOKEN}", "b": "${TOKEN}${OTHER}", "c": "$TOKEN ${ TOKEN }"}
    assert resolve_variables(texts, ENVIRONMENT) == {"a": "Bearer abc", "b": "abc${TOKEN}", "c": "$TOKEN ${ TOKEN }"}


def test_a_missing_variable_is_named() -> None:
    with pytest.raises(McpServerFailed, match="there is no environment variable `NONE`") as failed:
        resolve_variables({"a": "${NONE}"}, ENVIRONMENT)
    assert failed.value.details["started"] is False


def test_the_references_of_a_declaration_are_listed() -> None:
    assert env_references(McpServer(command="a", env={"A": "${B} ${C}", "D": "e"})) == ["B", "C"]
    assert env_references(McpServer(url="http://a", headers={"X": "${Y}"})) == ["Y"]
