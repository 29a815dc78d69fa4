"""What of a sandbox is not the command's own: none of it can be changed.

Whatever user a command seems to be, to the machine it is the one that the server runs as. If that is root, it owns the
devices and every switch in `/proc/sys`, and the kernel asks for no more than that.
"""

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from stat import S_IROTH, S_ISREG
from typing import Final

DEVICES: Final = tuple(Path("/dev", name) for name in ("null", "zero", "full", "random", "urandom", "tty"))
"""What bubblewrap shows of the machine's own. It could seal them only so that they are of no use any more."""
_SEALED: Final = ("/proc", "/dev", "/")
"""The last two are memory without a limit, in which what is written would be lost without a word."""


def sealed() -> Iterator[str]:
    """Yield the arguments of bubblewrap that come last, when all that is mounted is there."""
    for path in _for_root() if os.geteuid() == 0 else ():
        yield from ("--ro-bind", "/dev/null", str(path))
    for name in _SEALED:
        yield from ("--remount-ro", name)


@cache
def _for_root() -> list[Path]:
    """Return what tells of the whole machine to root alone."""
    return sorted(path for path in Path("/proc").iterdir() if not path.name.isdigit() and _is_for_root(path))


def _is_for_root(path: Path) -> bool:
    mode = path.lstat().st_mode
    return S_ISREG(mode) and not mode & S_IROTH
