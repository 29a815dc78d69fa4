"""Whether a command brings in words from beyond the workspace: by files that it names, or from the network.

This sees what is written, and neither what only the shell knows, such as `~`, nor what a script does by itself. At that
time nobody has told the model yet to hide anything.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from holdfast.domain.untrusted import taint_source_name
from holdfast.tools.permissions.paths import normal
from holdfast.tools.permissions.shell.found import Script
from holdfast.tools.permissions.shell.parse import parse

READERS: Final = frozenset(
    {"aria2c", "curl", "elinks", "ftp", "gh", "http", "https", "links", "lynx", "nc", "ncat", "rsync", "scp", "sftp"}
    | {"ssh", "telnet", "w3m", "wget", "xh"}
)
"""Programs that show what others on the network say."""
SYSTEM: Final = ("/bin", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/sbin", "/sys", "/tmp", "/usr", "/var")
"""What a system keeps for all; of `/tmp` a sandbox has its own."""


def words_from_outside(command: str, *, root: Path, network: bool) -> str | None:
    """Return whose words the output of a command may have, if not only those of the workspace at `root`."""
    script = parse(command)
    for name in _programs(script) if network else ():
        if name in READERS:
            return taint_source_name("network", name)
    return next((taint_source_name("file", path) for path in _paths(script) if _is_outside(path, root)), None)


def _programs(script: Script) -> Iterator[str]:
    for program in script.programs:
        if program.words[0] is not None:
            yield program.words[0].rpartition("/")[2]


def _paths(script: Script) -> Iterator[str]:
    """Yield whatever may name a file, also behind the `=` of an option."""
    for program in script.programs:
        for word in program.words[1:]:
            if word is not None:
                yield word
                yield word.rpartition("=")[2]
    for touched in script.touched:
        if touched.path is not None:
            yield touched.path


def _is_outside(word: str, root: Path) -> bool:
    path = normal(word) if word else "."
    if not path.startswith("/"):
        return path.split("/")[0] == ".."
    return not any(path == folder or path.startswith(f"{folder}/") for folder in (*SYSTEM, str(root)))
