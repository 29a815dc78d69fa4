"""A generator of shell commands by a grammar, with programs in every place and spelling that a shell accepts."""

import shlex
from collections.abc import Callable
from random import Random
from typing import Final

from tests.unit.permissions.stubs import STUBS

_PLAIN_WORDS: Final = (
    "x", "-x", "'a b'", '"q $u"', "$u", "*", "1", "a=b", "a#b", "!", "{}", "[", "'$(alpha)'", '"a\\.b"', "=", ":", "^",
    "''", "-", "--", "do", "done", "if", "in", "é", "..", "[a]", "${u}", "~", "HEAD~1", "'a\nb'", '"a\n\tb"', "\\;",
    "file", "dir", '"$u/x"', "-n", "+", "a,b", "@x", "%1", "'\\'", "\"'\"", "'\"'", "a''b", "$?", "'a'\"b\"c", "\\(",
    "'alpha'", '"beta x"', "alpha", "a~b", "a=~", "x]", "2", "'2'",
)  # fmt: skip
_WILD_WORDS: Final = (
    "{a,b}", "#", '"`beta`"', "{", "}", "then", "esac", "\\ ", "$", '"$"', "$((1+1))", "${u:-x}", "$'x'", '$"x"',
    "`gamma`", "\\\n", "a\\\nb", '"\\$(alpha)"', '"a\\\nb"', "'\\''", "\\'", '\\"', "$_", "$1", "$@", "${!u}", "\r",
    "$'\\''", "$'\\\\'", '"${u:-\'}"', "\\\\", "u=1", "&1", ">(beta)",
)  # fmt: skip
_PLAIN_PREFIXES: Final = (
    "command ", "env ", "exec ", "nohup ", "timeout 5 ", "nice -n 1 ", "builtin ", "xargs ", "xargs -n 1 ", "env - ",
    "command -- ", "time -p ", "time ", "env -i ", "env -u x ", "stdbuf -oL ", "env --unset HOME ", "env --uns HOME ",
    "nice --adjustment 5 ", "nice --adj=5 ", "nice -5 ", "timeout --signal KILL 5 ", "timeout --sig=KILL -k 1 5 ",
    "stdbuf --output L ", "stdbuf -i 0 -o0 ", "xargs --max-args 1 ", "xargs --max-a=1 ", "xargs -I{} ",
    "xargs -I alpha ",
    "xargs -i ", "xargs -0rt ", "xargs -a names ", "env --ignore ", "env -C dir ", "env -uX ", "xargs -P 2 -L1 ",
    "setsid -w ", "nice ", "env -- ", "timeout -v 5 ", "env --block-signal ", "xargs --replace=x ", "ionice -c 3 ",
    "env -u + ", "env -vi ", "command -p ", "exec -a x ", "exec -c ", "timeout --kill-after 1 5 ", "xargs -d x ",
    "xargs --delimiter x ", "env --chdir dir ", "env -S ", "env -S'alpha' ", "env --split-string=beta ", "nice -- ",
)  # fmt: skip
_WILD_PREFIXES: Final = (
    "a=1 ", "! ", "\\command ", "a[0]=1 ", "a+=1 ", "A=x;", "PATH=x ", "coproc ", "> out ", "2>out ", "<file ",
    "{fd}>out ", "time ! ", "env a=1 ", "env -S 'a=1 alpha' ", "jobs -x ", "eval ", "trap ", "read -aPATH ",
)  # fmt: skip
_PLAIN_REDIRECTIONS: Final = (
    ">out", "> out", "2>&1", "<file", ">>out", "2>/dev/null", ">&2", "> 'o u t'", "< 'file'", '>"out"', "2> out 1>&2",
)  # fmt: skip
_WILD_REDIRECTIONS: Final = (
    "&>out", "<<<x", ">|out", "<&0", ">& out", "{fd}>out", "<<'EOF'\n$(alpha)\nEOF\n", '<<"E F"\nalpha\nE F\n',
    "12>out", "x>out", "<<E'O'F\nbeta\nEOF\n", "<<EOF;\nx\nEOF\n", "<<$'EOF'\nx\nEOF\n",
    "<<E\\\nOF\nx\nEOF\n", ">&'$(alpha)'",
    "<<\\EOF\nx\nEOF\n", "<<-EOF\n\tx\n\tEOF\n", ">'$(beta)'", "<>out", ">out$(gamma)", "2>&1x", ">&1-",
    "<<EOF\n$\nEOF\n",
)  # fmt: skip
_PLAIN_SEPARATORS: Final = (";", " ; ", "&&", " || ", "|", "\n", " |\n", " &&\n\n", ";\n", "\n\n")
_WILD_SEPARATORS: Final = ("&", "|&", "\n#c\n", " && \\\n", ";;", "\n\\", "\\\n", " # x\n", "#'\n", "\r\n", "&\n")
_NOISE: Final = (*" ;|&(){}$`\"'\\\n<>#!*?[]=~2-", "<<E", "\nE\n", "$(", "${", "\\\n", "$'", "&&", "||", ">&")
_PLAIN_SHAPES: Final = (
    "{0}",
    "{0}",
    "find . -maxdepth 0 -exec {name} {{}} \\;",
    "find file -exec {name} x {{}} +",
    "find . -maxdepth 0 -exec {prefix}{name} {{}} \\;",
    "find . -name -exec -exec {name} \\; ",
    "find . -maxdepth 0 -exec env -u + {name} \\;",
    "sed -n 's/a/b/;p' file; {0}",
    "sed 's|a|{name}|e' file",
    "sed '1e {name}' file",
    "sed -e p -e '$e {name}' file",
    "sort --compress-prog={name} file",
    "split --filt={name} file",
    "tar cIf {name} out file",
    "tar cf out --checkpoint=1 --checkpoint-act=exec={name} file",
    "tar xf out --to-com={name}",
    "git -c alias.x='!{name}' x",
    "eval {quoted}",
    "bash -c {quoted}",
    "sh -ec {quoted}",
    "sh -c {quoted} x y",
    "bash -lc {quoted}",
    "bash -c - {quoted}",
    "bash -c +e {quoted}",
    "bash -c -- {quoted}",
    "trap {quoted} EXIT",
    "echo file | xargs {name}",
    "printf -vPATH x; {0}",
    "mkdir 3; env -u u cp $u names 3/beta; printf 'abc%n' PATH; {0}",
    "printf '%s%%n\\n' x; {0}",
    "test -v 'a[$({name})]'",
    "[ -d dir ] && {0}",
    "set -eu; {0}",
    "set -k; {0}",
    "cd dir && {0}",
    "printf -v 'a[$({name})]' x",
)
_WILD_SHAPES: Final = (
    "({0})",
    "( {0}\n)",
    "{{ {0}; }}",
    "{{ {0}\n}}",
    "if {0}; then beta; else gamma; fi",
    "if alpha; then {0}; fi",
    "for i in a b; do {0}; done",
    "while false; do {0}; done",
    "until true; do {0}; done",
    "case a in a) {0};; *) beta ;; esac",
    "case a in (a|b) {0}\n esac",
    "fun() {{ {0}; }}; fun",
    "function fun {{ {0}; }}; fun x",
    "fun() ( {0} ); fun > out",
    "x=$({0})",
    'echo "$({0})"',
    'echo "$ $({0})"',
    'echo "it\'s $({0})"',
    "[[ -n $({0}) ]]",
    "[[ a =~ $({0}) ]]",
    "[[ a == $({0})* ]]",
    "echo $(( 1 + $(echo 1; {0}) ))",
    "! {0}",
    "x=(a $({0}))",
    "echo ${{u:-$({0})}}",
    "echo ${{u:-'$({name})'}}",
    "echo \"${{u:-'$({name})'}}\"",
    "echo ${{u:-`{name}`}}",
    "echo $'\\\\' ; {0} #'",
    "cat <<EOF\n$({0})\nEOF\n",
    "cat <<E'O'F\nx\nEOF\n{0}",
    "cat <<'EOF'\n'\nEOF\n{0}",
    "cat <<EOF\n$\n`{name}`\nEOF\n",
    'cat <<"E\nF"\nx\nE\nF\n{0}',
    "cat <({0})",
    "echo x > >({0})",
    "echo '\\'; {0}; echo '\\'",
    "\\\n{0}",
    "echo \\\\\\\n{0}",
    "true &\n{0}",
    "a=1 b='x y' {0}",
    "echo {{a,$({name})}}",
    'echo "`{name} \\"x\\"`"',
    "> 'o u t' {0}",
    "echo \"$(> 'o u t' {name})\"",
    "trap {quoted} DEBUG; true",
    "time -p {0}",
    "time ! {0}",
    "coproc {0}",
    "echo \\>|{name}",
)


