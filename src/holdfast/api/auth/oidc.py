"""OpenID Connect: settings and admission rules, the issuer's signing keys, and token validation."""

import asyncio
import ipaddress
import logging
import re
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple
from urllib.parse import urlsplit

import httpx2
import msgspec
from msgspec import Meta

from holdfast.control.errors import Forbidden, Unauthenticated
from holdfast.control.principal import Principal
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid, Unavailable
from holdfast.domain.ids import SpaceId
from holdfast.domain.space import Scope
from holdfast.ports.runtime import Clock

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

if TYPE_CHECKING:
    from joserfc.jwk import KeySet


_SPACE_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
MAX_SUBJECT_CHARS: Final = 200


class AdmissionRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What those may do whose token says something."""

    scope: Scope
    claim: Annotated[str, Meta(min_length=1)] | None = None
    """What must be in a token, such as `groups`; `a.b` is `b` in `a`. Nothing if it is for everybody."""
    value: str | None = None
    """What it must be, or what must be in it."""
    spaces: list[SpaceId] = []
    spaces_from: Annotated[str, Meta(min_length=1)] | None = None
    """A claim that names spaces."""
    every_space: bool = False

    def matches(self, claims: Mapping[str, Any]) -> bool:
        """Say whether it is for somebody with these claims."""
        return self.claim is None or self.value in _claim_values(claims, self.claim)

    def spaces_of(self, claims: Mapping[str, Any]) -> tuple[SpaceId, ...]:
        """Return the spaces that somebody with these claims gets."""
        named = () if self.spaces_from is None else _claim_values(claims, self.spaces_from)
        return tuple(dict.fromkeys([*self.spaces, *(SpaceId(name) for name in named if _SPACE_ID.fullmatch(name))]))


class OidcSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An issuer, and what its people may do: of several admissions the first that fits counts."""

    issuer: Annotated[str, Meta(min_length=1)]
    audience: Annotated[str, Meta(min_length=1)]
    """What tokens must be for."""
    admit: Annotated[list[AdmissionRule], Meta(min_length=1)]


def principal_from_claims(settings: OidcSettings, claims: Mapping[str, Any]) -> Principal | None:
    """Return who comes with these claims; nobody if no admission is for them."""
    subject = claims.get("sub")
    if not isinstance(subject, str) or not subject.isprintable() or not 0 < len(subject) <= MAX_SUBJECT_CHARS:
        return None
    for admission in settings.admit:
        if admission.matches(claims):
            spaces = None if admission.every_space else admission.spaces_of(claims)
            if spaces == ():
                return None
            return Principal(name=f"oidc:{subject}", scope=admission.scope, space_ids=spaces)
    return None


def _claim_values(claims: Mapping[str, Any], path: str) -> list[str]:
    """Return the words of a claim, whether it is one or a list of them."""
    found: Json = claims.get(path)  # claims of some issuers are addresses, with dots
    if found is None:
        found = dict(claims)
        for step in path.split("."):
            found = found.get(step) if isinstance(found, dict) else None
    words = found if isinstance(found, list) else [found]
    return [word for word in words if isinstance(word, str)]


ISSUER_KEYS_TTL_SECONDS: Final = 600.0
"""Seconds after which the keys are asked for again."""
MIN_REFRESH_INTERVAL_SECONDS: Final = 5.0
"""Seconds that must be between two times: anybody can send tokens with a key that does not exist."""
ISSUER_TIMEOUT_SECONDS: Final = 10.0
MAX_ISSUER_RESPONSE_BYTES: Final = 1024 * 1024
_DISCOVERY_PATH: Final = "/.well-known/openid-configuration"

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
        self._refreshed_at = -ISSUER_KEYS_TTL_SECONDS

    async def keys(self, *, other_than: "KeySet | None" = None) -> "KeySet":
        """Return the keys; if some did not do, `other_than` those, unless they were asked for just now."""
        async with self._lock:
            age = self._monotonic() - self._refreshed_at
            if (
                self._keys is None
                or age >= ISSUER_KEYS_TTL_SECONDS
                or (self._keys is other_than and age >= MIN_REFRESH_INTERVAL_SECONDS)
            ):
                await self._refresh()
            assert self._keys is not None
            return self._keys

    async def _refresh(self) -> None:
        try:
            self._keys = await self._fetch()
        except Unavailable as exc:
            if self._keys is None:
                raise
            _log.warning("%s: the keys from before are used", exc.message)
        self._refreshed_at = self._monotonic()

    async def _fetch(self) -> "KeySet":
        async with httpx2.AsyncClient(timeout=ISSUER_TIMEOUT_SECONDS, follow_redirects=False) as web:
            found = _decode_configuration(
                await self._get(web, self.url.rstrip("/") + _DISCOVERY_PATH), _Configuration, self.url
            )
            if found.issuer != self.url:
                raise Unavailable(f"the issuer at `{self.url}` calls itself `{found.issuer}`: set that as `issuer`")
            if not _is_secure_url(found.jwks_uri):
                raise Unavailable(f"the keys of the issuer `{self.url}` are at an address that is not `https://`")
            keys = await self._get(web, found.jwks_uri)
        return await asyncio.to_thread(_decode_key_set, keys, self.url)

    async def _get(self, web: httpx2.AsyncClient, address: str) -> bytes:
        try:
            answer = await web.get(address)
        except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
            raise Unavailable(f"the issuer `{self.url}` does not answer: {exc or type(exc).__name__}") from exc
        if answer.status_code != httpx2.codes.OK or len(answer.content) > MAX_ISSUER_RESPONSE_BYTES:
            raise Unavailable(f"the issuer `{self.url}` answers {answer.status_code} at {urlsplit(address).path}")
        return answer.content


