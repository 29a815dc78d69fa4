"""`ToolMeasurer`: tools are measured once until they change."""

from holdfast.agent.context.tokens import TOOL_OVERHEAD_TOKENS, MeasuredTools, ToolMeasurer
from holdfast.domain.content import Json
from holdfast.domain.tool import ToolClass, ToolSpec
from holdfast.tools.tool import ToolContext, ToolResult


class Counted:
    """`Tokens` that records the counted texts."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def count(self, text: str) -> int:
        """Return how many characters `text` has."""
        self.texts.append(text)
        return len(text)


class Named:
    """`Tool` that does nothing."""

    def __init__(self, name: str, description: str = "It does nothing.") -> None:
        self.spec = ToolSpec(name=name, description=description, parameters={}, kind=ToolClass.IDEMPOTENT)

    async def run(self, call: ToolContext, arguments: dict[str, Json]) -> ToolResult:
        """Do nothing."""
        return ToolResult()


def test_the_same_tools_are_measured_once() -> None:
    tokens = Counted()
    measurer, look, act = ToolMeasurer(tokens), Named("look"), Named("act")
    first = measurer.measure([look, act])
    assert measurer.measure([look, act]) is first
    assert [each.name for each in first.definitions] == ["look", "act"]
    assert (tokens.texts, first.tokens) == ([first.text], len(first.text) + 2 * TOOL_OVERHEAD_TOKENS)
    changed = measurer.measure([look, Named("act", "It does something now.")])
    assert [each.description for each in changed.definitions] == ["It does nothing.", "It does something now."]


def test_no_tools_have_no_tokens() -> None:
    assert ToolMeasurer(Counted()).measure([]) == MeasuredTools()
