"""The second reader of a command: bash itself, which prints what it has read and runs nothing.

`bash --pretty-print` parses its input and prints it in canonical form. The strict reader of the small grammar must read
the same commands in that form as in the original; otherwise bash reads something else than we do.

bash runs confined: in a sandbox of its own without files, network and processes of others, within limits of time,
memory and output. Where bubblewrap does not work, only the limits apply.
"""

import shutil
import subprocess
from functools import lru_cache
from os import environ
from typing import Final

from holdfast.tools.permissions.shell.grammar import MAX_SCRIPT_CHARS, OutsideGrammar, read_commands
from holdfast.tools.permissions.shell.script import ShellScript

BASH: Final = "/bin/bash"
BASH_READER_SECONDS: Final = 5.0
"""Seconds until a reading that does not end is killed, and the command requires approval."""
BASH_READER_BYTES: Final = 128 * 1024 * 1024
"""Bytes of memory of the reader."""

_SEARCH_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_LOCALE_VARIABLES: Final = ("LANG", "LC_ALL", "LC_CTYPE")
"""Variables of the server on which the reading of a command depends."""
_PARSE: Final = (BASH, "--noprofile", "--norc", "--pretty-print")
_LIMITS: Final = (f"--data={BASH_READER_BYTES}", "--cpu=2", "--fsize=0", "--nofile=16", "--core=0", "--")
_SANDBOX: Final = (
    *("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL", "--new-session", "--die-with-parent"),
    *("--ro-bind", "/usr", "/usr", "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"),
    *(word for name in ("bin", "lib", "lib64") for word in ("--ro-bind-try", f"/{name}", f"/{name}")),
    *("--remount-ro", "/", "--chdir", "/"),
)


class _NoAnswer(Exception):
    """bash could not be asked; a later attempt may succeed."""


def reading_problem(script: ShellScript) -> str | None:
    """Return why bash may read the code of a script differently than the strict reader, or null."""
    try:
        return next((problem for code in script.code if (problem := _code_problem(code)) is not None), None)
    except _NoAnswer:
        return "code that bash could not be asked about"


@lru_cache(maxsize=1024)
def _code_problem(code: str) -> str | None:
    if not code.isascii() and not _is_utf8_locale():
        return "characters that have another meaning in the language of this server"
    ended = _run([*_launcher(), *_PARSE], code)
    try:
        # bash puts blanks around operators.
        canonical = read_commands(ended.stdout.decode(), max_chars=4 * MAX_SCRIPT_CHARS)
        same = ended.returncode == 0 and canonical == read_commands(code)
    except (OutsideGrammar, UnicodeDecodeError):
        same = False
    return None if same else "a construct that bash reads in another way"


@lru_cache(maxsize=1)
def _launcher() -> list[str]:
    """Return the words before `bash` that confine it."""
    prlimit, bubblewrap = (shutil.which(name, path=_SEARCH_PATH) for name in ("prlimit", "bwrap"))
    if prlimit is None:
        raise _NoAnswer
    limited = [prlimit, *_LIMITS]
    confined = [] if bubblewrap is None else [bubblewrap, *_SANDBOX, "--", *limited]
    for launcher in (confined, limited):
        if launcher and _run([*launcher, *_PARSE], ":").stdout.strip() == b":":
            return launcher
    raise _NoAnswer


def _is_utf8_locale() -> bool:
    """Return whether commands run in a locale in which no character ends in a byte that a shell gives a meaning."""
    name = next((environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name)), "C.UTF-8")
    return name in ("C", "POSIX") or name.partition("@")[0].lower().endswith((".utf-8", ".utf8"))


def _run(argv: list[str], code: str) -> "subprocess.CompletedProcess[bytes]":
    variables = {name: environ[name] for name in _LOCALE_VARIABLES if name in environ}
    try:
        return subprocess.run(
            argv,
            input=f"{code}\n".encode(),
            capture_output=True,
            timeout=BASH_READER_SECONDS,
            cwd="/",
            env={"LANG": "C.UTF-8", **variables},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise _NoAnswer from exc
