"""`holdfast.asgi`: the API of a workspace as an ASGI app, to mount into FastAPI, Starlette or Litestar.

    agents = holdfast.asgi("workspace")
    app = FastAPI(lifespan=agents.lifespan)
    app.mount("/agents", agents)

The workspace is open while the lifespan of the outer app runs: frameworks do not run those of mounted apps.
"""

import ipaddress
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from holdfast.api.asgi import AsgiApp, AsgiScope, Receive, Send
from holdfast.api.compression import CompressionMiddleware
from holdfast.api.errors import encode_error, headers_of, status_of
from holdfast.api.middleware import LOOPBACK_HOSTS, HostOriginMiddleware
from holdfast.bootstrap.api_app import NoKeys, open_api
from holdfast.bootstrap.embedded import Agent, Holdfast, create_agents_folder
from holdfast.bootstrap.server_options import check_host_name, check_origin
from holdfast.bootstrap.workspace import OpenWorkspace, Options, open_workspace
from holdfast.control.errors import Unauthenticated
from holdfast.domain.errors import HoldfastError, StoreOwned, Unavailable
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.tools.tool import Tool

_SCOPE_KEYS: Final = frozenset(
    {"type", "asgi", "http_version", "method", "scheme", "query_string", "headers", "client", "server", "subprotocols"}
    | {"extensions"}
)
"""The keys of a scope that ASGI defines; a framework adds its own."""


class AsgiWorkspace:
    """An ASGI app of a workspace; `holdfast.asgi` creates one."""

    def __init__(
        self,
        workspace: str | Path,
        *,
        agents: Sequence[Agent] = (),
        tools: Sequence[Tool] = (),
        space: str = DEFAULT_SPACE,
        database: str | Path | None = None,
        workers: int | None = None,
        allow_hosts: Sequence[str] = (),
        cors_origins: Sequence[str] = (),
        require_key: bool | None = None,
    ) -> None:
        self._workspace = workspace
        self._database = database
        self._options = Options(workers=workers, tools=tools, agents=agents)
        self._space = space
        self._hosts = LOOPBACK_HOSTS | set(map(check_host_name, allow_hosts))
        self._origins = [check_origin(origin) for origin in cors_origins]
        self._require_key = require_key
        self._app: AsgiApp | None = None
        self._opened: OpenWorkspace | None = None
        self._client: Holdfast | None = None

    @property
    def client(self) -> Holdfast:
        """The Python API of the workspace, for the code of the outer app."""
        if self._client is None:
            raise _not_open()
        return self._client

    @asynccontextmanager
    async def lifespan(self, app: Any = None) -> AsyncIterator[None]:
        """Open the workspace while the outer app runs; pass this to it as its `lifespan`."""
        if self._options.agents:
            create_agents_folder(Path(self._workspace))
        async with AsyncExitStack() as stack:
            try:
                opening = open_workspace(self._workspace, database=self._database, options=self._options)
                opened = await stack.enter_async_context(opening)
            except StoreOwned as exc:
                remedy = "start the app with one worker process, or pass a PostgreSQL `database`"
                raise StoreOwned(f"another process has this workspace open on SQLite: {remedy}") from exc
            trusted = await stack.enter_async_context(open_api(opened, keys=NoKeys()))
            self._client = await stack.enter_async_context(Holdfast(trusted.app, space=self._space))
            api = trusted
            if self._require_key is not False:
                api = await stack.enter_async_context(open_api(opened, require_key=self._require_key is True))
            self._app = HostOriginMiddleware(
                CompressionMiddleware(api.app), hosts=self._hosts, origins=self._origins, meters=opened.meters
            )
            self._opened = opened
            try:
                yield
            finally:
                self._app = self._opened = self._client = None
                api.use_cases.streams.close()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Serve a request, or run the lifespan of an app that is not mounted."""
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
            return
        try:
            if self._app is None or self._opened is None:
                raise _not_open()
            if self._require_key is None and not _is_loopback(scope) and not await self._opened.store.api_keys.any():
                remedy = "create a key with `holdfast key create NAME`, or pass `require_key=False` if your app decides"
                raise Unauthenticated(f"this address is reachable from outside, and there are no keys: {remedy}")
        except HoldfastError as error:
            await _send_error(error, scope, send)
        else:
            await self._app(_unmounted(scope), receive, send)

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            async with self.lifespan():
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except HoldfastError as error:
            await send({"type": "lifespan.startup.failed", "message": f"{error.message} [{error.code}]"})
        else:
            await send({"type": "lifespan.shutdown.complete"})


def asgi(
    workspace: str | Path,
    *,
    agents: Sequence[Agent] = (),
    tools: Sequence[Tool] = (),
    space: str = DEFAULT_SPACE,
    database: str | Path | None = None,
    workers: int | None = None,
    allow_hosts: Sequence[str] = (),
    cors_origins: Sequence[str] = (),
    require_key: bool | None = None,
) -> AsgiWorkspace:
    """Return the API of a workspace as an ASGI app, to mount or to serve alone.

    `allow_hosts` are the host names of the app beside those of the loopback interface. As in `holdfast serve`, a key is
    needed beyond this machine, and everywhere once one exists; `require_key=True` needs one always, and
    `require_key=False` never, for an app that authenticates its users itself. `space` is that of the `client`.
    """
    return AsgiWorkspace(
        workspace,
        agents=agents,
        tools=tools,
        space=space,
        database=database,
        workers=workers,
        allow_hosts=allow_hosts,
        cors_origins=cors_origins,
        require_key=require_key,
    )


def _not_open() -> Unavailable:
    remedy = "pass `lifespan=agents.lifespan` to the app that it is mounted in"
    return Unavailable(f"the workspace is not open: {remedy}")


def _is_loopback(scope: AsgiScope) -> bool:
    """Return whether the request arrived at the loopback interface."""
    host = (scope.get("server") or ("",))[0]
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _unmounted(scope: AsgiScope) -> AsgiScope:
    """Return the scope of a request without what the outer framework added, its path below that of the mount."""
    root, path = scope.get("root_path", ""), scope["path"]
    below = path.removeprefix(root) if root and path.startswith(root) else path
    raw = scope.get("raw_path") or path.encode()
    raw_below = raw.removeprefix(root.encode()) if root else raw
    kept = {key: value for key, value in scope.items() if key in _SCOPE_KEYS}
    return {**kept, "path": below or "/", "raw_path": raw_below or b"/", "root_path": "", "state": {}}


async def _send_error(error: HoldfastError, scope: AsgiScope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": error.message[:120]})
        return
    own = [(name.lower().encode(), value.encode()) for name, value in headers_of(error).items()]
    headers = [(b"content-type", b"application/json"), *own]
    await send({"type": "http.response.start", "status": status_of(error), "headers": headers})
    await send({"type": "http.response.body", "body": encode_error(error)})
