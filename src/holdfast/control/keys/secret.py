"""The secret of a key, as it is sent: `hf_<id of the key>_<256 random bits>`.

The id says which key it is, so that the hash of the rest is not looked up: it is compared with one other, in constant
time.
"""

import re
import secrets
from hashlib import sha256
from hmac import compare_digest
from typing import Final

from holdfast.domain.ids import ApiKeyId
from holdfast.domain.space import StoredApiKey

PREFIX: Final = "hf_"
_KEY: Final = "key_"
_BYTES: Final = 32
_TOKEN: Final = re.compile(rf"{PREFIX}(?P<key>[0-9a-f]{{32}})_(?P<secret>[A-Za-z0-9_-]{{43}})")


def new_secret() -> str:
    """Return something that nobody can guess."""
    return secrets.token_urlsafe(_BYTES)


def hash_of(secret: str) -> bytes:
    """Return what is kept of a secret. It is too long to be tried out, so a fast hash is as good as a slow one."""
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()


def token_of(key: ApiKeyId, secret: str) -> str:
    """Return what the owner of a key sends."""
    return f"{PREFIX}{key.removeprefix(_KEY)}_{secret}"


def read_token(token: str) -> tuple[ApiKeyId, str] | None:
    """Return the key that a token names, and its secret; nothing if it is no token of ours."""
    read = _TOKEN.fullmatch(token)
    return None if read is None else (ApiKeyId(_KEY + read["key"]), read["secret"])


def matches(kept: StoredApiKey, secret: str) -> bool:
    """Say whether it is the secret of a key."""
    return compare_digest(kept.secret_hash, hash_of(secret))
