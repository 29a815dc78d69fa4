"""Who of an issuer's people may do what: the settings of `--oidc`."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from holdfast.control.keys.asker import Asker
from holdfast.domain.content import Json
from holdfast.domain.ids import SpaceId
from holdfast.domain.space import Scope

_SPACE: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
MOST_NAME: Final = 200


class Admission(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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

    def fits(self, claims: Mapping[str, Any]) -> bool:
        """Say whether it is for somebody with these claims."""
        return self.claim is None or self.value in _texts(claims, self.claim)

    def spaces_of(self, claims: Mapping[str, Any]) -> tuple[SpaceId, ...]:
        """Return the spaces that somebody with these claims gets."""
        named = () if self.spaces_from is None else _texts(claims, self.spaces_from)
        return tuple(dict.fromkeys([*self.spaces, *(SpaceId(name) for name in named if _SPACE.fullmatch(name))]))


class OidcSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An issuer, and what its people may do: of several admissions the first that fits counts."""

    issuer: Annotated[str, Meta(min_length=1)]
    audience: Annotated[str, Meta(min_length=1)]
    """What tokens must be for."""
    admit: Annotated[list[Admission], Meta(min_length=1)]


def asker_with(settings: OidcSettings, claims: Mapping[str, Any]) -> Asker | None:
    """Return who comes with these claims; nobody if no admission is for them."""
    subject = claims.get("sub")
    if not isinstance(subject, str) or not subject.isprintable() or not 0 < len(subject) <= MOST_NAME:
        return None
    for admission in settings.admit:
        if admission.fits(claims):
            spaces = None if admission.every_space else admission.spaces_of(claims)
            if spaces == ():
                return None
            return Asker(name=f"oidc:{subject}", scope=admission.scope, space_ids=spaces)
    return None


def _texts(claims: Mapping[str, Any], path: str) -> list[str]:
    """Return the words of a claim, whether it is one or a list of them."""
    found: Json = claims.get(path)  # claims of some issuers are addresses, with dots
    if found is None:
        found = dict(claims)
        for step in path.split("."):
            found = found.get(step) if isinstance(found, dict) else None
    words = found if isinstance(found, list) else [found]
    return [word for word in words if isinstance(word, str)]
