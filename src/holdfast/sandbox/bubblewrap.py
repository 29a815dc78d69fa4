"""`Sandbox` by bubblewrap: namespaces of its own for users, processes, mounts, network and all else.

A command finds the folder it works in, what a system keeps for all, and nothing more: no settings, no database, no
other workspace, no socket, no process but its own. It has no rights, not even where Holdfast runs as root.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from holdfast.ports.sandbox import MIB, Command, Processes, ProcessResult, SandboxCommand
from holdfast.sandbox.limited import limited
from holdfast.sandbox.masks import masks
from holdfast.sandbox.sealed import DEVICES, sealed
from holdfast.sandbox.surroundings import environment
from holdfast.sandbox.system_calls import system_call_filter

TEMPORARY: Final = 512 * MIB
"""Bytes of each of the two folders for temporary files, which are memory: `/tmp` and `/dev/shm`."""

# As root, bubblewrap without a user namespace of its own can mount anything: it must never be left out.
_ALONE: Final = (
    *("--unshare-all", "--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000", "--hostname", "sandbox"),
    *("--cap-drop", "ALL", "--new-session", "--die-with-parent", "--clearenv"),
)
_FOLDERS: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_FILES: Final = (
    *("alternatives", "ca-certificates", "ca-certificates.conf", "ld.so.cache", "ld.so.conf", "ld.so.conf.d"),
    *("localtime", "mime.types", "nsswitch.conf", "protocols", "services", "ssl/certs", "ssl/openssl.cnf", "timezone"),
    *("pki/ca-trust/extracted", "pki/tls/cert.pem", "pki/tls/certs", "pki/tls/openssl.cnf"),
)
"""What of `/etc` is no secret of anyone, and programs do not work without."""
_NETWORK_FILES: Final = ("hosts", "resolv.conf")


class Bubblewrap:
    """Runs commands in sandboxes, one for each."""

    def __init__(self, processes: Processes, *, program: str, readable: tuple[Path, ...] = ()) -> None:
        self._processes = processes
        self._program = program
        self._readable = readable
        self._filter = system_call_filter()

    async def run(self, command: SandboxCommand, *, on_output: Callable[[bytes], None] | None = None) -> ProcessResult:
        """Run a command to its end."""
        return await self._processes.run(self._outside(command), on_output=on_output)

    def _outside(self, command: SandboxCommand) -> Command:
        """Return the command that makes the sandbox and runs the other in it."""
        inside = replace(command, readable=[*self._readable, *command.readable])
        limits = command.limits
        return Command(
            argv=[
                self._program,
                *arguments(inside),
                "--",
                *limited(command.argv, limits, processes=limits.processes),
            ],
            folder=Path("/"),
            input=command.input,
            live_errors=command.live_errors,
            timeout=command.timeout,
            output_limit=command.output_limit,
            most_processes=limits.processes,
            sealed=DEVICES,
            filter=self._filter,
        )


def arguments(command: SandboxCommand) -> list[str]:
    """Return what bubblewrap is told about a command."""
    return [
        *_ALONE,
        *(["--share-net"] if command.network else []),
        *_system(network=command.network),
        *("--proc", "/proc", "--dev", "/dev"),
        *(word for path in ("/tmp", "/dev/shm") for word in ("--size", str(TEMPORARY), "--tmpfs", path)),
        *(word for path in command.readable for word in ("--ro-bind-try", str(path), str(path))),
        *masks(command),
        *sealed(),
        *("--chdir", str(command.folder)),
        *(
            word
            for name, value in environment(os.environ, command.environment).items()
            for word in ("--setenv", name, value)
        ),
    ]


def _system(*, network: bool) -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for name in _FOLDERS:
        path = f"/{name}"
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)
    for name in (*_FILES, *(_NETWORK_FILES if network else ())):
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")
