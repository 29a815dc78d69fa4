"""What a client does over a socket: it follows tasks and sessions, and offers methods. All of it is in one space."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from holdfast.control.chat.sessions import SessionControl
from holdfast.control.feeds.feeds import Feeds
from holdfast.control.feeds.follower import Follower
from holdfast.control.live.session import FollowedSession
from holdfast.control.remote_methods.client import Client
from holdfast.control.remote_methods.method import Method
from holdfast.control.remote_methods.remote_methods import RemoteMethods
from holdfast.control.remote_methods.telling import Telling
from holdfast.control.task_contract.errors import TaskNotFound
from holdfast.control.task_contract.ids import run_id_of
from holdfast.domain.errors import NotFound
from holdfast.domain.ids import RunId, SpaceId
from holdfast.ports.runs import Runs


class LiveControl:
    """What can be done over a socket."""

    def __init__(
        self, *, space: SpaceId, feeds: Feeds, runs: Runs, sessions: SessionControl, methods: RemoteMethods
    ) -> None:
        self._space = space
        self._feeds = feeds
        self._runs = runs
        self._sessions = sessions
        self._methods = methods

    async def pulse(self) -> Follower:
        """Follow the space: it hints at new runs, shows signs of life, and tells when the server stops."""
        return await self._feeds.space(self._space)

    async def task(self, name: str, *, after: int) -> Follower:
        """Follow the log of a task after a number."""
        try:
            return await self._feeds.run(self._space, run_id_of(name), after=after)
        except NotFound as exc:
            raise TaskNotFound(f"there is no task `{name}`", id=name) from exc

    async def run(self, run: RunId, *, after: int) -> Follower:
        """Follow the log of a run of a session after a number."""
        return await self._feeds.run(self._space, run, after=after)

    async def session(self, name: str) -> FollowedSession:
        """Return a session to be followed."""
        thread = await self._sessions.thread(name)
        return FollowedSession(thread.id, space=self._space, runs=self._runs)

    def connected(self, tell: Callable[[Telling], None]) -> AbstractContextManager[Client]:
        """Have a client while the block runs; `tell` has something sent to it."""
        return self._methods.connected(self._space, tell=tell)

    def offer(self, client: Client, methods: Sequence[Method], *, id: str | None) -> None:
        """Let a client offer methods, in place of all that it offered before."""
        self._methods.offer(client, methods, id=id)
