"""Server options and their validation before anything is opened."""

import ipaddress
import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from holdfast.api.auth.middleware import Authenticator
from holdfast.bootstrap.store import SystemClock
from holdfast.domain.errors import Invalid
from holdfast.domain.packages import install_command
from holdfast.domain.worker import DEFAULT_POOL
from holdfast.workspace.json_files import decode_json

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 5050
WILDCARD_ADDRESSES: Final = frozenset({"0.0.0.0", "::"})
"""Addresses that listen on all interfaces."""
_HOST_NAME_PATTERN: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `holdfast serve`."""

    workspace: Path
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    """0 chooses a free port."""
    database: str | None = None
    bus: str | None = None
    """The URL of a NATS server that carries hints and events between processes."""
    workers: int | None = None
    pools: Sequence[str] = (DEFAULT_POOL,)
    """The pools that this process claims runs from."""
    cors_origins: Sequence[str] = ()
    allowed_hosts: Sequence[str] = ()
    """Host names under which clients reach the server."""
    rate_limit: str | None = None
    """Request rate of keys without their own limit."""
    queue_depth: int | None = None
    """Maximum number of queued runs per space."""
    oidc: Path | None = None
    """The file with the OIDC issuer and the rights of its tokens."""
    version: str = ""


def is_local(host: str) -> bool:
    """Return whether `host`, which must be an IP address or `localhost`, is a loopback address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError as exc:
        raise Invalid(f"`{host}` is not an IP address: write it like `127.0.0.1` or `0.0.0.0`", field="host") from exc


def check_host_name(name: str) -> str:
    """Return `name` as in a `Host` header, if it is a valid host name."""
    if _HOST_NAME_PATTERN.fullmatch(name.lower()) is None:
        raise Invalid(f"`{name}` is not a valid host name: write it like `agents.example.org`", field="allow_host")
    return name.lower()


def check_origin(origin: str) -> str:
    """Return `origin` if it is a valid `Origin` header."""
    parts = urlsplit(origin)
    if parts.scheme not in ("http", "https") or not parts.hostname or origin != f"{parts.scheme}://{parts.netloc}":
        raise Invalid(f"`{origin}` is not an origin: write it like `http://localhost:3000`", field="cors_origin")
    return origin


def check_database(database: str | None) -> None:
    """Raise unless `database` is a supported URL or path. Messages do not repeat it: it may contain a password."""
    scheme, is_url, _ = (database or "holdfast.db").partition("://")
    if database == "" or (is_url and scheme not in ("postgresql", "postgres")):
        remedy = "give a `postgresql://` URL or the path of a SQLite file"
        raise Invalid(f"`{scheme if database else ''}` is not a supported database: {remedy}", field="database")
    if is_url and find_spec("asyncpg") is None:
        raise Invalid(f"PostgreSQL needs a package: run `{install_command('postgres')}`", field="database")
    try:
        is_valid = not is_url or urlsplit(str(database)).port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise Invalid("the URL of the database cannot be parsed: its host or port is invalid", field="database")


def check_bus(bus: str | None, *, database: str | None) -> None:
    """Raise unless `bus` is the URL of a NATS server that several processes can use."""
    if bus is None:
        return
    if find_spec("nats") is None:
        raise Invalid(f"the bus needs a package: run `{install_command('nats')}`", field="bus")
    if database is None or "://" not in database:
        raise Invalid("a bus connects processes that share a database: give a `postgresql://` URL too", field="bus")
    from holdfast.bus.nats import split_url

    split_url(bus)


def read_oidc_authenticator(file: Path) -> Authenticator:
    """Return the authenticator for tokens of the OIDC issuer in `file`."""
    from holdfast.api.auth.oidc import Issuer, OidcAuthenticator, OidcSettings

    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as exc:
        raise Invalid(f"`{file}` cannot be read: {exc}", field="oidc") from exc
    settings = decode_json(text, OidcSettings, file=str(file))
    return OidcAuthenticator(settings, Issuer(settings.issuer), SystemClock())
