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
from holdfast.workspace.json_files import decode_json

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 5050
WILDCARD_ADDRESSES: Final = frozenset({"0.0.0.0", "::"})
"""Addresses that stand for all of this machine."""
_HOST_NAME_PATTERN: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a server serves, and where."""

    workspace: Path
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    """0 takes one that is free."""
    database: str | None = None
    workers: int | None = None
    cors_origins: Sequence[str] = ()
    allowed_hosts: Sequence[str] = ()
    """Names under which others reach it."""
    rate_limit: str | None = None
    """How often a key may ask that does not say so itself."""
    queue_depth: int | None = None
    """How many runs of each space may wait for a worker."""
    oidc: Path | None = None
    """The file that says whose tokens are accepted, and what they are good for."""
    version: str = ""


def is_local(host: str) -> bool:
    """Say whether only this machine can reach `host`, which must be an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError as exc:
        raise Invalid(f"`{host}` is no address: write it like `127.0.0.1` or `0.0.0.0`", field="host") from exc


def check_host_name(name: str) -> str:
    """Return a name as `Host` has it, if it can be one."""
    if _HOST_NAME_PATTERN.fullmatch(name.lower()) is None:
        raise Invalid(f"`{name}` is not a valid host name: write it like `agents.example.org`", field="allow_host")
    return name.lower()


def check_origin(origin: str) -> str:
    """Return `origin` if a browser may send it so."""
    parts = urlsplit(origin)
    if parts.scheme not in ("http", "https") or not parts.hostname or origin != f"{parts.scheme}://{parts.netloc}":
        raise Invalid(f"`{origin}` is no origin: write it like `http://localhost:3000`", field="cors_origin")
    return origin


def check_database(database: str | None) -> None:
    """Raise unless `database` reads as one that we can open. It is not repeated: it may hold a password."""
    scheme, is_url, _ = (database or "holdfast.db").partition("://")
    if database == "" or (is_url and scheme not in ("postgresql", "postgres")):
        known = "a `postgresql://` URL or the path of a SQLite file"
        raise Invalid(
            f"`{scheme if database else ''}` is no database that Holdfast knows: give {known}", field="database"
        )
    if is_url and find_spec("asyncpg") is None:
        raise Invalid("PostgreSQL needs a package: run `pip install 'holdfast[postgres]'`", field="database")
    if is_url and not _is_valid_url(str(database)):
        raise Invalid("the URL of the database cannot be read: its host or its port is no such thing", field="database")


def _is_valid_url(url: str) -> bool:
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False


def read_oidc_authenticator(file: Path) -> Authenticator:
    """Return those who come with tokens of the issuer that a file names."""
    from holdfast.api.auth.oidc import Issuer, OidcAuthenticator, OidcSettings

    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as exc:
        raise Invalid(f"`{file}` cannot be read: {exc}", field="oidc") from exc
    settings = decode_json(text, OidcSettings, file=str(file))
    return OidcAuthenticator(settings, Issuer(settings.issuer), SystemClock())
