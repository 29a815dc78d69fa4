"""A method: what a client offers, in the words of a custom tool."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid, TooLarge
from holdfast.domain.tool import REMOTE_METHOD_PREFIX, ToolClass, ToolSpec, check_tool_spec
from holdfast.tools.arguments import check_parameters

DEFAULT_SECONDS: Final = 60.0
MOST_SECONDS: Final = 3_600
MOST_METHODS: Final = 128
MOST_PARAMETERS: Final = 64 * 1024
"""Bytes of a JSON Schema."""
BACKSTOP: Final = 60.0
"""Seconds by which a worker waits longer than the control plane, which knows better what a late answer means."""


class Method(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client offers."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,56}\Z")]
    description: Annotated[str, Meta(min_length=1, max_length=2_000)]
    """What the model is told that it does, and when to use it."""
    parameters: dict[str, Json] = msgspec.field(default_factory=lambda: {"type": "object"})
    """A JSON Schema of an object: what it takes."""
    class_: Literal["idempotent", "effectful"] = msgspec.field(name="class", default="effectful")
    """What it means that a call was cut off: it may be made again under the same key, or nobody knows what it did."""
    read_only: bool = False
    """It changes nothing anywhere: calls run side by side, and again after a crash."""
    timeout_seconds: Annotated[float, Meta(gt=0, le=MOST_SECONDS)] = DEFAULT_SECONDS
    """How long a call may take."""

    @property
    def tool(self) -> str:
        """The name that agents and rules know it by."""
        return REMOTE_METHOD_PREFIX + self.name


def spec_of(method: Method) -> ToolSpec:
    """Return the tool that a method is."""
    return ToolSpec(
        name=method.tool,
        description=method.description,
        parameters=method.parameters,
        kind=ToolClass.IDEMPOTENT if method.read_only else ToolClass(method.class_),
        read_only=method.read_only,
        timeout=method.timeout_seconds + BACKSTOP,
    )


def check_methods(methods: Sequence[Method]) -> None:
    """Raise `Invalid` unless a client may offer these together."""
    if len(methods) > MOST_METHODS:
        raise TooLarge(f"a client may offer at most {MOST_METHODS} methods", field="methods", limit=MOST_METHODS)
    names: set[str] = set()
    for method in methods:
        if method.name in names:
            raise Invalid(f"two methods are called `{method.name}`: rename one", field="methods")
        names.add(method.name)
        _check_parameters(method)


def _check_parameters(method: Method) -> None:
    if len(msgspec.json.encode(method.parameters)) > MOST_PARAMETERS:
        what = f"the parameters of `{method.name}` may have at most {MOST_PARAMETERS} bytes"
        raise TooLarge(what, field="methods", limit=MOST_PARAMETERS)
    try:
        check_parameters(check_tool_spec(spec_of(method)))
    except Invalid as exc:
        raise Invalid(exc.message, field="methods") from exc
