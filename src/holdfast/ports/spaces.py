"""Ports of a space: the space itself, its API keys and tickets, its grants, and its notifications."""

from typing import Protocol

from holdfast.domain.content import Json
from holdfast.domain.ids import ApiKeyId, GrantId, SpaceId
from holdfast.domain.instant import Instant
from holdfast.domain.notification import Notification
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.permission import Grant
from holdfast.domain.space import ApiKey, NewApiKey, Space, SpacePatch, StoredApiKey, Ticket
from holdfast.domain.space_budget import NewSpaceBudget, SpaceBudget
from holdfast.domain.usage import UsageGroup, UsageTotal


class Spaces(Protocol):
    """The spaces (tenants) of a store. Every other port takes the space as an argument."""

    async def create(self, space: SpaceId, *, name: str, metadata: dict[str, Json] | None = None) -> Space:
        """Create a space under a client-chosen id; an id already used is refused (`IdTaken`)."""

    async def get(self, space: SpaceId) -> Space:
        """Return the space, or raise `NotFound`."""

    async def page(self, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None) -> Page[Space]:
        """Return spaces, oldest first."""

    async def update(self, space: SpaceId, patch: SpacePatch) -> Space:
        """Change only the fields that `patch` sets."""

    async def delete(self, space: SpaceId) -> None:
        """Delete a space with everything in it.

        A space with an active run, or with a run whose worker is still stopping, is refused (`RunActive`, which names
        the run).
        """


class ApiKeys(Protocol):
    """API keys and the spaces they give access to."""

    async def create(self, spaces: list[SpaceId], new: NewApiKey) -> ApiKey:
        """Store a key bound to `spaces`, or to every space; a secret already stored is refused (`IdTaken`)."""

    async def find(self, key: ApiKeyId) -> StoredApiKey:
        """Return a key with the hash of its secret, revoked or not, or raise `NotFound`."""

    async def any(self) -> bool:
        """Return whether any key exists, revoked or not."""

    async def all(self) -> list[ApiKey]:
        """Return all keys, oldest first, including revoked keys."""

    async def of_space(self, space: SpaceId) -> list[ApiKey]:
        """Return the keys bound to a space, oldest first, including revoked keys; keys for every space are left out."""

    async def revoke(self, key: ApiKeyId) -> ApiKey:
        """Revoke a key; revoking it again changes nothing."""


class Grants(Protocol):
    """Rules that people granted to agents of a space. `Interrupts.respond` adds them."""

    async def page(self, space: SpaceId, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None) -> Page[Grant]:
        """Return grants, newest first, including revoked ones."""

    async def in_force(self, space: SpaceId) -> dict[str, list[str]]:
        """Return the rules that are not revoked, by agent, oldest first."""

    async def revoke(self, space: SpaceId, grant: GrantId, *, by: str | None = None) -> Grant:
        """Revoke a grant; revoking it again changes nothing. The same rule may be granted anew."""


class Tickets(Protocol):
    """Tickets for streams, by the hash of their secret."""

    async def create(self, secret_hash: bytes, ticket: Ticket, *, now: Instant) -> None:
        """Store a ticket, and delete those that expired before `now`."""

    async def find(self, secret_hash: bytes) -> Ticket:
        """Return a ticket, which may have expired, or raise `NotFound`."""


class Notifications(Protocol):
    """The notifications of a space."""

    async def dispatch(self, *, limit: int = 1000) -> list[SpaceId]:
        """Number the notifications in the outbox and return the spaces that have new ones.

        A reader that has seen number N never finds a new one below N, however many processes write and dispatch.
        """

    async def after(self, space: SpaceId, number: int = 0, *, limit: int = DEFAULT_PAGE_SIZE) -> list[Notification]:
        """Return notifications with a number above `number`, in order."""

    async def latest(
        self, space: SpaceId, *, limit: int = DEFAULT_PAGE_SIZE, before: int | None = None
    ) -> list[Notification]:
        """Return the latest notifications, or the latest before number `before`, newest first."""

    async def unread(self, space: SpaceId) -> int:
        """Return the number of unread notifications."""

    async def mark_read(self, space: SpaceId, *, through: int | None = None, number: int | None = None) -> int:
        """Mark one notification as read, or all up to `through`; return how many were unread."""


class UsageLedger(Protocol):
    """Usage of the model calls of a space, by day, agent, model and author.

    A call is counted in the transaction that settles it, once; failed and abandoned calls count, as they are charged.
    """

    async def totals(self, space: SpaceId, *, group_by: UsageGroup, first_day: int, last_day: int) -> list[UsageTotal]:
        """Return the usage of the days from `first_day` through `last_day` by group, in no order."""


class SpaceBudgets(Protocol):
    """The budget of a space for each day, week or month; the last of the budgets that a run spends from.

    - A model call of a run that was claimed since the budget was set starts only while something of it is left
      (`BudgetExceeded`). Concurrent calls may overshoot it, by at most one call for each running run.
    - At 80 % and at 100 % the space gets a notification, each once per period, also if a budget is set lower.
    """

    async def get(self, space: SpaceId) -> SpaceBudget:
        """Return the budget of `space` and what is spent of it, or raise `NotFound` if it has none."""

    async def put(self, space: SpaceId, budget: NewSpaceBudget) -> SpaceBudget:
        """Set the budget of `space`; what was spent in the period before that counts too."""

    async def delete(self, space: SpaceId) -> None:
        """Remove the budget of `space`, or raise `NotFound` if it has none."""
