"""The address of the server that runs a workspace, in `.holdfast/server.json`, so that the command line finds it.

The file exists while the server runs. One that a killed server left behind is recognised by its process id.
"""

import ipaddress
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

_FILE: Final = Path(".holdfast", "server.json")
_OWNER_ONLY: Final = 0o600
_WILDCARD_HOSTS: Final = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}


class ServerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server listens, and its process."""

    url: str
    pid: int


class FoundServer(NamedTuple):
    """The address of a running server, and the file that names it."""

    address: ServerAddress
    file: Path


@contextmanager
def published_address(workspace: Path, url: str) -> Iterator[None]:
    """Publish the address of this process while the block runs; a folder that cannot be written is left alone."""
    host = url.partition("://")[2].rpartition(":")[0]
    address = ServerAddress(url=url.replace(host, _WILDCARD_HOSTS.get(host, host), 1), pid=os.getpid())
    file = workspace / _FILE
    new = file.with_suffix(f".{address.pid}")
    with suppress(OSError):
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _OWNER_ONLY), "wb") as written:
            written.write(msgspec.json.encode(address) + b"\n")
        new.replace(file)
    try:
        yield
    finally:
        with suppress(OSError, msgspec.DecodeError):  # another server may have replaced it
            if msgspec.json.decode(file.read_bytes(), type=ServerAddress).pid == address.pid:
                file.unlink()


def read_address(workspace: Path) -> ServerAddress | None:
    """Return the address of the running server of a workspace, if there is one.

    Only addresses of this machine count: a folder from elsewhere must not lead a client, and its key, to other hosts.
    """
    try:
        address = msgspec.json.decode((workspace / _FILE).read_bytes(), type=ServerAddress)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return address if _is_local(address.url) and _is_alive(address.pid) else None


def find_server_address(folder: Path) -> FoundServer | None:
    """Return the running server of the nearest workspace that contains `folder`."""
    for workspace in (folder, *folder.parents):
        if (address := read_address(workspace)) is not None:
            return FoundServer(address, workspace / _FILE)
    return None


def _is_local(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError, ValueError):
        return False
    return pid > 0
