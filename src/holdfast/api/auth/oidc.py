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
from msgspec.structs import replace

from holdfast.control.errors import Forbidden, Unauthenticated
from holdfast.control.principal import Principal
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid, Unavailable
from holdfast.domain.ids import SpaceId
from holdfast.domain.instant import Millis
from holdfast.domain.space import Scope
from holdfast.ports.runtime import Clock

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

_SPACE_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
MAX_SUBJECT_CHARS: Final = 200


class AdmissionRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The access of principals whose token has a claim."""

    scope: Scope
    claim: Annotated[str, Meta(min_length=1)] | None = None
    """The required claim, such as `groups`; `a.b` is `b` in `a`. Without it, the rule matches every token."""
    value: str | None = None
    """The required value of the claim, or an item of it if it is a list."""
    spaces: list[SpaceId] = []
    spaces_from: Annotated[str, Meta(min_length=1)] | None = None
    """A claim with further space ids."""
    every_space: bool = False

    def matches(self, claims: Mapping[str, Any]) -> bool:
        """Return whether the rule matches the claims of a token."""
        return self.claim is None or self.value in _claim_values(claims, self.claim)

    def spaces_of(self, claims: Mapping[str, Any]) -> tuple[SpaceId, ...]:
        """Return the spaces that the rule grants for the claims of a token."""
        names = () if self.spaces_from is None else _claim_values(claims, self.spaces_from)
        return tuple(dict.fromkeys([*self.spaces, *(SpaceId(name) for name in names if _SPACE_ID.fullmatch(name))]))


class OidcSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An issuer, and the access of its users: the first matching rule of `admit` applies."""

    issuer: Annotated[str, Meta(min_length=1)]
    audience: Annotated[str, Meta(min_length=1)]
    """The required audience of tokens."""
    admit: Annotated[list[AdmissionRule], Meta(min_length=1)]


def principal_from_claims(settings: OidcSettings, claims: Mapping[str, Any]) -> Principal | None:
    """Return the principal of the claims, or `None` if no rule matches."""
    subject = claims.get("sub")
    if not isinstance(subject, str) or not subject.isprintable() or not 0 < len(subject) <= MAX_SUBJECT_CHARS:
        return None
    for rule in settings.admit:
        if rule.matches(claims):
            spaces = None if rule.every_space else rule.spaces_of(claims)
            if spaces == ():
                return None
            return Principal(name=f"oidc:{subject}", scope=rule.scope, space_ids=spaces)
    return None


def _claim_values(claims: Mapping[str, Any], path: str) -> list[str]:
    """Return the strings of a claim, which may be one string or a list."""
    claim: Json = claims.get(path)  # first as a whole: some issuers use URLs, which have dots, as claim names
    if claim is None:
        claim = dict(claims)
        for key in path.split("."):
            claim = claim.get(key) if isinstance(claim, dict) else None
    values = claim if isinstance(claim, list) else [claim]
    return [value for value in values if isinstance(value, str)]


ISSUER_KEYS_TTL_SECONDS: Final = 600.0
"""Seconds after which the signing keys are fetched again."""
MIN_REFRESH_INTERVAL_SECONDS: Final = 5.0
"""Seconds between two fetches: anyone can send tokens with an unknown key."""
ISSUER_TIMEOUT_SECONDS: Final = 10.0
MAX_ISSUER_RESPONSE_BYTES: Final = 1024 * 1024
_DISCOVERY_PATH: Final = "/.well-known/openid-configuration"

_log: Final = logging.getLogger("holdfast.api")


class _Configuration(msgspec.Struct, frozen=True, kw_only=True):
    issuer: str
    jwks_uri: str


