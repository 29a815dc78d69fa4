"""Bodies of the protocol: unknown fields are passed over, and null means the same as nothing."""

from typing import Any, Final

import msgspec
from litestar.typing import FieldDefinition

from holdfast.api.bodies import RunBody
from holdfast.api.json_body import JsonBody, check_json_type, decode, mismatch
from holdfast.domain.events.messages import RunAgentInput

_MARKS: Final = (b'"threadId"', b'"runId"')
"""What a request of the protocol has, and none of ours."""
_ANYTHING: Final = frozenset({"state", "forwardedProps", "parameters", "metadata", "payload"})
_NATIVE: Final = msgspec.json.Decoder(RunBody)
_ANY: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder()


class AgUiBody(JsonBody):
    """Reads a request of the protocol."""

    @classmethod
    def create_for_field_definition(
        cls, field_definition: FieldDefinition, handler_id: str, backend_cls: Any = None
    ) -> None:
        """Need no decoder of the route's own."""

    def decode_bytes(self, value: bytes) -> Any:
        """Return the request."""
        check_json_type(self.asgi_connection.headers.get("content-type"))
        return read_input(decode(_ANY, value))


class RunOrAgUiBody(AgUiBody):
    """Reads a run to be made, in our own words or in those of the protocol."""

    def decode_bytes(self, value: bytes) -> Any:
        """Return the body of a run, or the request."""
        check_json_type(self.asgi_connection.headers.get("content-type"))
        if any(mark in value for mark in _MARKS):
            found = decode(_ANY, value)
            if isinstance(found, dict) and ("threadId" in found or "runId" in found):
                return read_input(found)
        return decode(_NATIVE, value)


def read_input(found: Any) -> RunAgentInput:
    """Return a request of the protocol, or raise what is wrong with it."""
    given = _without_nulls(found)
    try:
        return msgspec.convert(given, RunAgentInput)
    except msgspec.ValidationError as exc:
        raise mismatch(exc, given, RunAgentInput) from exc


def _without_nulls(found: Any) -> Any:
    """Return a request without the null fields that some clients write; what may be any JSON is left as it is."""
    if isinstance(found, list):
        return [_without_nulls(each) for each in found]
    if not isinstance(found, dict):
        return found
    given = {name: value for name, value in found.items() if value is not None}
    return {name: value if name in _ANYTHING else _without_nulls(value) for name, value in given.items()}