_DATA_SHAPES: Final = (
    "sed 's/^/{name} /e' file",
    "echo {name} | xargs -I x env x",
    "bash <<EOF\n{name}\nEOF\n",
    "bash <<< {name}",
    'bash -c "$(echo {quoted})"',
    "u={quoted}; eval $u",
    "find . -maxdepth 0 -exec env {name}{{}} \\;",
)
"""Commands that become code only at run time: no rule allows them, and no deny rule can find them."""


class CommandFuzzer:
    """Generates commands from a seed; `wild` ones have constructs that are outside of the grammar."""

    def __init__(self, seed: int, *, data: bool = True) -> None:
        """Generate commands; with `data`, programs may come from data, too."""
        self._random = Random(seed)
        self._data_shapes = _DATA_SHAPES if data else ()
        # The names of files are data: `eval *` runs them.
        self._words = _PLAIN_WORDS if data else tuple(word for word in _PLAIN_WORDS if word not in ("*", "[a]"))

    def command(self, *, wild: float, noise: bool = True) -> str:
        """Return a command; each of its parts is wild with this probability."""
        command = self._script(wild, depth=0)
        for _ in range(self._random.choice((0, 0, 1, 1, 2)) if noise else 0):
            at, left_out = self._random.randint(0, len(command)), self._random.randint(0, 1)
            command = command[:at] + self._random.choice(("", *_NOISE)) + command[at + left_out :]
        return command

    def is_endless(self, command: str) -> bool:
        """Return whether noise may have made a loop or a function endless."""
        bare = command.replace(" ", "").replace("\t", "").replace("\\", "").replace("\n", "")
        loops = any(
            f"{loop}{end}" not in command
            for loop, end in (("while", " false;"), ("until", " true;"))
            if loop in command
        )
        return loops or any(f"{name}(" in bare or f"function{name}" in bare for name in (*STUBS, "true", "false"))

    def _script(self, wild: float, depth: int) -> str:
        choose = self._random.choice
        if depth < 2 and self._random.random() < 0.35:
            shapes = (*(_WILD_SHAPES if self._random.random() < wild else _PLAIN_SHAPES), *self._data_shapes)
            inner = self._script(wild, depth + 1)
            prefix, name = choose(_PLAIN_PREFIXES), self._name(wild)
            quote: Callable[[str], str] = choose((shlex.quote, _in_double_quotes))
            return str(choose(shapes)).format(
                inner, prefix=prefix, name=choose(STUBS) if wild == 0 else name, quoted=quote(inner)
            )
        if depth < 2 and self._random.random() < 0.3:
            separator = self._part(_PLAIN_SEPARATORS, _WILD_SEPARATORS, wild)
            return f"{self._script(wild, depth + 1)}{separator}{self._script(wild, depth + 1)}"
        return self._simple(wild)

    def _simple(self, wild: float) -> str:
        prefix = self._part(_PLAIN_PREFIXES, _WILD_PREFIXES, wild) if self._random.random() < 0.4 else ""
        words = [self._part(self._words, _WILD_WORDS, wild) for _ in range(self._random.randint(0, 3))]
        if self._random.random() < wild:
            name = self._name(wild)
            inner = (
                f"$({name} x)", f"`{name}`", f"<({name})", f'"$({name})"', f"${{u:-`{name}`}}", f"${{u-$({name})}}",
                f"a`{name}`b", f"{{a,`{name}`}}", f"$((1+`{name} 1`))", f"[`{name}`]", f'"a$ `{name}`"',
                f"$'\\''$({name})",
            )  # fmt: skip
            words.append(self._random.choice(inner))
        redirection = self._part(_PLAIN_REDIRECTIONS, _WILD_REDIRECTIONS, wild) if self._random.random() < 0.25 else ""
        return f"{prefix}{' '.join([self._name(wild), *words])} {redirection}".rstrip(" ")

    def _name(self, wild: float) -> str:
        """Return the name of a stub in some spelling."""
        name = self._random.choice(STUBS)
        at = self._random.randint(1, len(name) - 1)
        head, tail = name[:at], name[at:]
        plain = (name, name, name, f"'{name}'", f'"{name}"', f"{head}''{tail}", f'{head}"{tail}"')
        spelled = (
            f"\\{name}", f"{head}\\{tail}", f"$'{name}'", f"$'\\x{ord(name[0]):02x}'{name[1:]}", f"{head}\\\n{tail}",
            f"$'\\{ord(name[0]):03o}'{name[1:]}", f"${{u:-{name}}}", f'$"{name}"', f"$'{head}'{tail}", f"''{name}",
        )  # fmt: skip
        return self._part(plain, spelled, wild)

    def _part(self, plain: tuple[str, ...], wild_parts: tuple[str, ...], wild: float) -> str:
        return self._random.choice(wild_parts if self._random.random() < wild else plain)


def _in_double_quotes(code: str) -> str:
    for letter in '\\"$`':
        code = code.replace(letter, f"\\{letter}")
    return f'"{code}"'
