"""Programs that run other programs (`env`, `xargs`, `sudo`, `find -exec` …): what they run is checked as well."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from holdfast.tools.permissions.shell.script import ShellWords
from holdfast.tools.permissions.shell.words import is_safe_assignment


class NestedCommands(msgspec.Struct, frozen=True, kw_only=True):
    """What a program runs."""

    commands: tuple[ShellWords, ...] = ()
    code: str | None = None
    """More shell code."""
    transparent: bool = False
    opaque: bool = False
    unclear: str | None = None


class _WrapperOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a program is called that runs the command after its own options."""

    flags: str = ""
    """Short options without a value."""
    valued: str = ""
    """Short options with one."""
    long: frozenset[str] = frozenset()
    """Long options without a value, or with one after `=`."""
    skip: int = 0
    """Words before the command."""
    transparent: bool = True
    appends: bool = False
    """It adds words to the command."""


_WRAPPERS: Final[Mapping[str, _WrapperOptions]] = {
    "nohup": _WrapperOptions(),
    "setsid": _WrapperOptions(flags="cfw", long=frozenset({"--ctty", "--fork", "--wait"})),
    "command": _WrapperOptions(flags="p"),
    "builtin": _WrapperOptions(),
    "exec": _WrapperOptions(flags="cl", valued="a"),
    "time": _WrapperOptions(flags="pvaq", valued="fo", long=frozenset({"--verbose", "--portability"})),
    "nice": _WrapperOptions(flags="0123456789", valued="n", long=frozenset({"--adjustment"})),
    "ionice": _WrapperOptions(flags="t", valued="cn"),
    "timeout": _WrapperOptions(
        flags="v",
        valued="ks",
        long=frozenset({"--preserve-status", "--foreground", "--verbose", "--kill-after", "--signal"}),
        skip=1,
    ),
    "stdbuf": _WrapperOptions(valued="ioe", long=frozenset({"--input", "--output", "--error"})),
    "xargs": _WrapperOptions(
        flags="0rtxo",
        valued="nLPIdsEa",
        long=frozenset({"--null", "--no-run-if-empty", "--verbose", "--max-args", "--max-procs", "--delimiter"}),
        appends=True,
    ),
    "sudo": _WrapperOptions(flags="AbEHnPSk", valued="ugpCrtTUhRD", transparent=False),
    "doas": _WrapperOptions(flags="n", valued="u", transparent=False),
    "busybox": _WrapperOptions(transparent=False),
    "toybox": _WrapperOptions(transparent=False),
}
_SHELL_NAMES: Final = frozenset({"bash", "sh", "dash", "zsh", "ksh", "ash", "rbash", "mksh"})
_SHELL_CHANGING_BUILTINS: Final = frozenset(
    {
        "alias",
        "mapfile",
        "readarray",
        "let",
        "enable",
        "hash",
        "bind",
        "complete",
        "compgen",
        "compopt",
        "fc",
        "history",
        "shopt",
        "coproc",
    }
)
_OPAQUE_PROGRAMS: Final = re.compile(
    r"(python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|luajit|tclsh|wish|expect|awk|gawk|mawk|nawk|osascript|pwsh"
    r"|fish|csh|tcsh|guile|scheme|racket|ghci|R|Rscript|julia|jshell|groovy|erl|elixir|iex|sqlite3|psql|mysql|gdb|lldb"
    r"|make|gmake|ninja|just|rake|ssh|scp|sftp|rsh|su|runuser|chroot|unshare|nsenter|setpriv|script|scriptreplay|watch"
    r"|entr|parallel|flock|strace|ltrace|at|batch|crontab|systemd-run|tmux|screen|dtach|docker|podman|kubectl|vi|vim"
    r"|view|nvim|emacs|ed|ex|nano|less|more|man|ld\.so|ld-linux.*|source|\.|m4|dc|socat|nc|ncat)[0-9.]*"
)
_OPTIONS_THAT_RUN: Final[Mapping[str, re.Pattern[str]]] = {
    "git": re.compile(r"-c.*|--config-env.*|--exec-path=.*|--(upload|receive)-pack.*|--open-files.*|-O.*|--exec.*|-x"),
    "tar": re.compile(
        r"--(checkpoint-action|to-command|use-compress-program|info-script|new-volume-script|rsh).*|-.*[IF].*"
    ),
    "rsync": re.compile(r"-e.*|--rsh.*|--rsync-path.*"),
    "sort": re.compile(r"--compress-program.*"),
    "zip": re.compile(r"-TT.*|--unzip-command.*"),
    "sed": re.compile(r".*([0-9/;{}\s]|^)e(\s.*|$)|.*/[gimp0-9]*e[gimp0-9]*([;\s}].*|$)|-f.*|--file.*", re.DOTALL),
    "gcc": re.compile(r"-wrapper.*"),
    "curl": re.compile(r"-K.*|--config.*"),
    "split": re.compile(r"--filter.*"),
    "rg": re.compile(r"--pre.*|--hostname-bin.*"),
}
"""Options of programs that are harmless otherwise, which name another program to run."""
_FIND_EXEC_OPTIONS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_HARMLESS_BUILTINS: Final = frozenset(
    {
        "cd",
        "pushd",
        "popd",
        "true",
        "false",
        ":",
        "echo",
        "test",
        "[",
        "pwd",
        "exit",
        "return",
        "break",
        "continue",
        "shift",
        "set",
        "printf",
        "read",
        "wait",
    }
)
"""Built into the shell, and unable to change anything by themselves."""


