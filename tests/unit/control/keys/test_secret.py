"""The secret of a key, as it is sent."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.control.keys.secret import hash_of, new_secret, read_token, token_of
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
    assert read_token(token_of(key, secret)) == (key, secret)


@given(st.text())
def test_whatever_is_sent_is_read_or_is_no_token(sent: str) -> None:
    assert read_token(sent) is None
    assert len(hash_of(sent)) == 32


@given(KEYS, st.integers(0, 78), st.characters())
def test_a_token_with_one_other_character_is_no_token_or_another_one(key: ApiKeyId, at: int, other: str) -> None:
    token = token_of(key, new_secret())
    changed = token[:at] + other + token[at + 1 :]
    assert changed == token or read_token(changed) != read_token(token)
