"""`@tool`: the parameters and the class of a function, its calls, and its errors."""

import asyncio
import threading
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict, cast

import msgspec
import pydantic
import pytest

from holdfast import ToolContext, ToolResult, tool
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.tool import ToolClass
from holdfast.tools.function_tool import FunctionTool
from holdfast.tools.python_types import from_json, json_schema, to_json

CALL = cast(ToolContext, object())


class Point(msgspec.Struct):
    x: int


class Line(TypedDict):
    points: list[Point]


@dataclass
class Colour:
    name: str


class Order(pydantic.BaseModel):
    items: list[str]
    urgent: bool = False


class Size(Enum):
    SMALL = "small"


async def run(function: FunctionTool[Any, Any], **arguments: Json) -> ToolResult:
    return await function.run(CALL, arguments)


@tool
def price(symbol: str, currency: Literal["EUR", "USD"] = "EUR", days: int | None = None) -> float:  # noqa: D417
    """Return the price of a stock.

    It is that of the last close.

    Args:
        symbol: The ticker symbol,
            in capitals.
        currency (str): The currency.

    Returns:
        The price.

    """
    return 12.5 if symbol == "ACME" else 0.0


def test_type_hints_and_docstring_give_the_schema() -> None:
    assert price.spec.name == "price"
    assert price.spec.description == "Return the price of a stock.\n\nIt is that of the last close."
    assert price.spec.parameters == {
        "type": "object",
        "properties": {
            "symbol": {"type": "string", "description": "The ticker symbol, in capitals."},
            "currency": {"type": "string", "enum": ["EUR", "USD"], "default": "EUR", "description": "The currency."},
            "days": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
        "additionalProperties": False,
        "required": ["symbol"],
    }


def test_sphinx_fields_and_annotations_describe_parameters_too() -> None:
    @tool
    def count(text: str, unit: Annotated[str, "What to count."] = "words") -> int:
        """Count.

        :param text: The text.
        :returns: The number.
        """
        return len(text)

    described = {name: part.get("description") for name, part in count.spec.parameters["properties"].items()}
    assert (count.spec.description, described) == ("Count.", {"text": "The text.", "unit": "What to count."})


def test_a_decorated_function_can_still_be_called() -> None:
    assert price("ACME") == 12.5


def test_the_class_of_a_function() -> None:
    @tool(idempotent=True)
    def pay(amount: float) -> None:
        """Pay."""

    @tool(read_only=True, name="look_up", description="Look it up.", timeout=3, untrusted=True)
    def look() -> None: ...

    assert (price.spec.kind, price.spec.read_only) == (ToolClass.EFFECTFUL, False)
    assert (pay.spec.kind, pay.spec.read_only) == (ToolClass.IDEMPOTENT, False)
    assert (look.spec.kind, look.spec.read_only) == (ToolClass.IDEMPOTENT, True)
    assert (look.spec.name, look.spec.description, look.spec.timeout, look.spec.untrusted) == (
        "look_up",
        "Look it up.",
        3,
        True,
    )
    with pytest.raises(Invalid, match="choose one"):
        tool(effectful=True, read_only=True)

    @tool(effectful=True, idempotent=True)
    def charge(amount: int) -> None:
        """Charge, once per key."""

    assert (charge.spec.kind, charge.spec.read_only) == (ToolClass.IDEMPOTENT, False)


async def test_arguments_have_the_types_of_the_parameters() -> None:
    seen: list[object] = []

    @tool
    def draw(point: Point, line: Line, colour: Colour, order: Order, size: Size, times: int = 1) -> Order:
        """Draw."""
        seen.extend([point, line, colour, order, size, times])
        return order

    result = await run(
        draw,
        point={"x": 1},
        line={"points": [{"x": 2}]},
        colour={"name": "red"},
        order={"items": ["pen"]},
        size="small",
        times=2.0,
    )
    assert seen == [Point(1), {"points": [Point(2)]}, Colour("red"), Order(items=["pen"]), Size.SMALL, 2]
    assert result.content == {"items": ["pen"], "urgent": False}


async def test_sync_functions_run_in_a_thread_and_async_ones_on_the_loop() -> None:
    @tool
    def sync() -> bool:
        """Say whether this is the main thread."""
        return threading.current_thread() is threading.main_thread()

    @tool
    async def on_loop() -> bool:
        """Say whether this is the main thread."""
        await asyncio.sleep(0)
        return threading.current_thread() is threading.main_thread()

    assert ((await run(sync)).content, (await run(on_loop)).content) == (False, True)


async def test_a_parameter_can_receive_the_call() -> None:
    @tool
    def identify(call: ToolContext, name: str) -> str:
        """Identify."""
        return f"{name} {call is CALL}"

    assert list(identify.spec.parameters["properties"]) == ["name"]
    assert (await run(identify, name="me")).content == "me True"


async def test_an_exception_is_a_failed_result() -> None:
    @tool
    def fail() -> None:
        """Fail."""
        raise ValueError("no such symbol")

    @tool
    def unwritable() -> object:
        """Return what has no JSON."""
        return object()

    assert await run(fail) == ToolResult(content="`fail` failed: ValueError: no such symbol", failed=True)
    assert "cannot be written as JSON" in str((await run(unwritable)).content)


async def test_a_result_can_be_a_tool_result() -> None:
    @tool
    def fetch() -> ToolResult:
        """Fetch."""
        return ToolResult(content="text of others", untrusted="mail")

    assert (await run(fetch)).untrusted == "mail"


def _no_docstring(x: int) -> None: ...


def _no_hint(x) -> None:  # type: ignore[no-untyped-def]
    """Do it."""


def _rest(*rest: int) -> None:
    """Do it."""


def _odd(x: threading.Lock) -> None:
    """Do it."""


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (_no_docstring, "has no docstring"),
        (_no_hint, "has no type hint: add one, such as `x: str`"),
        (_rest, "cannot be passed by name"),
        (_odd, "has no JSON Schema"),
    ],
)
def test_a_function_that_cannot_be_a_tool_says_why(function: Any, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        tool(function)


@pytest.mark.parametrize("kind", [Point, Line, Colour, Order, list[Order], dict[str, Point]])
def test_values_of_every_kind_of_type_are_json_and_back(kind: Any) -> None:
    samples: dict[Any, Any] = {Point: {"x": 1}, Line: {"points": []}, Colour: {"name": "red"}, Order: {"items": []}}
    sample = samples.get(kind) or ([{"items": ["a"]}] if kind == list[Order] else {"a": {"x": 1}})
    value = from_json(sample, kind)
    assert from_json(to_json(value), kind) == value
    assert "$ref" not in str(json_schema(kind))
    with pytest.raises(Invalid, match="does not match"):
        from_json("nothing of the kind", kind)
