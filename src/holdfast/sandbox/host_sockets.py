"""Unix sockets of the machine in the folders of a command: they are hidden, because no namespace separates them.

The kernel lists the sockets that processes have bound to a file, with the inode of that file. By its name and device,
most are clearly not in the folders; for any other, the folders are searched. A socket file to which no process is bound
is an ordinary file, so that a command can remove what an earlier one left.
"""

import os
import socket
import stat
import struct
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.domain.errors import FolderChanged, Invalid

_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_REQUEST_DUMP: Final = 0x301
_MESSAGE_ERROR: Final = 2
_MESSAGE_DONE: Final = 3
_HEADER: Final = struct.Struct("=IHHII")
_REQUEST: Final = struct.Struct("=BBHIIIII")
_ALL_STATES: Final = 0xFFFFFFFF
_SHOW_NAME_AND_FILE: Final = 3
_NAME_ATTRIBUTE: Final = 0
_FILE_ATTRIBUTE: Final = 1
_ATTRIBUTES_OFFSET: Final = 16
_INODE_MASK: Final = 0xFFFFFFFF  # the kernel lists 32 bits of it
_MINOR_BITS: Final = 20
_MINOR_MASK: Final = (1 << _MINOR_BITS) - 1
_RECEIVE_BYTES: Final = 1 << 16


class BoundSocket(NamedTuple):
    """A socket that a process has bound to a file: the name as that process wrote it, and the file."""

    name: str
    device: str
    """The device of its file system, as in `/proc/self/mountinfo`."""
    inode: int


def host_sockets(folders: Collection[Path]) -> dict[Path, tuple[int, int]]:
    """Return the socket files in `folders` to which processes are bound, with device and inode.

    Raises:
        Invalid: a folder that has to be searched is too deep.

    """
    try:
        bound = list(bound_sockets())
    except OSError:  # a kernel without `CONFIG_UNIX_DIAG`: every socket file counts
        inodes = None
    else:
        devices = _devices(folders)
        near = [each for each in bound if each.device in devices and not _is_elsewhere(each, folders)]
        if not near:
            return {}
        inodes = {each.inode for each in near}
    return {
        path: identity
        for folder in folders
        for path, identity in _socket_files(folder)
        if inodes is None or identity[1] & _INODE_MASK in inodes
    }


def bound_sockets() -> Iterator[BoundSocket]:
    """Yield the Unix sockets of this network namespace that are bound to a file."""
    request = _REQUEST.pack(socket.AF_UNIX, 0, 0, _ALL_STATES, 0, _SHOW_NAME_AND_FILE, 0, 0)
    with socket.socket(16, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as kernel:  # AF_NETLINK
        kernel.send(_HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0) + request)
        while True:
            for kind, body in _messages(kernel.recv(_RECEIVE_BYTES)):
                if kind == _MESSAGE_ERROR:
                    raise OSError(-struct.unpack_from("=i", body)[0], "the sockets cannot be listed")
                if kind == _MESSAGE_DONE:
                    return
                attributes = dict(_attributes(body[_ATTRIBUTES_OFFSET:]))
                if _FILE_ATTRIBUTE in attributes:
                    name = os.fsdecode(attributes.get(_NAME_ATTRIBUTE, b"").rstrip(b"\0"))
                    inode, device = struct.unpack_from("=II", attributes[_FILE_ATTRIBUTE])
                    yield BoundSocket(name, f"{device >> _MINOR_BITS}:{device & _MINOR_MASK}", inode)


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _HEADER.size:
        length, kind, *_ = _HEADER.unpack_from(data)
        yield kind, data[_HEADER.size : length]
        data = data[_aligned(length) :]


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        yield kind, data[4:length]
        data = data[_aligned(length) :]


def _aligned(length: int) -> int:
    return max(4, (length + 3) & ~3)


def _devices(folders: Collection[Path]) -> set[str]:
    """Return the devices of the file systems at and beneath `folders`."""
    with open("/proc/self/mountinfo", "rb") as file:
        fields = [line.split() for line in file]
    mounts = [
        (Path(os.fsdecode(line[4].decode("unicode_escape").encode("latin-1"))), line[2].decode()) for line in fields
    ]
    devices = {device for place, device in mounts for folder in folders if place.is_relative_to(folder)}
    for folder in folders:  # of several mounts that contain it, the deepest and last one counts
        around = [(len(place.parts), index) for index, (place, _) in enumerate(mounts) if folder.is_relative_to(place)]
        devices.add(mounts[max(around)[1]][1])
    return devices


def _is_elsewhere(bound: BoundSocket, folders: Collection[Path]) -> bool:
    """Return whether the name of a socket leads to its file, outside of `folders`."""
    if not bound.name.startswith("/"):
        return False
    try:
        path = Path(os.path.realpath(bound.name))
        inode = path.stat().st_ino & _INODE_MASK
    except OSError:
        return False
    return inode == bound.inode and not any(path.is_relative_to(folder) for folder in folders)


def _socket_files(folder: Path) -> Iterator[tuple[Path, tuple[int, int]]]:
    """Yield the socket files in a folder, without following links."""
    try:
        for path, _, names, handle in os.fwalk(folder):
            with os.scandir(handle) as entries:
                others = [entry for entry in entries if names and not _is_common(entry)]
            for entry in others:
                status = os.lstat(entry.name, dir_fd=handle)
                if stat.S_ISSOCK(status.st_mode):
                    yield Path(path, entry.name), (status.st_dev, status.st_ino)
    except FileNotFoundError as exc:
        raise FolderChanged(
            f"`{exc.filename}` was removed while sockets were searched: try again", started=False
        ) from exc
    except RecursionError as exc:
        raise Invalid(f"`{folder}` has too many folders in each other: remove some", started=False) from exc


def _is_common(entry: os.DirEntry[str]) -> bool:
    return entry.is_symlink() or entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)