def nested_commands(words: ShellWords) -> NestedCommands:
    """Return what a command runs besides itself."""
    name = _program_name(words)
    known = tuple(words[1:])
    if name in _SHELL_CHANGING_BUILTINS:
        return NestedCommands(unclear=f"`{name}` changes what commands mean")
    if name in _WRAPPERS:
        return _wrapped_command(name, known, _WRAPPERS[name])
    if name == "env":
        return _env(known)
    if name in _SHELL_NAMES:
        return _shell(name, known)
    if name == "eval":
        return _eval(known)
    if name == "trap":
        return _trap(known)
    if name == "find":
        return _find(known)
    if name in _OPTIONS_THAT_RUN and any(word is None or _OPTIONS_THAT_RUN[name].fullmatch(word) for word in known):
        return NestedCommands(unclear=f"an option of `{name}` may run another program")
    if name == "test" and "-v" in known:
        return NestedCommands(unclear="`test -v` may run code")
    return NestedCommands(transparent=name in _HARMLESS_BUILTINS, opaque=_is_opaque(words[0]))


def _program_name(words: ShellWords) -> str:
    return (words[0] or "").rpartition("/")[2]


def _is_opaque(name: str | None) -> bool:
    return name is None or "/" in name or _OPAQUE_PROGRAMS.fullmatch(name) is not None


def _wrapped_command(name: str, words: ShellWords, prefix: _WrapperOptions) -> NestedCommands:
    if name == "command" and words and words[0] in ("-v", "-V"):
        return NestedCommands(transparent=True)
    at = _options_end(words, prefix)
    if at is None:
        return NestedCommands(unclear=f"it is not clear what `{name}` runs")
    rest = words[at + prefix.skip :]
    if not rest:
        return NestedCommands(transparent=name in ("exec", "time", "xargs"))
    if prefix.appends:
        rest = (*_replace_placeholders(rest, words[:at]), None)
    return NestedCommands(commands=(rest,), transparent=prefix.transparent)


def _replace_placeholders(command: ShellWords, options: ShellWords) -> ShellWords:
    """Return a command in which `xargs -I name` puts something for each `name`."""
    given = [word or "" for word in options]
    marks = [(word[2:] or after) for word, after in zip(given, [*given[1:], ""], strict=False) if word[:2] == "-I"]
    return tuple(None if word is None or any(mark in word for mark in marks) else word for word in command)


def _options_end(words: ShellWords, prefix: _WrapperOptions) -> int | None:
    """Return where the command begins, or null where an option is not known."""
    at = 0
    while at < len(words):
        word = words[at]
        if word is None:
            return None
        if word == "--":
            return at + 1
        if not word.startswith("-") or word == "-":
            return at
        if word.startswith("--"):
            if word.partition("=")[0] not in prefix.long:
                return None
            at += 1
            continue
        letters = word[1:].lstrip(prefix.flags) if prefix.flags else word[1:]
        if letters and letters[0] not in prefix.valued:
            return None
        at += 2 if len(letters) == 1 else 1
    return at


def _env(words: ShellWords) -> NestedCommands:
    at = _options_end(
        words, _WrapperOptions(flags="i0v", valued="uC", long=frozenset({"--ignore-environment", "--unset"}))
    )
    if at is None:
        return NestedCommands(unclear="it is not clear what `env` runs")
    while at < len(words) and "=" in (word := words[at] or ""):
        if not is_safe_assignment(word):
            return NestedCommands(unclear=f"`{word.partition('=')[0]}` changes what programs do")
        at += 1
    return NestedCommands(commands=(words[at:],) if words[at:] else (), transparent=True)


def _shell(name: str, words: ShellWords) -> NestedCommands:
    at, coded = 0, False
    while at < len(words):
        word = words[at]
        if word is None:
            return NestedCommands(unclear=f"it is not clear what `{name}` runs")
        if not re.fullmatch(r"[-+][ceuxlfnvp]+|--", word):
            break
        coded = coded or (word[0] == "-" and "c" in word[1:])
        at += 1
    if at < len(words) and (words[at] or "").startswith(("-", "+")):
        return NestedCommands(unclear=f"it is not clear what `{name}` runs")
    if not coded:
        return NestedCommands(opaque=True)  # a script, or what comes in
    code = words[at] if at < len(words) else None
    return (
        NestedCommands(unclear=f"it is not clear what `{name}` runs")
        if code is None
        else NestedCommands(code=code, transparent=True)
    )


def _eval(words: ShellWords) -> NestedCommands:
    given = words[1:] if words and words[0] == "--" else words
    if any(word is None for word in given):
        return NestedCommands(unclear="`eval` runs what is only known then")
    return NestedCommands(code=" ".join(word for word in given if word is not None), transparent=True)


def _trap(words: ShellWords) -> NestedCommands:
    given = words[1:] if words and words[0] == "--" else words
    if not given or given[0] in ("-", "", "-l", "-p"):
        return NestedCommands(transparent=True)
    return (
        NestedCommands(unclear="`trap` runs what is only known then")
        if given[0] is None
        else NestedCommands(code=given[0], transparent=True)
    )


def _find(words: ShellWords) -> NestedCommands:
    """`find` may run commands, with the names it finds for `{}`."""
    commands: list[ShellWords] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word is None:
            return NestedCommands(unclear="an option of `find` is only known when it runs")
        if word in _FIND_EXEC_OPTIONS:
            command: list[str | None] = []
            while rest and rest[0] not in (";", "+"):
                part = rest.pop(0)
                command.append(None if part is None or "{}" in part else part)
            commands.append(tuple(command) or (None,))
    return NestedCommands(commands=tuple(commands))


def is_transparent_wrapper(name: str) -> bool:
    """Say whether a program is nothing but what it runs, so that a rule which allows it would allow nothing."""
    return name in ("env", "eval", "trap") or (name in _WRAPPERS and _WRAPPERS[name].transparent)
