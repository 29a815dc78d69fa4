"""Programs of which an option, a subcommand or an argument runs another program: `tar -I`, `git -c`, `sed 's/…/…/e'`.

Their command lines are read by full tables of their options. A word that the table does not know may run a program.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from holdfast.tools.permissions.shell.option_tables import GIT_OPTIONS, PROGRAM_OPTIONS
from holdfast.tools.permissions.shell.options import (
    OptionGrammar,
    OptionReading,
    may_have_option,
    option_grammar,
)
from holdfast.tools.permissions.shell.script import ShellWords

_PLUGIN_PROGRAMS: Final = frozenset({"ar", "nm", "objcopy", "objdump", "ranlib", "size", "strip"})
"""Programs with one option that runs code, `--plugin`: any word that could be it counts."""
_REMOTE_FILES: Final[Mapping[str, tuple[str, ...]]] = {
    "tar": ("-f", "--file"),
    "cpio": ("-F", "--file", "-I", "-O"),
}
"""Options whose value may name a file of another machine, which a program is run to read: `host:file`."""


def option_that_runs(program: str, arguments: ShellWords) -> str | None:
    """Return the words of a command line that may run another program, as a phrase, or null."""
    reader = _READERS.get(program)
    if reader is not None:
        return reader(arguments)
    if program in _PLUGIN_PROGRAMS and may_have_option(arguments, ("--plugin",)):
        return _running_option(program)
    table = _option_table(program)
    if table is not None:
        reading = _read_harmless(option_grammar(table), arguments)
        return _running_option(program) if reading is None or _reads_remote_file(program, reading) else None
    if _COMPILER.fullmatch(program) and not _is_harmless_compilation(arguments):
        return _running_option(program)
    return None


def has_option_table(program: str) -> bool:
    """Return whether the options of a program are known."""
    known = program in _READERS or program in _PLUGIN_PROGRAMS or _option_table(program) is not None
    return known or _COMPILER.fullmatch(program) is not None


def _option_table(program: str) -> str | None:
    return PROGRAM_OPTIONS.get({"fdfind": "fd"}.get(program, program))


def _running_option(program: str) -> str:
    return f"an option of `{program}` that may run another program"


def _read_harmless(grammar: OptionGrammar, words: ShellWords, *, permute: bool = True) -> OptionReading | None:
    """Return a command line, or null if an option runs a program or may do so."""
    reading = grammar.read(words, permute=permute)
    if reading is None or reading.has(*grammar.runs):
        return None
    # Another version of the program may read a value as an option.
    values = tuple(value for _, value in reading.options if value is not None)
    return None if may_have_option(values, grammar.runs) else reading


def _reads_remote_file(program: str, reading: OptionReading) -> bool:
    names = _REMOTE_FILES.get(program, ())
    return any(":" in file for file in reading.values(*names)) and not reading.has("--force-local")


def _tar(words: ShellWords) -> str | None:
    if words and words[0] and not words[0].startswith("-"):
        words = _dashed_options(words[0], words[1:])
    reading = _read_harmless(option_grammar(PROGRAM_OPTIONS["tar"]), words)
    # `-W` names a long option for another `tar`.
    if reading is None or reading.has("-W") or _reads_remote_file("tar", reading):
        return _running_option("tar")
    return None


_TAR_VALUED: Final = re.compile(r"(.):")


def _dashed_options(letters: str, words: ShellWords) -> ShellWords:
    """Return the words of `tar cbf 20 file` as `tar -c -b 20 -f file`: values follow in the order of their letters."""
    valued = set(_TAR_VALUED.findall(PROGRAM_OPTIONS["tar"].partition(" ")[0]))
    dashed: list[str | None] = []
    for letter in letters:
        dashed.append(f"-{letter}")
        if letter in valued:
            dashed += words[:1]
            words = words[1:]
    return (*dashed, *words)


_COMPILER: Final = re.compile(r"(.*-)?(cc|gcc|g\+\+|c\+\+|c89|c99|cpp|clang|clang\+\+|gfortran)(-[0-9.]+)?")
_COMPILER_VALUED: Final = re.compile(
    r"-[oxILlDUuzeATG]|-include|-imacros|-isystem|-iquote|-idirafter|-iprefix|-iwithprefix|-isysroot|-M[FTQ]|-aux-info"
    r"|--param|-dumpbase|-dumpdir|-arch|-framework|-target|--sysroot|-Xassembler|-Xpreprocessor"
)
"""Options with a value, which may be attached to those of one letter."""
_COMPILER_FLAGS: Final = re.compile(
    r"-[cSEvgswPrHCQ]|-\#\#\#|-[oxILlDUuzeATG].+|-O[a-z0-9]*|-g[a-z0-9+-]*(=[a-z0-9]+)?|-std=[a-z0-9+:]+|--std=[a-z0-9+:]+"
    r"|-W(?![lap],)[a-zA-Z0-9+=<>_,.-]*|-W[ap],[^@]*|-M[MDGPMFTQ]*D?|-M[FTQ].+|-p|-pg|-pthread|-pipe|-static(-[a-z+-]+)?|-shared(-[a-z+-]+)?"
    r"|-rdynamic|-nostdinc(\+\+)?|-nostdlib(\+\+)?|-nodefaultlibs|-nostartfiles|-nolibc|-pedantic(-errors)?|-ansi|-pie"
    r"|-no-pie|-static-pie|-symbolic|-traditional(-cpp)?|-undef|-trigraphs|-save-temps(=[a-z]+)?|-time|-d[A-Z]+|-dump[a-z]+"
    r"|-print-[a-z-]+(=.+)?|-stdlib=[a-z+]+|-iquote.+|-isystem.+|-m(?!llvm|plugin)[a-z0-9=.,+-]+"
    r"|-f(?!.*plugin)(?!use-ld)(?!.*linker)(?!.*driver)[a-zA-Z0-9=.,+:/_-]+|--param=[a-z0-9=-]+|--sysroot=.+|--target=.+|--coverage|-coverage"
    r"|--version|--help(=[a-z,^]+)?|--target-help|-Wl,(-rpath(-link)?|-soname|-z|-O[0-9]|--as-needed|--no-as-needed"
    r"|--gc-sections|--start-group|--end-group|--whole-archive|--no-whole-archive|--no-undefined|--export-dynamic|-E|-s"
    r"|-Map|--strip-all|--build-id|-Bstatic|-Bdynamic|--copy-dt-needed-entries|--allow-multiple-definition)([,=][^@]*)?"
)


def _is_harmless_compilation(words: ShellWords) -> bool:
    """Return whether each word is a file, or an option that runs no program but the parts of the compiler."""
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if word is None or word.startswith("@"):
            return False
        if _COMPILER_VALUED.fullmatch(word):
            if index < len(words) and (words[index] is None or (words[index] or "").startswith(("@", "-"))):
                return False
            index += 1
        elif word.startswith("-") and word != "-" and (_COMPILER_FLAGS.fullmatch(word) is None or "plugin" in word):
            return False
    return True


_GIT_GLOBAL: Final = OptionGrammar(
    flags="pPvh",
    valued="C",
    long="paginate no-pager no-replace-objects no-lazy-fetch no-optional-locks no-advice bare git-dir= work-tree= "
    "namespace= literal-pathspecs glob-pathspecs noglob-pathspecs icase-pathspecs",
)
_GIT_GROUPS: Final = frozenset(name.partition(" ")[0] for name in GIT_OPTIONS if " " in name)
"""Commands that have commands of their own."""
_GIT_CONFIG_READS: Final = frozenset({"--get", "--get-all", "--get-regexp", "--list", "-l", "get", "list"})
_GIT_CONFIG_HARMLESS: Final = frozenset({"user.name", "user.email"})


def _git(words: ShellWords) -> str | None:
    reading = _GIT_GLOBAL.read(words)
    if reading is None:
        return _running_option("git")
    if not reading.operands:
        return None
    command, arguments = reading.operands[0] or "", reading.operands[1:]
    if command == "config":
        return _git_config(arguments)
    if command not in GIT_OPTIONS and command not in _GIT_GROUPS:
        return "a `git` command that may be an alias or run another program"
    if any("::" in (word or "") for word in arguments):
        return f"an address of `git {command}` that may run another program"
    if command in _GIT_GROUPS:
        outer = _read_harmless(_git_grammar(command), arguments, permute=False)
        if outer is None:
            return _running_option(f"git {command}")
        inner = f"{command} {outer.operands[0]}" if outer.operands else command
        if inner in GIT_OPTIONS and inner != command:
            command, arguments = inner, outer.operands[1:]
        elif outer.operands and command != "reflog":
            return f"`git {command}` that may run another program"
    return _running_option(f"git {command}") if _read_harmless(_git_grammar(command), arguments) is None else None


def _git_grammar(command: str) -> OptionGrammar:
    return option_grammar(GIT_OPTIONS[command], negatable=True)


def _git_config(arguments: ShellWords) -> str | None:
    operands = [word for word in arguments if word is None or not word.startswith("-")]
    scope = [word for word in arguments if word not in ("--global", "--local")]
    reads = arguments[:1] and arguments[0] in _GIT_CONFIG_READS or scope == operands and len(operands) == 1
    harmless = scope[:1] == operands[:1] and operands[:1] and operands[0] in _GIT_CONFIG_HARMLESS
    return None if reads or harmless else "`git config`, which can make git run a program"


_SED_OPTIONS: Final = OptionGrammar(
    flags="nErsuz",
    valued="efl",
    optional="i",
    long="quiet silent expression= file= regexp-extended in-place=? line-length= posix separate unbuffered null-data "
    "debug sandbox follow-symlinks zero-terminated",
)
_SED_ADDRESS: Final = r"(?:[0-9]+(?:~[0-9]+)?|\$|\+[0-9]+|/(?:[^/\\\n\[\]]|\\[^\n])+/)"
_SED_COMMAND: Final = re.compile(
    rf"[ \t]*(?:{_SED_ADDRESS}(?:,{_SED_ADDRESS})?)?[ \t]*!?[ \t]*(?P<verb>[pdqQ=nNgGhHxlDPs])"
)
_SED_FLAGS: Final = re.compile(r"[gpiIM0-9]*")
_SED_BRACKETS: Final = re.compile(r"\\.|\[\^?(?:[^\[\]\\^]|\[:[a-z]+:\])(?:[^\[\]\\]|\[:[a-z]+:\])*\]")
"""Escaped characters, and sets of characters whose first `]` ends them."""
_SED_END: Final = re.compile(r"[ \t]*(?:[;\n]|\Z)")


def _sed(words: ShellWords) -> str | None:
    reading = _SED_OPTIONS.read(words, permute=True)
    if reading is None or reading.has("-f", "--file"):
        return "an option of `sed` that may run another program"
    scripts: Sequence[str | None] = reading.values("-e", "--expression") or reading.operands[:1]
    if not all(script is not None and _is_harmless_sed_script(script) for script in scripts):
        return "a `sed` script with commands other than printing, deleting and substituting"
    return None


def _is_harmless_sed_script(script: str) -> bool:
    """Return whether every command of a sed script is one of a few that open no file and run nothing."""
    position = 0
    while position < len(script):
        if end := _SED_END.match(script, position):
            position = end.end() if end.end() > position else len(script)
            continue
        command = _SED_COMMAND.match(script, position)
        if command is None:
            return False
        position = command.end()
        if command["verb"] == "s":
            after = _substitution_end(script, position)
            flags = None if after is None else _SED_FLAGS.match(script, after)
            if flags is None:
                return False
            position = flags.end()
        end = _SED_END.match(script, position)
        if end is None:
            return False
        position = end.end()
    return True


def _substitution_end(script: str, position: int) -> int | None:
    """Return where the flags of an `s` command begin, or null if that is not certain."""
    delimiter = script[position : position + 1]
    if not delimiter or delimiter.isalnum() or delimiter in "\\\n ;[]{}":
        return None
    for _ in range(2):
        start = position + 1
        position = start
        while position < len(script) and script[position] != delimiter:
            if script[position] == "\n":
                return None
            position += 2 if script[position] == "\\" else 1
        if position >= len(script):
            return None
        # A delimiter ends the part everywhere for one `sed`, and only outside of brackets for another.
        if not {"[", "]"}.isdisjoint(_SED_BRACKETS.sub("", script[start:position])):
            return None
    return position + 1


_READERS: Final[Mapping[str, Callable[[ShellWords], str | None]]] = {
    "git": _git,
    "tar": _tar,
    "sed": _sed,
    "gsed": _sed,
}
