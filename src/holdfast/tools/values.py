"""The values of a run, as tools read and write them."""

from typing import TypeVar

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.tools.tool import Call

_Value = TypeVar("_Value", bound=msgspec.Struct)


def read_value(call: Call, name: str, *, default: _Value) -> _Value:
    """Return the value as it is now, or `default` where the run has none."""
    value = call.values.get(name)
    if value is None:
        return default
    try:
        return msgspec.convert(value, type(default))
    except msgspec.ValidationError as exc:
        raise Invalid(f"the `{name}` of this run cannot be read: {exc}", value=name) from exc


def written(value: msgspec.Struct) -> Json:
    """Return a value as it is kept."""
    return msgspec.json.decode(msgspec.json.encode(value))
