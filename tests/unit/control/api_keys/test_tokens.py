"""Tokens: the key id and the secret as a client sends them."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.control.api_keys import format_token, hash_secret, new_secret, parse_token
from holdfast.domain.ids import ENTROPY_BYTES, ApiKeyId, sortable_id
from holdfast.domain.instant import Millis

KEYS = st.builds(
    lambda at, entropy: ApiKeyId(sortable_id("key", at=Millis(at), entropy=entropy)),
    st.integers(0, 2**47),
    st.binary(min_size=ENTROPY_BYTES, max_size=ENTROPY_BYTES),
)


@given(KEYS)
def test_a_token_contains_its_key_id_and_secret(key: ApiKeyId) -> None:
    secret = new_secret()
    assert parse_token(format_token(key, secret)) == (key, secret)


@given(st.text())
def test_arbitrary_text_is_not_a_token(sent: str) -> None:
    assert parse_token(sent) is None
    assert len(hash_secret(sent)) == 32


@given(KEYS, st.integers(0, 78), st.characters())
def test_a_changed_token_is_invalid_or_another_token(key: ApiKeyId, at: int, other: str) -> None:
    token = format_token(key, new_secret())
    changed = token[:at] + other + token[at + 1 :]
    assert changed == token or parse_token(changed) != parse_token(token)