def check_issuer(url: str) -> str:
    """Return the address of an issuer, if nobody between can change what it says."""
    if not _is_secure_url(url):
        raise Invalid(f"`{url}` is no issuer: its address must begin with `https://`", field="issuer")
    return url


def _is_secure_url(url: str) -> bool:
    """Say whether an address is of this machine, or reached so that nobody can listen."""
    try:
        scheme, host = urlsplit(url).scheme, urlsplit(url).hostname or ""
        return bool(host) and (
            scheme == "https" or (scheme == "http" and (host == "localhost" or ipaddress.ip_address(host).is_loopback))
        )
    except ValueError:
        return False


def _decode_configuration(body: bytes, kind: type[_Configuration], url: str) -> _Configuration:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as exc:
        raise Unavailable(f"the issuer `{url}` answers with what is no configuration: {exc}") from exc


def _decode_key_set(body: bytes, url: str) -> "KeySet":
    """Read keys; what reads them takes half a second to be imported, so this is for another thread."""
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    try:
        return KeySet.import_key_set(msgspec.json.decode(body))
    except (msgspec.DecodeError, JoseError, ValueError, TypeError, KeyError, AttributeError) as exc:
        raise Unavailable(f"the issuer `{url}` answers with what are no keys: {exc}") from exc


ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
)
"""Only those with which an issuer signs and others can check it: a shared secret, or none, is not accepted."""
CLOCK_LEEWAY_SECONDS: Final = 30
"""Seconds by which clocks may disagree."""
TOKEN_CACHE_SECONDS: Final = 60
"""Seconds for which a token is believed that was checked, unless it expires before."""
MAX_TOKEN_CHARS: Final = 16 * 1024
MAX_CACHED_TOKENS: Final = 4096


class _CachedPrincipal(NamedTuple):
    principal: Principal
    expires_at: float


class OidcAuthenticator:
    """The people of an issuer."""

    def __init__(self, settings: OidcSettings, issuer: Issuer, clock: Clock) -> None:
        self._settings = settings
        self._issuer = issuer
        self._clock = clock
        self._cache: dict[bytes, _CachedPrincipal] = {}

    async def authenticate(self, token: str) -> Principal:
        """Return who comes with a token; one that nobody is admitted with raises `Forbidden`."""
        digest, now = sha256(token.encode("utf-8", "surrogatepass")).digest(), self._clock.now() / 1000
        known = self._cache.get(digest)
        if known is None or now >= known.expires_at:
            known = await self._check(token, now)
            if len(self._cache) >= MAX_CACHED_TOKENS:
                self._cache.clear()
            self._cache[digest] = known
        return known.principal

    async def _check(self, token: str, now: float) -> _CachedPrincipal:
        claims = await self._claims(token)
        asker = principal_from_claims(self._settings, claims)
        if asker is None:
            raise Forbidden("your token holds, but nothing here is for you: ask to be admitted")
        return _CachedPrincipal(asker, min(now + TOKEN_CACHE_SECONDS, claims["exp"] + CLOCK_LEEWAY_SECONDS))

    async def _claims(self, token: str) -> dict[str, Any]:
        """Return what a token says, if the issuer says it; keys that were exchanged are asked for once."""
        if len(token) > MAX_TOKEN_CHARS or token.count(".") != 2:
            raise _token_refused("it is no token")
        keys = await self._issuer.keys()
        try:
            return self._read(token, keys)
        except _UnknownSigningKey as exc:
            newer = await self._issuer.keys(other_than=keys)
            if newer is keys:
                raise _token_refused("it was signed with a key that its issuer does not have") from exc
        try:
            return self._read(token, newer)
        except _UnknownSigningKey as exc:
            raise _token_refused("it was signed with a key that its issuer does not have") from exc

    def _read(self, token: str, keys: "KeySet") -> dict[str, Any]:
        from joserfc import jwt
        from joserfc.errors import ExpiredTokenError, InvalidKeyIdError, JoseError

        registry = jwt.JWTClaimsRegistry(
            now=lambda: self._clock.now() // 1000,
            leeway=CLOCK_LEEWAY_SECONDS,
            iss={"essential": True, "value": self._settings.issuer},
            aud={"essential": True, "value": self._settings.audience},
            exp={"essential": True},
            sub={"essential": True},
        )
        try:
            claims = jwt.decode(token, keys, algorithms=ALGORITHMS).claims
            registry.validate(claims)
        except InvalidKeyIdError as exc:
            raise _UnknownSigningKey from exc
        except ExpiredTokenError as exc:
            raise _token_refused("it has expired") from exc
        except (JoseError, ValueError) as exc:
            raise _token_refused("it does not hold") from exc
        return claims


class _UnknownSigningKey(Exception):
    """The token was signed with a key that is not among those that are known."""


def _token_refused(why: str) -> Unauthenticated:
    return Unauthenticated(f"this token opens nothing: {why}")
