"""Tokens of an issuer: checked, and believed for a while."""

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.api.auth.oidc.admissions import OidcSettings, asker_with
from holdfast.api.auth.oidc.issuer import Issuer
from holdfast.control.keys.asker import Asker
from holdfast.control.keys.errors import Forbidden, Unauthenticated
from holdfast.ports.runtime import Clock

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

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
LEEWAY: Final = 30
"""Seconds by which clocks may disagree."""
MEMORY: Final = 60
"""Seconds for which a token is believed that was checked, unless it expires before."""
LONGEST: Final = 16 * 1024
MOST: Final = 4096


class _Known(NamedTuple):
    asker: Asker
    until: float


class Tokens:
    """The people of an issuer."""

    def __init__(self, settings: OidcSettings, issuer: Issuer, clock: Clock) -> None:
        self._settings = settings
        self._issuer = issuer
        self._clock = clock
        self._known: dict[bytes, _Known] = {}

    async def asker(self, token: str) -> Asker:
        """Return who comes with a token; one that nobody is admitted with raises `Forbidden`."""
        digest, now = sha256(token.encode("utf-8", "surrogatepass")).digest(), self._clock.now() / 1000
        known = self._known.get(digest)
        if known is None or now >= known.until:
            known = await self._check(token, now)
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[digest] = known
        return known.asker

    async def _check(self, token: str, now: float) -> _Known:
        claims = await self._claims(token)
        asker = asker_with(self._settings, claims)
        if asker is None:
            raise Forbidden("your token holds, but nothing here is for you: ask to be admitted")
        return _Known(asker, min(now + MEMORY, claims["exp"] + LEEWAY))

    async def _claims(self, token: str) -> dict[str, Any]:
        """Return what a token says, if the issuer says it; keys that were exchanged are asked for once."""
        if len(token) > LONGEST or token.count(".") != 2:
            raise _refused("it is no token")
        keys = await self._issuer.keys()
        try:
            return self._read(token, keys)
        except _KeyUnknown as exc:
            newer = await self._issuer.keys(other_than=keys)
            if newer is keys:
                raise _refused("it was signed with a key that its issuer does not have") from exc
        try:
            return self._read(token, newer)
        except _KeyUnknown as exc:
            raise _refused("it was signed with a key that its issuer does not have") from exc

    def _read(self, token: str, keys: "KeySet") -> dict[str, Any]:
        from joserfc import jwt
        from joserfc.errors import ExpiredTokenError, InvalidKeyIdError, JoseError

        registry = jwt.JWTClaimsRegistry(
            now=lambda: self._clock.now() // 1000,
            leeway=LEEWAY,
            iss={"essential": True, "value": self._settings.issuer},
            aud={"essential": True, "value": self._settings.audience},
            exp={"essential": True},
            sub={"essential": True},
        )
        try:
            claims = jwt.decode(token, keys, algorithms=ALGORITHMS).claims
            registry.validate(claims)
        except InvalidKeyIdError as exc:
            raise _KeyUnknown from exc
        except ExpiredTokenError as exc:
            raise _refused("it has expired") from exc
        except (JoseError, ValueError) as exc:
            raise _refused("it does not hold") from exc
        return claims


class _KeyUnknown(Exception):
    """The token was signed with a key that is not among those that are known."""


def _refused(why: str) -> Unauthenticated:
    return Unauthenticated(f"this token opens nothing: {why}")
