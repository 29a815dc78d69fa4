"""What a server asks is a question that a person can answer, and the answer is one that the server takes."""

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


def fits(asked: Elicitation, response: Json) -> bool:
    """Say whether a response is one that the question takes."""
    schema = elicitation_interrupt("plain", asked).response_schema
    assert schema is not None
    return bool(jsonschema_rs.validator_for(schema).is_valid(response))


def test_a_question_says_who_asks_and_comes_back_as_it_was() -> None:
    question = elicitation_interrupt("plain", TWO)
    assert question.message == "The MCP server `plain` asks: Who?\nSign in (open https://x.y, then accept)"
    assert elicitation_from_interrupt(question) == TWO


@pytest.mark.parametrize(
    ("response", "fitting"),
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
def test_an_answer_says_what_is_to_be_done_and_fits_what_was_asked_for(response: Json, fitting: bool) -> None:
    assert fits(ONE, response) is fitting
    assert fits(TWO, {"a": response, "b": {"action": "accept"}}) is fitting


def test_each_request_gets_its_answer() -> None:
    assert elicitation_responses(ONE, YES) == {UNNAMED_REQUEST: YES}
    assert elicitation_responses(TWO, {"a": YES, "b": {"action": "decline", "content": {"x": 1}}}) == {
        "a": YES,
        "b": {"action": "decline"},
    }


@pytest.mark.parametrize("nothing", [None, "no", {"a": 3}, []])
def test_no_answer_calls_it_off(nothing: Json) -> None:
    assert elicitation_responses(TWO, nothing) == {"a": {"action": "cancel"}, "b": {"action": "cancel"}}


def test_the_same_request_is_known_again_and_another_is_not() -> None:
    same = ElicitationRequest(message="Who?", requested_schema=dict(reversed(NAME.items())))
    assert request_fingerprint(same) == request_fingerprint(ONE.requests[UNNAMED_REQUEST])
    assert request_fingerprint(ElicitationRequest(message="Who else?", requested_schema=NAME)) != request_fingerprint(
        same
    )


def test_more_than_can_be_kept_is_refused() -> None:
    with pytest.raises(McpServerFailed, match="more than can be kept"):
        elicitation_interrupt(
            "plain",
            Elicitation(
                requests={UNNAMED_REQUEST: ElicitationRequest()}, way="call_again", state="x" * MAX_STATE_BYTES
            ),
        )
