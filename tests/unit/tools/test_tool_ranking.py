import pytest

from holdfast.tools.builtin.catalog import BUILTIN_SPECS
from holdfast.tools.builtin.tool_search import rank_tools
from tests.support.calls import a_spec


def found(query: str, limit: int = 10) -> list[str]:
    return [spec.name for spec in rank_tools(query, BUILTIN_SPECS, limit=limit)]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("sleep", "sleep"),
        ("wait for a while", "sleep"),
        ("SLEEP!", "sleep"),
        ("ask the user a question", "ask_user"),
        ("artifacts", "create_artifact"),
        ("todo list", "todo_read"),
        ("give up task of plan", "plan_cancel"),
    ],
)
def test_the_best_match_comes_first(query: str, first: str) -> None:
    assert found(query)[0] == first


@pytest.mark.parametrize("query", ["qqqq", "_ - !", "\ud800"])
def test_a_query_without_matches_finds_nothing(query: str) -> None:
    assert found(query) == []


def test_results_are_limited() -> None:
    assert len(found("task", limit=3)) == 3


def test_ties_are_in_order_of_name() -> None:
    assert [spec.name for spec in rank_tools("look", [a_spec("look_b"), a_spec("look_a")], limit=5)] == [
        "look_a",
        "look_b",
    ]


def test_a_name_counts_more_than_a_description_and_that_more_than_a_parameter() -> None:
    named = a_spec("weather")
    described = a_spec("b")
    described = type(described)(name="b", description="the weather", parameters={"type": "object"})
    taken = a_spec("c", parameters={"type": "object", "properties": {"weather": {}}})
    assert [spec.name for spec in rank_tools("weather", [taken, described, named], limit=5)] == ["weather", "b", "c"]


def test_a_language_without_spaces_is_searched_by_pairs_of_characters() -> None:
    weather = type(BUILTIN_SPECS[0])(name="weather", description="天気予報を調べる", parameters={"type": "object"})
    music = type(BUILTIN_SPECS[0])(name="music", description="音楽を聴く", parameters={"type": "object"})
    assert [spec.name for spec in rank_tools("明日の天気", [music, weather], limit=5)] == ["weather"]
