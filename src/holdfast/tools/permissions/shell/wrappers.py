"""Programs that run other programs (`env`, `xargs`, `sudo`, `find -exec` …): what they run is checked as well."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from holdfast.tools.permissions.shell.script import ShellWords
from holdfast.tools.permissions.shell.words import is_safe_variable


class NestedCommands(msgspec.Struct, frozen=True, kw_only=True):
    """The commands that a program runs, as far as its arguments show them."""

    commands: tuple[ShellWords, ...] = ()
    code: str | None = None
    """Shell code, to be parsed in turn."""
    transparent: bool = False
    opaque: bool = False
    unclear: str | None = None


class _WrapperOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The command line of a program that runs the command after its own options."""

    flags: str = ""
    """Short options without a value."""
    valued: str = ""
    """Short options with a value."""
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
        "alias", "mapfile", "readarray", "let", "enable", "hash", "bind", "complete", "compgen", "compopt", "fc",
        "history", "shopt", "coproc",
    }
)  # fmt: skip
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
"""Options of otherwise harmless programs that name another program to run."""
_FIND_EXEC_OPTIONS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_HARMLESS_BUILTINS: Final = frozenset(
    {
        "cd", "pushd", "popd", "true", "false", ":", "echo", "test", "[", "pwd", "exit", "return", "break", "continue",
        "shift", "set", "printf", "read", "wait",
    }
)  # fmt: skip
"""Shell builtins that change nothing by themselves."""


def nested_commands(words: ShellWords) -> NestedCommands:
    """Return what a command runs besides itself."""
    name, arguments = (words[0] or "").rpartition("/")[2], words[1:]
    if name in _SHELL_CHANGING_BUILTINS:
        return NestedCommands(unclear=f"`{name}` changes what commands mean")
    if name in _WRAPPERS:
        return _wrapped_command(name, arguments, _WRAPPERS[name])
    if name == "env":
        return _env(arguments)
    if name in _SHELL_NAMES:
        return _shell(name, arguments)
    if name in ("eval", "trap"):
        return _eval_or_trap(name, arguments[1:] if arguments and arguments[0] == "--" else arguments)
    if name == "find":
        return _find(arguments)
    if name in _OPTIONS_THAT_RUN and any(word is None or _OPTIONS_THAT_RUN[name].fullmatch(word) for word in arguments):
        return NestedCommands(unclear=f"an option of `{name}` may run another program")
    if name == "test" and "-v" in arguments:
        return NestedCommands(unclear="`test -v` may run code")
    opaque = words[0] is None or "/" in words[0] or _OPAQUE_PROGRAMS.fullmatch(words[0]) is not None
    return NestedCommands(transparent=name in _HARMLESS_BUILTINS, opaque=opaque)


def _wrapped_command(name: str, words: ShellWords, wrapper: _WrapperOptions) -> NestedCommands:
    if name == "command" and words and words[0] in ("-v", "-V"):
        return NestedCommands(transparent=True)
    start = _options_end(words, wrapper)
    if start is None:
        return NestedCommands(unclear=f"it is not clear what `{name}` runs")
    command = words[start + wrapper.skip :]
    if not command:
        return NestedCommands(transparent=name in ("exec", "time", "xargs"))
    if wrapper.appends:
        command = (*_replace_placeholders(command, words[:start]), None)
    return NestedCommands(commands=(command,), transparent=wrapper.transparent)


def _replace_placeholders(command: ShellWords, options: ShellWords) -> ShellWords:
    """Return a command with null for each word that contains the placeholder of `xargs -I placeholder`."""
    words = [word or "" for word in options]
    marks = [(word[2:] or after) for word, after in zip(words, [*words[1:], ""], strict=False) if word[:2] == "-I"]
    return tuple(None if word is None or any(mark in word for mark in marks) else word for word in command)


def _options_end(words: ShellWords, wrapper: _WrapperOptions) -> int | None:
    """Return the index of the first word after the options, or null if an option is unknown."""
    index = 0
    while index < len(words):
        word = words[index]
        if word is None:
            return None
        if word == "--":
            return index + 1
        if not word.startswith("-") or word == "-":
            return index
        if word.startswith("--"):
            if word.partition("=")[0] not in wrapper.long:
                return None
            index += 1
            continue
        letters = word[1:].lstrip(wrapper.flags) if wrapper.flags else word[1:]
        if letters and letters[0] not in wrapper.valued:
            return None
        index += 2 if len(letters) == 1 else 1
    return index


def _env(words: ShellWords) -> NestedCommands:
    start = _options_end(
        words, _WrapperOptions(flags="i0v", valued="uC", long=frozenset({"--ignore-environment", "--unset"}))
    )
    if start is None:
        return NestedCommands(unclear="it is not clear what `env` runs")
    while start < len(words) and "=" in (word := words[start] or ""):
        name = word.partition("=")[0]
        if not is_safe_variable(name):
            return NestedCommands(unclear=f"`{name}` changes what programs do")
        start += 1
    return NestedCommands(commands=(words[start:],) if words[start:] else (), transparent=True)


def _shell(name: str, words: ShellWords) -> NestedCommands:
    unclear = NestedCommands(unclear=f"it is not clear what `{name}` runs")
    index, has_code = 0, False
    while index < len(words):
        word = words[index]
        if word is None:
            return unclear
        if not re.fullmatch(r"[-+][ceuxlfnvp]+|--", word):
            break
        has_code = has_code or (word[0] == "-" and "c" in word[1:])
        index += 1
    if index < len(words) and (words[index] or "").startswith(("-", "+")):
        return unclear
    if not has_code:
        return NestedCommands(opaque=True)  # it runs a script file or its standard input
    code = words[index] if index < len(words) else None
    return unclear if code is None else NestedCommands(code=code, transparent=True)


def _eval_or_trap(name: str, words: ShellWords) -> NestedCommands:
    if name == "trap":
        if not words or words[0] in ("-", "", "-l", "-p"):
            return NestedCommands(transparent=True)
        words = words[:1]  # the signals follow
    code = [word for word in words if word is not None]
    if len(code) < len(words):
        return NestedCommands(unclear=f"`{name}` runs code that is only known at run time")
    return NestedCommands(code=" ".join(code), transparent=True)


def _find(words: ShellWords) -> NestedCommands:
    """Return the commands of `find -exec`, with null for words that contain `{}`."""
    commands: list[ShellWords] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word is None:
            return NestedCommands(unclear="an option of `find` is only known at run time")
        if word in _FIND_EXEC_OPTIONS:
            command: list[str | None] = []
            while rest and rest[0] not in (";", "+"):
                part = rest.pop(0)
                command.append(None if part is None or "{}" in part else part)
            commands.append(tuple(command) or (None,))
    return NestedCommands(commands=tuple(commands))


def is_transparent_wrapper(name: str) -> bool:
    """Return whether a program only runs another one, so that a rule which allows it would have no effect."""
    return name in ("env", "eval", "trap") or (name in _WRAPPERS and _WRAPPERS[name].transparent)
