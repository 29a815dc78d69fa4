import json
from hashlib import sha256
from string import ascii_letters, digits
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.errors import Invalid
from holdfast.domain.idempotency import (
    MAX_IDEMPOTENCY_KEY_CHARS,
    check_idempotency_key,
    derived_id,
    request_digest,
    step_key,
)
from holdfast.domain.ids import RunId, check_client_id

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
run_ids = st.text(ascii_letters + digits + "_-", min_size=1, max_size=128).map(RunId)


class Body(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    input: list[str]


def reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reversed_keys(value[key]) for key in reversed(value)}
    return [reversed_keys(item) for item in value] if isinstance(value, list) else value


def test_a_digest_is_the_sha256_of_canonical_json() -> None:
    canonical = b'{"a":[true,null],"b":1}'
    assert request_digest({"b": 1, "a": [True, None]}) == sha256(canonical).hexdigest()


def test_a_struct_and_its_json_have_one_digest() -> None:
    body = Body(model="m", input=["hello"])
    assert request_digest(body) == request_digest({"input": ["hello"], "model": "m"})


def test_the_order_of_a_list_matters() -> None:
    assert request_digest([1, 2]) != request_digest([2, 1])


@given(values)
def test_the_order_of_keys_does_not_matter(value: Any) -> None:
    assert request_digest(value) == request_digest(reversed_keys(value))
    assert request_digest(value) == request_digest(msgspec.json.decode(msgspec.json.encode(value)))


@given(values, values)
def test_different_bodies_have_different_digests(one: Any, other: Any) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (request_digest(one) == request_digest(other)) is same


@pytest.mark.parametrize("key", ["k", "a b/c:{}~", "x" * MAX_IDEMPOTENCY_KEY_CHARS])
def test_a_key_is_printable_ascii(key: str) -> None:
    assert check_idempotency_key(key) == key


@pytest.mark.parametrize("key", ["", "x" * (MAX_IDEMPOTENCY_KEY_CHARS + 1), "a\n", "a\x7f", "\u00e9", "\u9375"])
def test_any_other_key_is_rejected(key: str) -> None:
    with pytest.raises(Invalid, match="printable ASCII"):
        check_idempotency_key(key)


@given(run_ids, st.integers(0, 10**9), run_ids, st.integers(0, 10**9))
def test_each_step_has_its_own_key_which_is_a_valid_one(a: RunId, n: int, b: RunId, m: int) -> None:
    assert check_idempotency_key(step_key(a, n)) == step_key(a, n)
    assert (step_key(a, n) == step_key(b, m)) is ((a, n) == (b, m))


def test_a_repeated_step_derives_the_same_ids() -> None:
    key = step_key(RunId("run_1"), 4)
    ids = [derived_id("art", key=key, index=index) for index in range(3)]
    assert ids == [derived_id("art", key=key, index=index) for index in range(3)]
    assert len(set(ids)) == 3
    assert ids[0] == derived_id("art", key="run_1.4")
    assert derived_id("art", key=step_key(RunId("run_1"), 41), index=0) not in ids


@given(texts, st.integers(0, 100))
def test_a_derived_id_is_a_valid_id_with_its_prefix(key: str, index: int) -> None:
    ids = derived_id("art", key=key, index=index)
    assert ids.startswith("art_")
    assert check_client_id(ids, field="id") == ids