class Issuer:
    """The current signing keys of an issuer."""

    def __init__(self, url: str, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.url = check_issuer(url)
        self._monotonic = monotonic
        self._lock = asyncio.Lock()
        self._keys: KeySet | None = None
        self._refreshed_at = -ISSUER_KEYS_TTL_SECONDS

    async def keys(self, *, other_than: "KeySet | None" = None) -> "KeySet":
        """Return the keys; `other_than` forces a fetch if those are cached, unless they were fetched just now."""
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
            _log.warning("%s: using the previous keys", exc.message)
        self._refreshed_at = self._monotonic()

    async def _fetch(self) -> "KeySet":
        async with httpx2.AsyncClient(timeout=ISSUER_TIMEOUT_SECONDS, follow_redirects=False) as web:
            try:
                body = await self._get(web, self.url.rstrip("/") + _DISCOVERY_PATH)
                configuration = msgspec.json.decode(body, type=_Configuration)
            except msgspec.DecodeError as exc:
                raise Unavailable(f"the issuer `{self.url}` sent an invalid configuration: {exc}") from exc
            if configuration.issuer != self.url:
                raise Unavailable(f"the issuer at `{self.url}` is named `{configuration.issuer}`: set that as `issuer`")
            if not _is_secure_url(configuration.jwks_uri):
                raise Unavailable(f"the URL of the keys of issuer `{self.url}` does not begin with `https://`")
            keys = await self._get(web, configuration.jwks_uri)
        return await asyncio.to_thread(_decode_key_set, keys, self.url)

    async def _get(self, web: httpx2.AsyncClient, url: str) -> bytes:
        try:
            response = await web.get(url)
        except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
            raise Unavailable(f"the issuer `{self.url}` does not respond: {exc or type(exc).__name__}") from exc
        path = urlsplit(url).path
        if response.status_code != httpx2.codes.OK:
            raise Unavailable(f"the issuer `{self.url}` responds with {response.status_code} at {path}")
        if len(response.content) > MAX_ISSUER_RESPONSE_BYTES:
            raise Unavailable(f"the issuer `{self.url}` sent more than {MAX_ISSUER_RESPONSE_BYTES} bytes at {path}")
        return response.content


def check_issuer(url: str) -> str:
    """Return the URL of an issuer, or raise `Invalid` unless it is secure."""
    if not _is_secure_url(url):
        raise Invalid(
            f"`{url}` is not a valid issuer: its URL must begin with `https://`, except on this machine", field="issuer"
        )
    return url


def _is_secure_url(url: str) -> bool:
    """Return whether a URL uses HTTPS or names this machine."""
    try:
        scheme, host = urlsplit(url).scheme, urlsplit(url).hostname or ""
        return bool(host) and (
            scheme == "https" or (scheme == "http" and (host == "localhost" or ipaddress.ip_address(host).is_loopback))
        )
    except ValueError:
        return False


def _decode_key_set(body: bytes, url: str) -> "KeySet":
    """Decode keys; it runs in a thread because the imports take half a second."""
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    try:
        return KeySet.import_key_set(msgspec.json.decode(body))
    except (msgspec.DecodeError, JoseError, ValueError, TypeError, KeyError, AttributeError) as exc:
        raise Unavailable(f"the issuer `{url}` sent invalid keys: {exc}") from exc


ALGORITHMS: Final = [
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
]
"""Asymmetric algorithms only: neither a shared secret nor an unsigned token is accepted."""
CLOCK_LEEWAY_SECONDS: Final = 30
"""Seconds by which the clocks of the issuer and this server may differ."""
TOKEN_CACHE_SECONDS: Final = 60
"""Seconds for which a validated token is cached, unless it expires before."""
MAX_TOKEN_CHARS: Final = 16 * 1024
MAX_CACHED_TOKENS: Final = 4096


class _CachedPrincipal(NamedTuple):
    principal: Principal
    expires_at: float


class OidcAuthenticator:
    """Authenticates the users of an issuer."""

    def __init__(self, settings: OidcSettings, issuer: Issuer, clock: Clock) -> None:
        self._settings = settings
        self._issuer = issuer
        self._clock = clock
        self._cache: dict[bytes, _CachedPrincipal] = {}

    async def authenticate(self, token: str) -> Principal:
        """Return the principal of a token; a valid token that no rule admits raises `Forbidden`."""
        digest, now = sha256(token.encode("utf-8", "surrogatepass")).digest(), self._clock.now() / 1000
        cached = self._cache.get(digest)
        if cached is None or now >= cached.expires_at:
            claims = await self._claims(token)
            principal = principal_from_claims(self._settings, claims)
            if principal is None:
                raise Forbidden("your token is valid, but no rule admits you: ask the operator for access")
            token_end = claims["exp"] + CLOCK_LEEWAY_SECONDS
            principal = replace(principal, expires_at=Millis(int(token_end * 1000)))
            cached = _CachedPrincipal(principal, min(now + TOKEN_CACHE_SECONDS, token_end))
            if len(self._cache) >= MAX_CACHED_TOKENS:
                self._cache.clear()
            self._cache[digest] = cached
        return cached.principal

    async def _claims(self, token: str) -> dict[str, Any]:
        """Return the claims of a token; for an unknown signing key, fetch the keys of the issuer once."""
        if len(token) > MAX_TOKEN_CHARS or token.count(".") != 2:
            raise _token_refused("it is malformed")
        keys = await self._issuer.keys()
        try:
            try:
                return self._decode(token, keys)
            except _UnknownSigningKey:
                newer = await self._issuer.keys(other_than=keys)
                if newer is keys:
                    raise
                return self._decode(token, newer)
        except _UnknownSigningKey as exc:
            raise _token_refused("it was signed with a key that its issuer does not have") from exc

    def _decode(self, token: str, keys: "KeySet") -> dict[str, Any]:
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
            raise _token_refused("its signature or a claim is wrong") from exc
        return claims


class _UnknownSigningKey(Exception):
    """The token was signed with a key that is not in the key set."""


def _token_refused(why: str) -> Unauthenticated:
    return Unauthenticated(f"this token is not valid: {why}")
