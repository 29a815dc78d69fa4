"""`Sandbox` over bubblewrap: a command runs in its own user, process, mount and network namespaces.

A command sees its working folder and the public files of the system, and nothing else: no settings, database, other
workspace, socket or process of others. It has no privileges, even where Holdfast runs as root.

Hidden paths are covered by an empty mount, read-only ones are mounted read-only. Every parent of such a path is
mounted on itself, because a renamed parent would give the path a new name that no mount covers. To the kernel a
command runs as the server's user: as root it would own the devices and every setting in `/proc/sys`, so those are
read-only.
"""

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from stat import S_IROTH, S_ISREG
from typing import Final

from msgspec.structs import replace

from holdfast.ports.sandbox import MIB, Command, Processes, ProcessResult, SandboxCommand
from holdfast.sandbox.launch import command_environment, with_resource_limits
from holdfast.sandbox.seccomp import system_call_filter

TMPFS_BYTES: Final = 512 * MIB
"""Size limit of each in-memory folder: `/tmp` and `/dev/shm`."""

# `--unshare-user` must never be left out: as root, bubblewrap without its own user namespace can mount anything.
_ISOLATION_ARGUMENTS: Final = (
    *("--unshare-all", "--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000", "--hostname", "sandbox"),
    *("--cap-drop", "ALL", "--new-session", "--die-with-parent", "--clearenv"),
)
_SYSTEM_FOLDERS: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC_FILES: Final = (
    *("alternatives", "ca-certificates", "ca-certificates.conf", "ld.so.cache", "ld.so.conf", "ld.so.conf.d"),
    *("localtime", "mime.types", "nsswitch.conf", "protocols", "services", "ssl/certs", "ssl/openssl.cnf", "timezone"),
    *("pki/ca-trust/extracted", "pki/tls/cert.pem", "pki/tls/certs", "pki/tls/openssl.cnf"),
)
"""Files in `/etc` that contain no secrets and that programs need."""
_ETC_NETWORK_FILES: Final = ("hosts", "resolv.conf")


class BubblewrapSandbox:
    """Runs each command in its own sandbox."""

    def __init__(self, processes: Processes, *, program: str, readable: tuple[Path, ...] = ()) -> None:
        self._processes = processes
        self._program = program
        self._readable = readable
        self._filter = system_call_filter()

    async def run(self, command: SandboxCommand, *, on_output: Callable[[bytes], None] | None = None) -> ProcessResult:
        """Run a command to its end."""
        options = bubblewrap_arguments(replace(command, readable=[*self._readable, *command.readable]))
        max_processes = command.limits.processes
        limited = with_resource_limits(command.argv, command.limits, processes=max_processes)
        return await self._processes.run(
            Command(
                argv=[self._program, *options, "--", *limited],
                folder=Path("/"),
                input=command.input,
                stream_stderr=command.stream_stderr,
                timeout=command.timeout,
                output_limit=command.output_limit,
                max_processes=max_processes,
                read_only_devices=SHARED_DEVICES,
                seccomp_filter=self._filter,
            ),
            on_output=on_output,
        )


def bubblewrap_arguments(command: SandboxCommand) -> list[str]:
    """Return the options of bubblewrap for a command."""
    return [
        *_ISOLATION_ARGUMENTS,
        *(["--share-net"] if command.network else []),
        *_system_mounts(network=command.network),
        *("--proc", "/proc", "--dev", "/dev"),
        *(word for path in ("/tmp", "/dev/shm") for word in ("--size", str(TMPFS_BYTES), "--tmpfs", path)),
        *(word for path in command.readable for word in ("--ro-bind-try", str(path), str(path))),
        *root_mounts(command),
        *read_only_mounts(),
        *("--chdir", str(command.folder)),
        *(
            word
            for name, value in command_environment(os.environ, command.environment).items()
            for word in ("--setenv", name, value)
        ),
    ]


def _system_mounts(*, network: bool) -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for name in _SYSTEM_FOLDERS:
        path = f"/{name}"
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)
    for name in (*_ETC_FILES, *(_ETC_NETWORK_FILES if network else ())):
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")


def root_mounts(command: SandboxCommand) -> Iterator[str]:
    """Yield the options that mount the root of a command, with its hidden and read-only paths."""
    hidden, read_only = set(command.hidden), set(command.read_only)
    inside = {path for path in hidden | read_only if path.is_relative_to(command.root)}
    parents = {folder for path in inside for folder in path.parents if folder.is_relative_to(command.root)}
    # Parents first: a later mount covers earlier ones below it.
    for path in sorted({command.root, *parents, *hidden, *read_only}, key=lambda path: (len(path.parts), path)):
        if not hidden.isdisjoint(path.parents):
            continue
        if path not in hidden:
            protected = path in read_only or not read_only.isdisjoint(path.parents)
            yield from ("--ro-bind" if protected else "--bind", str(path), str(path))
        elif path.is_dir():
            yield from ("--tmpfs", str(path), "--remount-ro", str(path))
        else:
            yield from ("--ro-bind", "/dev/null", str(path))


SHARED_DEVICES: Final = tuple(Path("/dev", name) for name in ("null", "zero", "full", "random", "urandom", "tty"))
"""Devices of the host in a sandbox. The supervisor makes them read-only: bubblewrap would make them unusable."""
_READ_ONLY_MOUNTS: Final = ("/proc", "/dev", "/")
"""The last two are memory without a size limit, and files written there would be lost silently."""


def read_only_mounts() -> Iterator[str]:
    """Yield the last options of bubblewrap, which make the finished mounts read-only."""
    for path in _root_only_files() if os.geteuid() == 0 else ():
        yield from ("--ro-bind", "/dev/null", str(path))
    for name in _READ_ONLY_MOUNTS:
        yield from ("--remount-ro", name)


@cache
def _root_only_files() -> list[Path]:
    """Return the files in `/proc` about the whole machine that only root may read."""
    modes = {path: path.lstat().st_mode for path in Path("/proc").iterdir() if not path.name.isdigit()}
    return sorted(path for path, mode in modes.items() if S_ISREG(mode) and not mode & S_IROTH)
