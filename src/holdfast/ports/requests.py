"""Ports of requests with an idempotency key."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from holdfast.domain.idempotency import KeyedRequest, KeyedResult
from holdfast.domain.ids import SpaceId
from holdfast.ports.artifacts import Artifacts, Files
from holdfast.ports.memory import Memories, MemoryArchive
from holdfast.ports.queue import Inbox, Interrupts
from holdfast.ports.reminders import Reminders
from holdfast.ports.runs import Plans, Threads
from holdfast.ports.schedules import Schedules
from holdfast.ports.skills import Skills
from holdfast.ports.spaces import Spaces
from holdfast.ports.workspace import AgentVersions

T = TypeVar("T")


class RequestPorts(Protocol):
    """The ports that a keyed request may write through, all in its transaction."""

    @property
    def spaces(self) -> Spaces:
        """The spaces."""

    @property
    def threads(self) -> Threads:
        """The threads."""

    @property
    def artifacts(self) -> Artifacts:
        """The artifacts."""

    @property
    def files(self) -> Files:
        """The files."""

    @property
    def memories(self) -> Memories:
        """The memories."""

    @property
    def memory_archive(self) -> MemoryArchive:
        """The export and import of memories."""

    @property
    def plans(self) -> Plans:
        """The plans."""

    @property
    def inbox(self) -> Inbox:
        """The inboxes."""

    @property
    def schedules(self) -> Schedules:
        """The schedules."""

    @property
    def reminders(self) -> Reminders:
        """The reminders."""

    @property
    def skills(self) -> Skills:
        """The custom skills."""

    @property
    def agent_versions(self) -> AgentVersions:
        """The versions of agents."""

    @property
    def interrupts(self) -> Interrupts:
        """The interrupts."""


class KeyedRequests(Protocol):
    """Requests with an idempotency key, and their results, until their space is deleted."""

    async def find(self, space: SpaceId, request: KeyedRequest | None, *, kind: type[T]) -> T | None:
        """Return the result of an earlier request with the same key, or `None`; without a request always `None`.

        An earlier request with another digest is refused (`IdempotencyMismatch`).
        """

    async def once(
        self,
        space: SpaceId,
        request: KeyedRequest | None,
        *,
        kind: type[T],
        create: Callable[[RequestPorts], Awaitable[T]],
    ) -> KeyedResult[T]:
        """Call `create` in a transaction that also stores its result, or return the result of an earlier request.

        - Of several requests with the same key one calls `create`, and all return its result, also concurrently.
        - `create` may be called again if its transaction is repeated, and must await nothing but the ports it gets.
        - If `create` fails, nothing is stored, and the key can be used again.
        - An earlier request with another digest is refused (`IdempotencyMismatch`).
        - Without a request, `create` is called.
        """
