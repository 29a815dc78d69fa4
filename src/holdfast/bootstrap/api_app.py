"""The HTTP API of an open workspace as an ASGI app: for `serve`, for `holdfast.open`, and for `holdfast.asgi`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import holdfast
from holdfast.api.app import create_app
from holdfast.api.asgi import AsgiApp
from holdfast.api.auth.middleware import ApiKeyAuthenticator, Authenticator, AuthMiddleware
from holdfast.api.auth.rate_limit import RequestRateLimiter
from holdfast.api.use_cases import UseCases
from holdfast.bootstrap.use_cases import PrincipalUseCases, make_live_streams
from holdfast.bootstrap.workspace import OpenWorkspace
from holdfast.control.principal import LOCAL_PRINCIPAL, Principal
from holdfast.domain.errors import Invalid


class ApiApp(NamedTuple):
    """The app, to run behind `HostOriginMiddleware`, the use cases of the local principal, and the keys."""

    app: AsgiApp
    use_cases: UseCases
    keys: ApiKeyAuthenticator


class NoKeys:
    """`ApiKeyAuthenticator` of a program that has the workspace open itself: it needs no key."""

    async def key_required(self) -> bool:
        """Return false."""
        return False

    async def authenticate(self, token: str) -> Principal:
        """Refuse any token."""
        raise Invalid("an embedded workspace takes no key")


@asynccontextmanager
async def open_api(
    workspace: OpenWorkspace,
    *,
    keys: ApiKeyAuthenticator | None = None,
    require_key: bool = False,
    oidc: Authenticator | None = None,
    rate_limiter: RequestRateLimiter | None = None,
    max_queued_runs: int | None = None,
) -> AsyncIterator[ApiApp]:
    """Yield the API of a workspace; `keys` replaces the authentication by the keys of the workspace."""
    async with make_live_streams(workspace) as streams:
        use_cases = PrincipalUseCases(
            workspace,
            streams,
            version=holdfast.__version__,
            default_agent=workspace.default_agent,
            max_queued_runs=max_queued_runs,
        )
        authenticator = keys or use_cases.authenticator
        auth = AuthMiddleware(
            use_cases.as_principal,
            authenticator,
            use_cases.ticket_authenticator,
            oidc=oidc,
            require_key=require_key,
            rate_limiter=rate_limiter,
        )
        local = use_cases.as_principal(LOCAL_PRINCIPAL)
        async with auth:
            yield ApiApp(app=create_app(local, auth=auth), use_cases=local, keys=authenticator)
