"""Whether an answer is one that its question takes."""

from functools import lru_cache
from typing import Final

import jsonschema_rs
import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.interrupt import Interrupt

LONGEST_PROBLEM: Final = 500


def check_response(asked: Interrupt, response: Json) -> None:
    """Raise `Invalid` unless `response` fits the schema that the question came with, if it came with one."""
    validator = None if asked.response_schema is None else _validator(msgspec.json.encode(asked.response_schema))
    if validator is None:
        return
    try:
        problem = next(validator.iter_errors(response), None)
    except (ValueError, TypeError, RecursionError) as exc:
        raise Invalid(f"the answer is no JSON: {exc}", field="response") from exc
    if problem is not None:
        why = problem.message[:LONGEST_PROBLEM]
        raise Invalid(f"the answer to `{asked.id}` does not fit: {why}", field="response", schema=asked.response_schema)


@lru_cache(maxsize=256)
def _validator(schema: bytes) -> jsonschema_rs.Validator | None:
    """Return what checks answers; a schema that is none is no reason to leave a question without an answer."""
    try:
        return jsonschema_rs.validator_for(schema.decode(), offline=True)
    except ValueError:
        return None
