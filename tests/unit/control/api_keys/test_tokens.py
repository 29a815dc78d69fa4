"""The secret of a key, as it is sent."""

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
def test_a_token_names_its_key_and_has_its_secret(key: ApiKeyId) -> None:
    secret = new_secret()
    assert parse_token(format_token(key, secret)) == (key, secret)


@given(st.text())
def test_whatever_is_sent_is_read_or_is_no_token(sent: str) -> None:
    assert parse_token(sent) is None
    assert len(hash_secret(sent)) == 32


@given(KEYS, st.integers(0, 78), st.characters())
def test_a_token_with_one_other_character_is_no_token_or_another_one(key: ApiKeyId, at: int, other: str) -> None:
    token = format_token(key, new_secret())
    changed = token[:at] + other + token[at + 1 :]
    assert changed == token or parse_token(changed) != parse_token(token)
