"""Tickets for streams: a browser cannot send a key with an `EventSource` or a `WebSocket`, but a query parameter.

A ticket opens one path, for the principal that asked for it, until it expires. An open stream then depends on its
principal alone: it ends when its key is revoked or its token expires.
"""

from typing import Final

import msgspec

from holdfast.control.api_keys import KEY_ID_PREFIX, TOKEN_PREFIX, CachedKeyAuthenticator, hash_secret, new_secret
from holdfast.control.errors import Unauthenticated
from holdfast.control.principal import LOCAL_PRINCIPAL, Principal
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import ApiKeyId
from holdfast.domain.instant import Instant, instant, millis
from holdfast.domain.space import Ticket
from holdfast.ports.runtime import Clock
from holdfast.ports.spaces import Tickets

TICKET_LIFETIME_MS: Final = 10 * 60 * 1000
_TICKET_PREFIX: Final = f"{TOKEN_PREFIX}ticket_"


class MadeTicket(msgspec.Struct, frozen=True, kw_only=True):
    """A new ticket, which is shown only once."""

    ticket: str
    path: str
    expires_at: Instant


class TicketHolder(msgspec.Struct, frozen=True, kw_only=True):
    """The principal that a valid ticket stands for."""

    api_key_id: ApiKeyId | None
    principal: Principal


class TicketControl:
    """Creates tickets for a principal."""

    def __init__(self, tickets: Tickets, clock: Clock, *, principal: Principal = LOCAL_PRINCIPAL) -> None:
        self._tickets = tickets
        self._clock = clock
        self.principal = principal

    async def create(self, path: str) -> MadeTicket:
        """Create a ticket for a path, which the caller has checked."""
        now, name = self._clock.now(), self.principal.name or ""
        end = min(now + TICKET_LIFETIME_MS, self.principal.expires_at or now + TICKET_LIFETIME_MS)
        ticket = Ticket(
            path=path,
            api_key_id=ApiKeyId(name) if name.startswith(KEY_ID_PREFIX) else None,
            principal=msgspec.to_builtins(self.principal),
            expires_at=instant(end),
        )
        secret = _TICKET_PREFIX + new_secret()
        await self._tickets.create(hash_secret(secret), ticket, now=instant(now))
        return MadeTicket(ticket=secret, path=path, expires_at=ticket.expires_at)


class TicketAuthenticator:
    """Finds the principals of tickets."""

    def __init__(self, tickets: Tickets, keys: CachedKeyAuthenticator, clock: Clock) -> None:
        self._tickets = tickets
        self._keys = keys
        self._clock = clock

    async def find_holder(self, secret: str, path: str) -> TicketHolder:
        """Return the holder of a ticket that opens `path` now, or raise `Unauthenticated`."""
        try:
            ticket = await self._tickets.find(hash_secret(secret))
        except NotFound as exc:
            raise invalid_ticket_error() from exc
        if ticket.path != path or self._clock.now() >= millis(ticket.expires_at):
            raise invalid_ticket_error()
        return TicketHolder(
            api_key_id=ticket.api_key_id, principal=msgspec.convert(ticket.principal, Principal, strict=True)
        )

    async def authenticate(self, holder: TicketHolder) -> Principal:
        """Return the principal of a holder, or raise `Unauthenticated` once its key or token is not valid any more."""
        if holder.api_key_id is not None:
            return await self._keys.authenticate_holder(holder.api_key_id)
        end = holder.principal.expires_at
        if end is None or self._clock.now() >= end:  # without an end: from before the first key existed
            raise invalid_ticket_error()
        return holder.principal


def invalid_ticket_error() -> Unauthenticated:
    """Return the error of an invalid ticket; it does not tell which of the reasons applies."""
    return Unauthenticated(
        "this ticket is not valid: it is wrong, for another path, has expired, or its key was revoked; "
        "ask for another with `POST /api/tickets`"
    )
