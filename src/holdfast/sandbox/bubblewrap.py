"""`Sandbox` over bubblewrap: a command runs in its own user, process, mount and network namespaces.

A command sees its working folder, the files that a system shares with everybody, and nothing else: no settings,
database, other workspace, socket or foreign process. It has no privileges, even where Holdfast runs as root.

Hidden paths are covered by an empty mount, protected ones are mounted read-only. Every folder on the way to such a
path is mounted on itself, because a renamed parent would lead to it by a path that no rule covers. To the kernel a
command is the user of the server: if that is root, it would own the devices and every switch in `/proc/sys`, so
those are read-only.
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
"""Bytes of each of the two folders for temporary files, which are memory: `/tmp` and `/dev/shm`."""

# As root, bubblewrap without a user namespace of its own can mount anything: it must never be left out.
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
"""What of `/etc` is no secret of anyone, and programs do not work without."""
_ETC_NETWORK_FILES: Final = ("hosts", "resolv.conf")


class BubblewrapSandbox:
    """Runs commands in sandboxes, one for each."""

    def __init__(self, processes: Processes, *, program: str, readable: tuple[Path, ...] = ()) -> None:
        self._processes = processes
        self._program = program
        self._readable = readable
        self._filter = system_call_filter()

    async def run(self, command: SandboxCommand, *, on_output: Callable[[bytes], None] | None = None) -> ProcessResult:
        """Run a command to its end."""
        return await self._processes.run(self._wrap(command), on_output=on_output)

    def _wrap(self, command: SandboxCommand) -> Command:
        """Return the command that makes the sandbox and runs the other in it."""
        inside = replace(command, readable=[*self._readable, *command.readable])
        limits = command.limits
        return Command(
            argv=[
                self._program,
                *bubblewrap_arguments(inside),
                "--",
                *with_resource_limits(command.argv, limits, processes=limits.processes),
            ],
            folder=Path("/"),
            input=command.input,
            stream_stderr=command.stream_stderr,
            timeout=command.timeout,
            output_limit=command.output_limit,
            max_processes=limits.processes,
            read_only_devices=SHARED_DEVICES,
            seccomp_filter=self._filter,
        )


def bubblewrap_arguments(command: SandboxCommand) -> list[str]:
    """Return what bubblewrap is told about a command."""
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
    """Yield the arguments of bubblewrap that mount the root of a command, without what it may not reach."""
    hidden, kept = set(command.hidden), set(command.read_only)
    inside = {path for path in hidden | kept if path.is_relative_to(command.root)}
    pinned = {folder for path in inside for folder in path.parents if folder.is_relative_to(command.root)}
    # From the top down: what is mounted later covers what was mounted below it before.
    for path in sorted({command.root, *pinned, *hidden, *kept}, key=lambda path: (len(path.parts), path)):
        if not _is_beneath(path, hidden):
            yield from _mount(path, hidden=path in hidden, kept=path in kept or _is_beneath(path, kept))


def _is_beneath(path: Path, others: set[Path]) -> bool:
    return any(parent in others for parent in path.parents)


def _mount(path: Path, *, hidden: bool, kept: bool) -> Iterator[str]:
    if hidden and path.is_dir():
        yield from ("--tmpfs", str(path), "--remount-ro", str(path))
    elif hidden:
        yield from ("--ro-bind", "/dev/null", str(path))
    else:
        yield from ("--ro-bind" if kept else "--bind", str(path), str(path))


SHARED_DEVICES: Final = tuple(Path("/dev", name) for name in ("null", "zero", "full", "random", "urandom", "tty"))
"""What bubblewrap shows of the machine's own. It could seal them only so that they are of no use any more."""
_READ_ONLY_MOUNTS: Final = ("/proc", "/dev", "/")
"""The last two are memory without a limit, in which what is written would be lost without a word."""


def read_only_mounts() -> Iterator[str]:
    """Yield the arguments of bubblewrap that come last, when all that is mounted is there."""
    for path in _root_only_files() if os.geteuid() == 0 else ():
        yield from ("--ro-bind", "/dev/null", str(path))
    for name in _READ_ONLY_MOUNTS:
        yield from ("--remount-ro", name)


@cache
def _root_only_files() -> list[Path]:
    """Return what tells of the whole machine to root alone."""
    return sorted(path for path in Path("/proc").iterdir() if not path.name.isdigit() and _is_root_only(path))


def _is_root_only(path: Path) -> bool:
    mode = path.lstat().st_mode
    return S_ISREG(mode) and not mode & S_IROTH
