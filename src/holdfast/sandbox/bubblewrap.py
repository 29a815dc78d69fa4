"""`Sandbox` over bubblewrap: a command runs in its own user, process, mount and network namespaces.

A command sees its working folder and the public files of the system, and nothing else: no settings, database, other
workspace, socket or process of others. It has no privileges, even where Holdfast runs as root.

Its folders are mounted by handle before bubblewrap starts, with their masks (`private_mounts.py`): hidden paths are
covered by an empty mount, read-only ones are mounted read-only. Every parent of such a path is mounted on itself, so
that it cannot be moved: under a new name the rules would no longer find the path for the next command. To the kernel a
command runs as the server's user: as root it would own the devices and every setting in `/proc/sys`, so those are
read-only.
"""

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from stat import S_IROTH, S_ISREG
from typing import Final

from msgspec.structs import replace

from holdfast.ports.sandbox import MIB, Command, Processes, ProcessResult, SandboxCommand
from holdfast.sandbox.host_sockets import host_sockets
from holdfast.sandbox.launch import OPTIONS_FD, command_environment, with_resource_limits
from holdfast.sandbox.private_mounts import (
    HIDDEN,
    LINKED,
    PINNED,
    READ_ONLY,
    READABLE,
    WRITABLE,
    PrivateMount,
    staged_path,
    trees,
)
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

    def __init__(
        self, processes: Processes, *, program: str, readable: tuple[Path, ...] = (), workspace: Path | None = None
    ) -> None:
        self._processes = processes
        self._program = program
        self._readable = readable
        self._workspace = workspace
        self._filter = system_call_filter()

    async def run(self, command: SandboxCommand, *, on_output: Callable[[bytes], None] | None = None) -> ProcessResult:
        """Run a command to its end."""
        command = replace(command, readable=[*self._readable, *command.readable])
        sockets = await asyncio.to_thread(host_sockets, {command.root, *filter(None, [command.home])})
        if sockets:
            command = replace(command, hidden=[*command.hidden, *sockets], inodes={**command.inodes, **sockets})
        mounts = private_mounts(command, workspace=self._workspace)
        max_processes = command.limits.processes
        limited = with_resource_limits(command.argv, command.limits, processes=max_processes)
        return await self._processes.run(
            Command(
                argv=[self._program, "--args", str(OPTIONS_FD), "--", *limited],
                options=bubblewrap_arguments(command, mounts),
                private_mounts=[mount.encode() for mount in mounts],
                folder=Path("/"),
                input=command.input,
                on_stderr=command.on_stderr,
                timeout=command.timeout,
                output_limit=command.output_limit,
                max_processes=max_processes,
                read_only_devices=SHARED_DEVICES,
                seccomp_filter=self._filter,
            ),
            on_output=on_output,
        )


def bubblewrap_arguments(command: SandboxCommand, mounts: Sequence[PrivateMount]) -> list[str]:
    """Return the options of bubblewrap for a command with these private mounts."""
    return [
        *_ISOLATION_ARGUMENTS,
        *(["--share-net"] if command.network else []),
        *_system_mounts(network=command.network),
        *("--proc", "/proc", "--dev", "/dev"),
        *(word for path in ("/tmp", "/dev/shm") for word in ("--size", str(TMPFS_BYTES), "--tmpfs", path)),
        *(word for index, path in trees(mounts).items() for word in ("--bind-try", staged_path(index), path)),
        *_masks_elsewhere(command, mounts),
        *read_only_mounts(),
        *("--chdir", str(command.folder)),
        *(
            word
            for name, value in command_environment(os.environ, command).items()
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


def private_mounts(command: SandboxCommand, *, workspace: Path | None = None) -> list[PrivateMount]:
    """Return the folders of a command with their masks, parents first.

    Links in `readable` are followed, except in the workspace, where agents can make them.
    """
    hidden, read_only = set(command.hidden), set(command.read_only)
    folders = _outermost([command.root, *([] if command.home is None else [command.home])])
    kinds = dict.fromkeys(folders, WRITABLE)
    for path in _outermost(command.readable):
        if not _is_inside(path, folders) and not _is_inside(path, hidden):
            kinds[path] = READABLE if workspace is not None and path.is_relative_to(workspace) else LINKED
    masked = {path for path in hidden | read_only if _is_inside(path, kinds)}
    parents = {folder for path in masked for folder in path.parents if _is_inside(folder, folders)}
    kinds |= dict.fromkeys(parents - kinds.keys(), PINNED)
    kinds |= dict.fromkeys(masked & read_only, READ_ONLY) | dict.fromkeys(masked & hidden, HIDDEN)
    return [
        PrivateMount(kind, str(path), command.inodes.get(path, (0, 0)))
        for path, kind in sorted(kinds.items(), key=lambda item: (len(item[0].parts), item[0]))
        if hidden.isdisjoint(path.parents)
    ]


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """Return the paths that are not beneath another."""
    unique = dict.fromkeys(paths)
    return [path for path in unique if unique.keys().isdisjoint(path.parents)]


def _is_inside(path: Path, folders: Collection[Path]) -> bool:
    """Return whether `path` is one of `folders`, or beneath one."""
    return path in folders or any(parent in folders for parent in path.parents)


def _masks_elsewhere(command: SandboxCommand, mounts: Sequence[PrivateMount]) -> Iterator[str]:
    """Yield the options for hidden paths outside of the private mounts, such as programs: no agent can rename them."""
    handled = {mount.path for mount in mounts if mount.kind == HIDDEN}
    outside = [path for path in _outermost(command.hidden) if str(path) not in handled]
    for path in sorted(outside, key=lambda path: (len(path.parts), path)):
        if path.is_dir():
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
