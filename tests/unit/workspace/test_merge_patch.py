"""A patch changes only the keys that it names."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.content import Json
from holdfast.workspace.settings_file import merge_patch


class Inner(msgspec.Struct, frozen=True, kw_only=True):
    often: int | None = 10
    name: str = "x"


class One(msgspec.Struct, frozen=True, kw_only=True, tag="a"):
    x: int = 0


class Other(msgspec.Struct, frozen=True, kw_only=True, tag="b"):
    y: int = 0


class Outer(msgspec.Struct, frozen=True, kw_only=True):
    inner: Inner = Inner()
    servers: dict[str, Inner] = {}
    names: list[str] = []
    locale: str | None = None
    choice: One | Other | None = None
    either: str | list[str] = ""


@pytest.mark.parametrize(
    ("old", "patch", "new"),
    [
        ({}, {}, {}),
        ({}, {"inner": {"name": "y"}}, {"inner": {"name": "y"}}),
        ({"inner": {"name": "y"}}, {"inner": {"often": 3}}, {"inner": {"name": "y", "often": 3}}),
        ({"inner": {"often": 3}}, {"inner": {"often": None}}, {"inner": {"often": None}}),
        ({"inner": {"name": "y"}}, {"inner": {"name": None}}, {"inner": {}}),
        ({"inner": {"name": "y"}}, {"inner": None}, {}),
        ({"servers": {"a": {}, "b": {}}}, {"servers": {"a": None}}, {"servers": {"b": {}}}),
        (
            {"servers": {"a": {"name": "y"}}},
            {"servers": {"a": {"often": 1}}},
            {"servers": {"a": {"name": "y", "often": 1}}},
        ),
        ({"servers": {}}, {"servers": {"a": {"name": None}}}, {"servers": {"a": {}}}),
        ({"names": ["a", "b"]}, {"names": ["c"]}, {"names": ["c"]}),
        ({"names": ["a"]}, {"names": None}, {}),
        ({"locale": "ja"}, {"locale": None}, {"locale": None}),
        ({"choice": {"type": "a", "x": 1}}, {"choice": {"x": 2}}, {"choice": {"type": "a", "x": 2}}),
        ({"choice": {"type": "a", "x": 1}}, {"choice": {"type": "b", "y": 2}}, {"choice": {"type": "b", "y": 2}}),
        ({"choice": {"type": "b", "y": 1}}, {"choice": {"y": None}}, {"choice": {"type": "b"}}),
        ({"choice": {"type": "a"}}, {"choice": None}, {"choice": None}),
        ({"either": ["a"]}, {"either": "b"}, {"either": "b"}),
        ({"inner": {"name": "y"}}, {"inner": 7}, {"inner": 7}),
        ({"locale": "ja"}, {"locale": {"a": 1}}, {"locale": {"a": 1}}),
        ({}, {"unknown": {"a": None}}, {"unknown": {"a": None}}),
        ({}, {"unknown": None}, {}),
    ],
)
def test_objects_are_merged_and_other_values_replaced(old: Any, patch: Any, new: Any) -> None:
    assert merge_patch(Outer, old, patch) == new


def test_existing_keys_keep_their_order() -> None:
    old = {"names": [], "locale": "ja", "inner": {}}
    assert list(merge_patch(Outer, old, {"inner": {"name": "y"}, "locale": "en", "either": "z"})) == [*old, "either"]


_INNER = st.fixed_dictionaries({}, optional={"often": st.none() | st.integers(), "name": st.text()})
_OUTER = st.fixed_dictionaries(
    {},
    optional={
        "inner": _INNER,
        "servers": st.dictionaries(st.text(), _INNER),
        "names": st.lists(st.text()),
        "locale": st.none() | st.text(),
    },
)


@given(_OUTER, _OUTER)
def test_applying_a_patch_twice_changes_nothing(old: dict[str, Json], patch: dict[str, Json]) -> None:
    once = merge_patch(Outer, old, patch)
    assert merge_patch(Outer, once, patch) == once
    assert msgspec.convert(once, Outer)
    assert {**old, **once} == once
