"""The keys with which an issuer signs: asked for, kept for a while, and asked for again when they are exchanged."""

import asyncio
import ipaddress
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import httpx2
import msgspec

from holdfast.domain.errors import Invalid, Unavailable

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

LIFE: Final = 600.0
"""Seconds after which the keys are asked for again."""
PAUSE: Final = 5.0
"""Seconds that must be between two times: anybody can send tokens with a key that does not exist."""
PATIENCE: Final = 10.0
LARGEST: Final = 1024 * 1024
_DISCOVERY: Final = "/.well-known/openid-configuration"

_log: Final = logging.getLogger("holdfast.api")


class _Configuration(msgspec.Struct, frozen=True, kw_only=True):
    issuer: str
    jwks_uri: str


class Issuer:
    """The keys of one issuer, as they are now."""

    def __init__(self, url: str, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.url = check_issuer(url)
        self._monotonic = monotonic
        self._lock = asyncio.Lock()
        self._keys: KeySet | None = None
        self._asked = -LIFE

    async def keys(self, *, other_than: "KeySet | None" = None) -> "KeySet":
        """Return the keys; if some did not do, `other_than` those, unless they were asked for just now."""
        async with self._lock:
            age = self._monotonic() - self._asked
            if self._keys is None or age >= LIFE or (self._keys is other_than and age >= PAUSE):
                await self._ask()
            assert self._keys is not None
            return self._keys

    async def _ask(self) -> None:
        try:
            self._keys = await self._read()
        except Unavailable as exc:
            if self._keys is None:
                raise
            _log.warning("%s: the keys from before are used", exc.message)
        self._asked = self._monotonic()

    async def _read(self) -> "KeySet":
        async with httpx2.AsyncClient(timeout=PATIENCE, follow_redirects=False) as web:
            found = _decoded(await self._get(web, self.url.rstrip("/") + _DISCOVERY), _Configuration, self.url)
            if found.issuer != self.url:
                raise Unavailable(f"the issuer at `{self.url}` calls itself `{found.issuer}`: set that as `issuer`")
            if not _is_safe(found.jwks_uri):
                raise Unavailable(f"the keys of the issuer `{self.url}` are at an address that is not `https://`")
            keys = await self._get(web, found.jwks_uri)
        return await asyncio.to_thread(_key_set, keys, self.url)

    async def _get(self, web: httpx2.AsyncClient, address: str) -> bytes:
        try:
            answer = await web.get(address)
        except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
            raise Unavailable(f"the issuer `{self.url}` does not answer: {exc or type(exc).__name__}") from exc
        if answer.status_code != httpx2.codes.OK or len(answer.content) > LARGEST:
            raise Unavailable(f"the issuer `{self.url}` answers {answer.status_code} at {urlsplit(address).path}")
        return answer.content


def check_issuer(url: str) -> str:
    """Return the address of an issuer, if nobody between can change what it says."""
    if not _is_safe(url):
        raise Invalid(f"`{url}` is no issuer: its address must begin with `https://`", field="issuer")
    return url


def _is_safe(url: str) -> bool:
    """Say whether an address is of this machine, or reached so that nobody can listen."""
    try:
        scheme, host = urlsplit(url).scheme, urlsplit(url).hostname or ""
        return bool(host) and (
            scheme == "https" or (scheme == "http" and (host == "localhost" or ipaddress.ip_address(host).is_loopback))
        )
    except ValueError:
        return False


def _decoded(body: bytes, kind: type[_Configuration], url: str) -> _Configuration:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as exc:
        raise Unavailable(f"the issuer `{url}` answers with what is no configuration: {exc}") from exc


def _key_set(body: bytes, url: str) -> "KeySet":
    """Read keys; what reads them takes half a second to be imported, so this is for another thread."""
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    try:
        return KeySet.import_key_set(msgspec.json.decode(body))
    except (msgspec.DecodeError, JoseError, ValueError, TypeError, KeyError, AttributeError) as exc:
        raise Unavailable(f"the issuer `{url}` answers with what are no keys: {exc}") from exc
