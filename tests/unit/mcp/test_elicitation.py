"""Elicitations become interrupts for a person, and responses become valid answers for the server."""

import jsonschema_rs
import pytest

from holdfast.domain.content import Json
from holdfast.domain.errors import McpServerFailed
from holdfast.mcp.replies import (
    MAX_STATE_BYTES,
    UNNAMED_REQUEST,
    Elicitation,
    ElicitationRequest,
    elicitation_from_interrupt,
    elicitation_interrupt,
    elicitation_responses,
    request_fingerprint,
)

NAME: dict[str, Json] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ONE = Elicitation(requests={UNNAMED_REQUEST: ElicitationRequest(message="Who?", requested_schema=NAME)}, way="answer")
TWO = Elicitation(
    requests={
        "a": ElicitationRequest(message="Who?", requested_schema=NAME),
        "b": ElicitationRequest(message="Sign in", url="https://x.y"),
    },
    way="call_again",
    state="opaque",
)
YES: dict[str, Json] = {"action": "accept", "content": {"name": "Ada"}}


def matches(elicitation: Elicitation, response: Json) -> bool:
    """Return whether a response matches the schema of the interrupt."""
    schema = elicitation_interrupt("plain", elicitation).response_schema
    assert schema is not None
    return bool(jsonschema_rs.validator_for(schema).is_valid(response))


def test_an_interrupt_names_the_server_and_keeps_the_elicitation() -> None:
    question = elicitation_interrupt("plain", TWO)
    assert question.message == "The MCP server `plain` asks: Who?\nSign in (open https://x.y, then accept)"
    assert elicitation_from_interrupt(question) == TWO


@pytest.mark.parametrize(
    ("response", "valid"),
    [
        (YES, True),
        ({"action": "decline"}, True),
        ({"action": "cancel"}, True),
        ({"action": "accept"}, False),
        ({"action": "accept", "content": {}}, False),
        ({"action": "maybe"}, False),
        ({}, False),
        ("Ada", False),
    ],
)
def test_a_response_has_an_action_and_matches_the_requested_schema(response: Json, valid: bool) -> None:
    assert matches(ONE, response) is valid
    assert matches(TWO, {"a": response, "b": {"action": "accept"}}) is valid


def test_each_request_gets_its_answer() -> None:
    assert elicitation_responses(ONE, YES) == {UNNAMED_REQUEST: YES}
    assert elicitation_responses(TWO, {"a": YES, "b": {"action": "decline", "content": {"x": 1}}}) == {
        "a": YES,
        "b": {"action": "decline"},
    }


@pytest.mark.parametrize("nothing", [None, "no", {"a": 3}, []])
def test_an_invalid_response_cancels_every_request(nothing: Json) -> None:
    assert elicitation_responses(TWO, nothing) == {"a": {"action": "cancel"}, "b": {"action": "cancel"}}


def test_equal_requests_have_the_same_fingerprint() -> None:
    same = ElicitationRequest(message="Who?", requested_schema=dict(reversed(NAME.items())))
    assert request_fingerprint(same) == request_fingerprint(ONE.requests[UNNAMED_REQUEST])
    assert request_fingerprint(ElicitationRequest(message="Who else?", requested_schema=NAME)) != request_fingerprint(
        same
    )


def test_an_elicitation_that_is_too_large_is_refused() -> None:
    with pytest.raises(McpServerFailed, match="is larger than"):
        elicitation_interrupt(
            "plain",
            Elicitation(
                requests={UNNAMED_REQUEST: ElicitationRequest()}, way="call_again", state="x" * MAX_STATE_BYTES
            ),
        )
