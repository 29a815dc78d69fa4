"""Hypothesis strategies for shell commands, with program names written in every way that a shell accepts."""

import shlex
from typing import Final

from hypothesis import strategies as st

from tests.unit.permissions.stubs import STUBS

_WORDS: Final = (
    "x", "-x", "'a b'", '"q $u"', "$u", "*", "{a,b}", "~", "1", "a=b", "#", "a#b", "!", "{}", "[", "\\;", "'$(alpha)'",
    '"`beta`"', "=", ":", "^", "''", "-", "--", "{", "}", "do", "done", "if", "then", "esac", "in", "\\ ", "é", "$",
    '"$"', "..", "[a]", "$((1+1))", "${u}",
)  # fmt: skip
_PREFIXES: Final = (
    "", "", "", "a=1 ", "! ", "time ", "command ", "env ", "env a=1 ", "exec ", "nohup ", "timeout 5 ", "nice -n 1 ",
    "builtin ", "\\command ", "xargs ", "xargs -n 1 ", "command -- ", "time -p ", "env -i ", "env -u x ", "stdbuf -oL ",
    "a[0]=1 ", "a+=1 ",
)  # fmt: skip
_REDIRECTIONS: Final = (
    "", "", "", ">out", "> out", "2>&1", "<file", ">>out", "&>out", "<<<x", ">|out", "2>/dev/null", "<&0", ">&2",
    ">& out", "{fd}>out", "<<'EOF'\n$(alpha)\nEOF\n", '<<"E F"\nalpha\nE F\n',
)  # fmt: skip
_SEPARATORS: Final = (";", " ; ", "&&", "||", "|", "\n", "&", "|&", "\n#c\n", " && \\\n")
_NOISE: Final = (*" ;|&(){}$`\"'\\\n<>#!*?[]=~", "<<E", "\nE\n", "$(", "${")


@st.composite
def names(draw: st.DrawFn) -> str:
    """Draw the name of a program."""
    name = draw(st.sampled_from(STUBS))
    at = draw(st.integers(1, len(name) - 1))
    head, tail = name[:at], name[at:]
    ways = (
        name, name, f"'{name}'", f'"{name}"', f"\\{name}", f"{head}\\{tail}", f"{head}''{tail}", f'{head}"{tail}"',
        f"$'{name}'", f"$'\\x{ord(name[0]):02x}'{name[1:]}", f"$'\\{ord(name[0]):03o}'{name[1:]}", f"{head}\\\n{tail}",
        f"${{u:-{name}}}",
    )  # fmt: skip
    return draw(st.sampled_from(ways))


@st.composite
def redirections(draw: st.DrawFn) -> str:
    """Draw a redirection, or none."""
    name = draw(names())
    documents = (f"<<EOF\n$u\n$({name})\nEOF\n", f"<<-EOF\n\t`{name}`\n\tEOF\n", f"<<EOF\n$\n$({name})\nEOF\n")
    return draw(st.sampled_from((*_REDIRECTIONS, *documents)))


@st.composite
def simple_commands(draw: st.DrawFn) -> str:
    """Draw one command."""
    name = draw(names())
    inner = (
        f"$({name} x)", f"`{name}`", f"<({name})", f'"$({name})"', f"${{u:-`{name}`}}", f"${{u-$({name})}}",
        f"a`{name}`b", f"{{a,`{name}`}}", f"$((1+`{name} 1`))", f"[`{name}`]",
    )  # fmt: skip
    words = draw(st.lists(st.sampled_from((*_WORDS, *inner)), max_size=3))
    return f"{draw(st.sampled_from(_PREFIXES))}{' '.join([draw(names()), *words])} {draw(redirections())}"


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    quoted = inner.flatmap(lambda code: st.sampled_from((shlex.quote(code), _in_double_quotes(code))))
    shapes = [
        st.tuples(inner, st.sampled_from(_SEPARATORS), inner).map("".join),
        *(
            inner.map(shape.format)
            for shape in (
                "({})",
                "( {}\n)",
                "{{ {}; }}",
                "{{ {}\n}}",
                "if {}; then beta; else gamma; fi",
                "if alpha; then {}; fi",
                "for i in a b; do {}; done",
                "while false; do {}; done",
                "until true; do {}; done",
                "case a in a) {};; *) beta ;; esac",
                "case a in (a|b) {}\n esac",
                "fun() {{ {}; }}; fun",
                "function fun {{ {}; }}; fun x",
                "fun() ( {} ); fun > out",
                "x=$({})",
                'echo "$({})"',
                "[[ -n $({}) ]]",
                "[[ a =~ $({}) ]]",
                "[[ a == $({})* ]]",
                "echo $(( 1 + $(echo 1; {}) ))",
                "! {}",
                "time {}",
                "x=(a $({}))",
                "echo ${{u:-$({})}}",
            )  # fmt: skip
        ),
        *(quoted.map(shape.format) for shape in ("eval {}", "bash -c {}", "sh -ec {}", "trap {} EXIT", "bash {}")),
        names().map("find . -maxdepth 0 -exec {} {{}} \\;".format),
    ]
    return st.one_of(shapes)


def _in_double_quotes(code: str) -> str:
    for letter in '\\"$`':
        code = code.replace(letter, f"\\{letter}")
    return f'"{code}"'


@st.composite
def _spoilt(draw: st.DrawFn, commands: st.SearchStrategy[str]) -> str:
    """Draw a command, with something inserted or removed."""
    command = draw(commands)
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(command)))
        left_out = draw(st.integers(0, 1))
        command = command[:at] + draw(st.sampled_from(("", *_NOISE))) + command[at + left_out :]
    return command


def _ends(command: str) -> bool:
    """Whether no loop or function in a command is endless."""
    bare = command.replace(" ", "").replace("\t", "").replace("\\", "").replace("\n", "")
    loops = any(
        f"{loop}{end}" not in command for loop, end in (("while ", "false;"), ("until ", "true;")) if loop in command
    )
    return not loops and not any(f"{name}(" in bare or f"function{name}" in bare for name in (*STUBS, "true", "false"))


commands: Final = _spoilt(st.recursive(simple_commands(), _larger, max_leaves=4)).filter(_ends)
"""Commands that end."""
