"""Known bypasses of rules. Each command runs `rm`, or does something else that is denied, in its own way."""

from typing import Final

import pytest

from holdfast.domain.agent import Permissions
from holdfast.domain.permission import PermissionAction
from holdfast.tools.permissions.policy import permission_policy
from holdfast.tools.permissions.rule_checks import suggest_grants

RULES: Final = Permissions(
    deny=["bash(rm *)", "bash(git push *)", "read_file(*.env)", "read_file(secrets/**)", "write_file(ci/**)"],
    ask=["bash(curl *)"],
    allow=["bash(git *)", "bash(ls *)", "bash(cat *)", "bash(npm run test:*)", "bash(find *)", "bash(sudo ls *)"],
)
OPEN: Final = Permissions(deny=RULES.deny, ask=RULES.ask, allow=["bash"])

DENIED: Final = {
    "alone": "rm -rf x",
    "after a semicolon": "git log; rm x",
    "after and": "git log && rm x",
    "after or": "git log || rm x",
    "behind a pipe": "git log | rm x",
    "behind a pipe of both": "git log |& rm x",
    "in the background": "rm x & git log",
    "on the next line": "git log\nrm x",
    "after a comment": "git log # fine\nrm x",
    "negated": "! rm x",
    "in a subshell": "(rm x)",
    "in braces": "{ rm x; }",
    "in a substitution": "git log $(rm x)",
    "in backticks": "git log `rm x`",
    "in a quoted substitution": 'git log "$(rm x)"',
    "in nested substitutions": "git log $(git log $(rm x))",
    "in a process substitution": "cat <(rm x)",
    "in an output process substitution": "git log > >(rm x)",
    "in the default of a variable": "git log ${x:-$(rm x)}",
    "in an assignment": "x=$(rm x) git log",
    "in an array": "x=(a $(rm x))",
    "in arithmetic": "git log $((1 + $(rm x)))",
    "in a here-document": "cat <<EOF\n$(rm x)\nEOF\n",
    "in a here-string": 'cat <<< "$(rm x)"',
    "in a condition": "if rm x; then git log; fi",
    "in an else": "if git log; then git log; else rm x; fi",
    "in a loop": "for i in a; do rm x; done",
    "in the list of a loop": "for i in $(rm x); do git log; done",
    "in a while": "while rm x; do git log; done",
    "in a case": "case a in a) rm x;; esac",
    "in the word of a case": "case $(rm x) in a) git log;; esac",
    "in a function": "f() { rm x; }; f",
    "in a function of a harmless name": "ls() { rm x; }; ls",
    "in a test": "[[ -n $(rm x) ]]",
    "escaped": "r\\m x",
    "with a backslash before it": "\\rm x",
    "in single quotes": "'rm' x",
    "in double quotes": '"rm" x',
    "partly quoted": "r'm' x",
    "with empty quotes in it": "r''m x",
    "in ANSI quotes": "$'rm' x",
    "in hexadecimal": "$'\\x72\\x6d' x",
    "in octal": "$'\\162m' x",
    "in unicode": "$'\\u0072m' x",
    "by its path": "/bin/rm x",
    "by a relative path": "./../bin/rm x",
    "through env": "env rm x",
    "through env with variables": "env A=1 B=2 rm x",
    "through env with options": "env -i -u HOME rm x",
    "through xargs": "git ls-files | xargs rm",
    "through xargs with options": "git ls-files | xargs -0 -n 1 rm -f",
    "through bash -c": "bash -c 'rm x'",
    "through sh -c": 'sh -c "rm x"',
    "through a shell with more options": "bash -euxc 'rm x'",
    "through two shells": "bash -c \"sh -c 'rm x'\"",
    "through eval": "eval rm x",
    "through eval in quotes": "eval 'git log; rm x'",
    "through exec": "exec rm x",
    "through command": "command rm x",
    "through command -p": "command -p rm x",
    "through builtin and command": "builtin command rm x",
    "through nohup": "nohup rm x &",
    "through timeout": "timeout -k 5 10 rm x",
    "through nice": "nice -n 19 rm x",
    "through time": "time -p rm x",
    "through sudo": "sudo -u root rm x",
    "through several": "sudo env A=1 nice timeout 5 rm x",
    "through find -exec": "find . -name x -exec rm {} \\;",
    "through find -exec with plus": "find . -exec rm -f {} +",
    "through find -execdir": "find . -execdir rm {} ';'",
    "through busybox": "busybox rm x",
    "through stdbuf": "stdbuf -oL rm x",
    "through trap": "trap 'rm x' EXIT",
    "after a redirection": "2>/dev/null rm x",
    "with a variable before it": "A=1 rm x",
    "read from a hidden file": "cat < prod.env",
    "with the name of a hidden file": "cat prod.env",
    "with a hidden file as an option": "git log --file=config/prod.env",
    "with a hidden file in a folder": "cat secrets/key",
    "with a hidden file by detours": "cat ./ci/../secrets/key",
    "with a hidden file in quotes": "cat 'pro'd.env",
    "written to a file that is kept": "git log > ci/run",
    "appended to a file that is kept": "git log >> ./ci/run",
    "written with both outputs": "git log &> ci/run",
    "written against noclobber": "git log >| ci/run",
}
ASKED: Final = {
    "hexadecimal in braces": "$'\\x{72'm x",
    "an escape that means nothing": "$'\\q'ls x",
    "a number that is read anew": "i=1; read i < y; ls $((i))",
    "a number that is set by code": "i=1; eval 'i=$(cat y)'; ls $((i))",
    "variables after the program": "set -k; ls PATH=/tmp",
    "an option of a shell": "bash -o keyword -c 'ls PATH=/tmp'",
    "backticks in the default of a variable": "ls ${x:-`rm x`}",
    "backticks in a match": "[[ a =~ `rm x` ]] && ls",
    "a word that xargs fills in": "ls | xargs -I X git X origin",
    "variables behind sudo": "sudo A=1 rm x",
    "a callback of mapfile": "mapfile -C rm -c 1 x < y",
    "a variable that is looked for": 'read x < y; [ -v "$x" ]',
    "arithmetic by let": "read x < y; let x",
    "a program in a variable": "X=rm; $X x",
    "a program in a default": "${X:-rm} x",
    "a program from a substitution": "$(echo rm) x",
    "a program from backticks": "`echo rm` x",
    "a program from braces": "{rm,x}",
    "a program from a pattern": "/bin/r? x",
    "a program over two lines": "r\\\nm x",
    "an option before what is denied": "git -C . push",
    "an unknown word where it is denied": "git $X origin",
    "a long option before it": "git --no-pager push",
    "an alias of git": "git -c alias.x='!rm x' x",
    "a pager of git": "git --config-env=core.pager=X log",
    "code from a variable": "eval $X",
    "code from a variable in a shell": 'bash -c "$X"',
    "code from a pipe": "cat x | bash",
    "code from a here-document": "bash <<EOF\nrm x\nEOF",
    "a script": "bash x.sh",
    "a file that is sourced": "source x.sh",
    "a file that is sourced by a dot": ". ./x.sh",
    "another language": "python3 -c 'import os; os.system(\"rm x\")'",
    "perl": "perl -e 'unlink x'",
    "awk": "awk 'BEGIN { system(\"rm x\") }'",
    "an alias": "alias ls=rm; ls x",
    "another path": "PATH=/tmp/x:$PATH ls",
    "another path by export": "export PATH=/tmp/x; ls",
    "another path by a loop": "for PATH in /tmp/x; do ls; done",
    "another path by read": "read PATH < x; ls",
    "another path by printf": "printf -v PATH /tmp; ls",
    "another path through env": "env PATH=/tmp ls",
    "another separator": "IFS=x; ls",
    "a preloaded library": "LD_PRELOAD=/tmp/x.so ls",
    "a start file of bash": "BASH_ENV=/tmp/x bash -c ls",
    "a command of ssh in git": "GIT_SSH_COMMAND='rm x' git fetch",
    "an editor": "EDITOR='rm x' git commit",
    "a prompt": "PS4='$(rm x)'; set -x; ls",
    "a prompt expansion": "x='$(rm x)'; ls ${x@P}",
    "arithmetic on what is in quotes": "x='a[$(rm x)]'; ls $((x))",
    "arithmetic on what is read": "read x < y; ls $((x))",
    "a comparison of what is read": "read x < y; [[ $x -eq 1 ]]",
    "an index in quotes": "unset 'a[$(rm x)]'",
    "an indirect variable": "ls ${!x}",
    "a loaded builtin": "enable -f /tmp/x.so x; x",
    "a hashed path": "hash -p /bin/rm ls; ls x",
    "a coprocess": "coproc rm x",
    "an unknown option of a wrapper": "env -S 'rm x'",
    "a shell with an init file": "bash --rcfile x -ic ls",
    "backticks in a here-document": "cat <<EOF\n`rm x`\nEOF\n",
    "what is no shell code": "git log (",
    "a quote that is not closed": "git log 'x",
    "a carriage return": "ls\rrm x",
    "a character that cannot be seen": "ls\u00a0x",
    "too long a command": "ls " + "x" * 30_000,
    "a file elsewhere after a move": "cd ci; git log > run",
    "a hidden file in a variable": "cat < $X",
    "a checkpoint of tar": "tar --checkpoint-action=exec=rm -cf x y",
    "a command of find in a variable": "find . $X",
    "what is asked for": "curl http://x",
}


@pytest.mark.parametrize("rules", [RULES, OPEN], ids=["some are allowed", "all are allowed"])
@pytest.mark.parametrize("command", DENIED.values(), ids=DENIED.keys())
def test_a_denied_command_is_denied_however_it_is_written(command: str, rules: Permissions) -> None:
    assert permission_policy(rules).decide("bash", {"command": command}).action is PermissionAction.DENY


@pytest.mark.parametrize("rules", [RULES, OPEN], ids=["some are allowed", "all are allowed"])
@pytest.mark.parametrize("command", ASKED.values(), ids=ASKED.keys())
def test_a_possibly_denied_command_is_never_allowed(command: str, rules: Permissions) -> None:
    assert permission_policy(rules).decide("bash", {"command": command}).action is not PermissionAction.ALLOW


READ_DIFFERENTLY: Final = {
    "a backslash on the next line": "ls\n\\rm v",
    "a quoted program on the next line": "ls\n\\'rm' v",
    "a continued line before a program": "ls &&\\\nrm v",
    "an empty continued line": "\\\n\\\nrm v",
    "a program that a continued line splits": "ls; r\\\nm v",
    "a comment that a backslash does not continue": "ls # \\\nrm v",
    "a delimiter that is quoted in part": "cat <<E'O'F\nx\nEOF\nrm v",
    "a delimiter that is escaped in part": "cat <<E\\OF\n$(rm v)\nEOF",
    "a delimiter with a semicolon": "cat <<EOF;rm v\nEOF",
    "a delimiter in ANSI quotes": "cat <<$'EOF'\nx\nEOF\nrm v",
    "a delimiter over two lines": "cat <<E\\\nOF\nx\nEOF\nrm v",
    "a delimiter with a blank": "cat <<'E F'\nx\nE F\nrm v",
    "an empty delimiter": "cat <<''\nx\n\nrm v",
    "two here-documents": "cat <<A <<'B'\n$(rm v)\nA\nx\nB",
    "a here-document with a lone dollar": "cat <<EOF\n$ $(rm v)\nEOF",
    "a here-document that never ends": "cat <<EOF\n$(rm v)",
    "a here-document in a substitution": "ls $(cat <<EOF\n$(rm v)\nEOF\n)",
    "quotes in a default": "ls ${x:-'$(rm v)'}",
    "quotes in a default in quotes": "ls \"${x:-'$(rm v)'}\"",
    "quotes in a replacement": "ls \"${x/a/'$(rm v)'}\"",
    "a descriptor in quotes": "ls >&'$(rm v)'",
    "an escaped quote in ANSI quotes": "ls $'\\''; rm v; ls '",
    "an escaped backslash in ANSI quotes": "ls $'\\\\'; rm v; ls '\\'",
    "a dollar in double quotes": 'ls "$ $(rm v)"',
    "a dollar before a quote": 'ls "$" $(rm v)',
    "backticks in backticks": "ls `ls \\`rm v\\``",
    "a quote in a comment": "ls #'\nrm v #'",
    "a comment behind a semicolon": "ls;#'\nrm v",
    "a closing bracket in a case": "ls $(case x in x) rm v;; esac)",
    "an escaped redirection": "ls \\>|rm v",
    "a function over a builtin": "echo() { rm v; }; echo",
    "arithmetic or a subshell": "((ls); rm v)",
    "a program behind many others": "".join(f"a{number};" for number in range(9_000)) + "\\rm v",
    "a program at the end of a long text": "(ls) " + "x" * 99_000 + "\nrm v",
}
"""Commands that parsers read in another way than bash does; each of them runs `rm`."""


@pytest.mark.parametrize("rules", [RULES, OPEN], ids=["some are allowed", "all are allowed"])
@pytest.mark.parametrize("command", READ_DIFFERENTLY.values(), ids=READ_DIFFERENTLY.keys())
def test_deny_finds_a_program_however_the_code_around_it_is_read(command: str, rules: Permissions) -> None:
    assert permission_policy(rules).decide("bash", {"command": command}).action is PermissionAction.DENY


WRAPPED: Final = (
    "env - rm v", "env -i - rm v", "env --unset HOME rm v", "env --uns=HOME rm v", "env -uHOME rm v", "env -u + rm v",
    "env --chdir / rm v", "env -S 'rm v'", "env --split-string='rm v'", "env -vS'rm v'", "env A=1 - rm v",
    "nice --adjustment 5 rm v", "nice --adj 5 rm v", "nice -n -5 rm v", "nice -19 rm v", "nice -n5 -- rm v",
    "timeout --signal KILL 5 rm v", "timeout -s KILL 5 rm v", "timeout --kill-after 1 -v 5 rm v", "timeout -k1 5 rm v",
    "stdbuf --output L rm v", "stdbuf -o L -e0 rm v", "xargs --max-args 1 rm", "xargs --max-procs=2 rm", "xargs -L1 rm",
    "xargs --arg-file x rm", "xargs -i rm {}", "xargs -I % sh -c 'rm %'", "xargs -d '\\n' rm", "xargs --delim x rm",
    "find . -exec env -u + rm {} \\;", "find . -name -exec -exec rm {} \\;", "find . -ok rm {} \\;",
    "find . -exec ls {} + -exec rm {} +", "find . -execdir nice rm {} +", "find . -exec sh -c 'rm {}' \\;",
    "jobs -x rm v", "exec -a ls rm v", "exec -a rm busybox v", "command -p -- rm v", "builtin eval 'rm v'",
    "setsid --wait rm v",
    "ionice --class 3 rm v", "sudo --user root rm v", "sudo -u root -- rm v", "doas -u root rm v",
    "bash -lc 'rm v'", "bash -c -e 'rm v'", "bash -c -- 'rm v'", "bash -c - 'rm v'", "bash -c +x 'rm v'",
    "bash --norc -c 'rm v'", "dash -c 'rm v'", "zsh -c 'rm v'", "busybox sh -c 'rm v'", "bash -O extglob -c 'rm v'",
    "flock x rm v", "watch rm v", "strace -f rm v", "unshare rm v", "chroot / rm v", "su -c 'rm v'", "script -c 'rm v'",
    "parallel rm ::: v", "setarch x86_64 rm v", "prlimit --nofile=1 rm v", "taskset 1 rm v", "systemd-run rm v",
    "sed '1e rm v' x", "sed -n '$e rm v' x", "sort --compress-program=rm x", "sort --compress-prog rm x",
    "split --filter='rm v' x", "split --filt=rm x", "tar --to-command=rm -xf x", "tar xf x --to-com=rm",
    "tar -I rm -cf x y", "tar cIf rm x y", "tar -cf x --use-compress='rm v' y",
    "tar --checkpoint-act=exec='rm v' -cf x y",
    "git difftool --extcmd='rm v'", "git rebase '-xrm v' x", "git rebase --exec 'rm v' x", "git -c alias.x='!rm v' x",
    "cc -wrapper rm x.c", "trap -- 'rm v' EXIT", "time -p nice rm v",
)  # fmt: skip


@pytest.mark.parametrize("rules", [RULES, OPEN], ids=["some are allowed", "all are allowed"])
@pytest.mark.parametrize("command", WRAPPED)
def test_deny_finds_a_program_behind_every_option_of_a_wrapper(command: str, rules: Permissions) -> None:
    assert permission_policy(rules).decide("bash", {"command": command}).action is PermissionAction.DENY


RUNS_OTHERS: Final = (
    "sed 's|a|x|e' y", "sed -e p -e 's/a/b/ge' y", "sed -n -es/a/b/e y", "sed --expr='s,a,b,e' y", "sed 'e' y",
    "sed '$e' y",
    "sed -f x y", "sed --fil=x y", "sed 's/a/b/w x' y", "sed '1r x' y", "sed '{e\n}' y", "sed 's/[/]/x/e' y",
    "sed 's/[]/[]/;/e;s/p;/y/p' y", "sed 's/[^]/[]/;/e;s/p;/y/p' y", "sed 's/[[.].]/[]/e;s/x/y/p' y", "sed 's/[]/x/' y",
    "sed 's/[a\\]/[]/;/e;s/p;/y/p' y",
    "exec -a git-push git status", "exec -agit-push git status", "exec -l bash", "exec -la x ls",
    "env --argv0=git-push git status", "env --argv git-push git status", "env -a git-push git status",
    "sed 's/a/b/;e' y", "sed '/a/e' y", "sed '1~2e' y", "sed 's/a\\/b/c/e' y", "sed -s 's#a#b#e' y", "sed $X y",
    "sed p *", "sed -- * y", "sed -n -- $X y", "sed -s -- [a]* y",
    "tar cIf x y z", "tar -caIx -f y z", "tar -xf x --to-c=y", "tar --use=x -cf y z", "tar -cFx -f y",
    "tar cf host:x y",
    "tar -T x -cf y", "tar -cf x *", "split --filt=x y", "sort --compress-p=x y", "sort --co x y", "zip -TT x y",
    "rsync -avze x y z", "rsync --rs=x y z", "rg --pre x y", "rg --pre=x y", "fd -x y", "fd . --exec-b y",
    "git difftool --extcmd x", "git difftool -y", "git rebase -x y", "git rebase -ix y", "git rebase --ex=y z",
    "git rebase '-xy' z", "git bisect run x", "git submodule foreach x", "git filter-branch --tree-filter x",
    "git clone -u x y", "git clone --upload-p=x y", "git clone -c core.pager=x y", "git clone --template=x y",
    "git fetch --upl x", "git push --rec=x", "git push --exec=x y", "git archive --exec=x y", "git grep -Ox y",
    "git grep --open=x y", "git clone ext::x y", "git config core.pager x", "git config alias.x '!y'", "git x",
    "git --exec-path=x log", "git -cx=y log", "git --config-env=a=b log", "git -C x -c y=z log",
    "git mergetool", "git send-email x", "git config --global core.editor x", "git $X", "git merge $X",
    "git merge -s x y",
    "cc -wrapper x y.c", "gcc --wrapper x y.c", "g++-12 -Bx y.c", "clang -fplugin=x y.c", "gcc @x", "cc -specs=x y.c",
    "install -s --strip-prog=x y z", "wget --use-ask=x y", "wget -e x y", "tcpdump -z x", "printf -vPATH x",
    "printf -v PATH x",
    "printf 'abc%n' PATH", "printf -- '%s%ln' abc PATH", "printf %-5n PATH", "printf $X", "wait -p PATH", "exec -c ls",
    "xargs --process-slot-var=PATH ls", "env -i ls", "env - ls", "env -u PATH ls", "env --unset=PATH ls",
    "coreutils ls",
    "find . -execdir ./ls {} +", "env -C x ./ls", "sudo -D x ls", "msgfilter ls", "git bisect view",
    "git pull --strat=x",
    "read -aPATH", "read x", "mapfile x", "jobs", "let x", "declare x", "export x", "unset x", "shopt -s extglob",
    "test -v x", "[ -v x ]", "[ $X ]", "set -k", "set -o keyword", "set a", "alias x", "env A=1 ls", "env PATH=x ls",
    "xargs env", "xargs bash -c", "xargs -I x x", "find . -exec {} \\;", "find . $X", "find . -unknown", "find *",
    "watch ls", "flock x ls", "env -S ls", "bash -i -c ls", "bash -lc ls", "bash --rcfile x -c ls", "nice --unknown ls",
    "time -f x ls", "time ! ls", "bash -s", "zsh -c ls", "cd x && ./ls", "./echo", "/tmp/echo x", "./env ls", "x/cd y",
)  # fmt: skip


@pytest.mark.parametrize("command", RUNS_OTHERS)
def test_a_program_that_may_run_another_requires_approval(command: str) -> None:
    programs = "sed tar split sort zip rsync rg fd git cc gcc g++-12 clang install wget tcpdump find ls x"
    rules = Permissions(allow=[f"bash({name} *)" for name in programs.split()], deny=["bash(rm *)"])
    for each in (rules, Permissions(allow=["bash"], deny=["bash(rm *)"])):
        assert permission_policy(each).decide("bash", {"command": f"ls && {command}"}).action is PermissionAction.ASK


OUTSIDE: Final = {
    "a command substitution": ("ls $(ls)", "ls `ls`", 'ls "$(ls)"', 'ls "a`ls`"', "ls $(< x)"),
    "arithmetic": ("ls $((1))", "ls $[1]", "((1))", "ls $(( $(cat x) ))", 'ls "$((1))"'),
    "an expansion other than": ("ls ${x:-y}", "ls ${#x}", "ls ${!x}", "ls ${x@P}", "ls ${x[0]}", 'ls "${x//a/b}"'),
    "quote": ("ls $'x'", 'ls $"x"'),
    "that is not in front of a name": ("ls $", "ls $1", 'ls "$"', "ls $@", 'ls "a$ b"', "ls $_"),
    "a here-document": ("cat <<EOF\nx\nEOF", "cat <<-EOF\nx\nEOF", "cat <<'EOF'\nx\nEOF"),
    "a here-string": ("cat <<< x",),
    "a process substitution": ("cat <(ls)", "ls > >(cat)"),
    "a subshell, an array or a function": ("(ls)", "ls() { ls; }", "ls a(b)"),
    "braces": ("{ ls; }", "ls {a,b}", "ls {1..3}", "ls x{}", "ls }"),
    "a backslash": ("\\ls", "ls \\ x", "ls \\\n x", 'ls "\\$x"', 'ls "a\\"b"', "ls x\\;"),
    "a comment": ("# x\nls", "ls # x", "ls;#x"),
    "a command in the background": ("ls & ls", "ls &"),
    "`|&`": ("ls |& cat",),
    "`&>`": ("ls &> x",),
    "a redirection that is not one of": ("ls >| x", "ls >& x", "ls <> x", "ls <&3", "ls x>y", "ls 12>x", "ls 2>&1x"),
    "a redirection to a path that is not plain": ("ls > $X", "ls > *", "ls > '$(x)'", "cat < ~/x", 'ls > "a$X"'),
    "a redirection to the network": ("ls > /dev/tcp/host/80", "cat < /dev/udp/host/1"),
    "a redirection without a program": ("> x", "ls; > x"),
    "a quote that is not closed": ("ls 'x", 'ls "x'),
    "an assignment": ("A=1 ls", "A=1", "A+=1 ls", "a[0]=1 ls"),
    "only known at run time": ("$X", "l* x", "~/x", '"$X" y'),
    "an unusual name of a program": ("-x", "%1", "a,b", "''", "ls; 'a b'"),
    "`if`": ("if ls; then ls; fi",),
    "`for`": ("for x in a; do ls; done",),
    "`while`": ("while ls; do ls; done",),
    "`[[`": ("[[ -n x ]]",),
    "`!`": ("! ls", "time ! ls"),
    "the invisible character U+000D": ("ls\r\n",),
    "the invisible character U+00A0": ("ls\u00a0x",),
    "the invisible character U+202E": ("ls \u202ex",),
    "more than 20,000 characters": ("ls " + "x" * 20_000,),
    "without a command": ("ls &&", "&& ls", "ls ||", "ls |", "; ls", "ls; ;"),
}
"""What is outside of the grammar, by a part of the reason that a person reads."""


@pytest.mark.parametrize(("reason", "command"), [(reason, each) for reason, some in OUTSIDE.items() for each in some])
def test_no_rule_allows_a_command_outside_of_the_grammar_and_the_question_names_the_construct(
    reason: str, command: str
) -> None:
    for rules in (
        Permissions(allow=["bash(ls *)", "bash(cat *)"]),
        Permissions(allow=["bash"], ask=["bash(rm *)"]),
        Permissions(allow=["bash"], deny=["bash(rm *)"]),
    ):
        policy = permission_policy(rules)
        decision = policy.decide("bash", {"command": command})
        assert decision.action is PermissionAction.ASK
        assert reason in (decision.reason or "")
        assert suggest_grants(policy, "bash", {"command": command}) == []
        granted = permission_policy(rules, ["bash(ls *)", "bash(cat *)"])
        assert granted.decide("bash", {"command": command}).action is PermissionAction.ASK


@pytest.mark.parametrize(
    "command", [*READ_DIFFERENTLY.values(), "ls & (ls) $(ls)", "python3 -c x", "ls " + "(()" * 6_000]
)
def test_nothing_is_asked_where_every_command_is_allowed_and_none_denied(command: str) -> None:
    policy = permission_policy(Permissions(allow=["bash"]))
    assert policy.decide("bash", {"command": command}).action is PermissionAction.ALLOW


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "command",
    [
        "(()" * 6_666,
        "$(" * 10_000,
        "'\"" * 10_000,
        "env " * 5_000,
        '"' + '\\"' * 9_000,
        "2" * 20_000,
        "{," * 9_000,
        "~" * 20_000,
    ],
)
def test_reading_a_hostile_text_ends(command: str) -> None:
    decision = permission_policy(Permissions(deny=["bash(rm *)"])).decide("bash", {"command": command})
    assert decision.action is PermissionAction.ASK


@pytest.mark.parametrize(
    "command",
    [
        *("never-heard-of rm v", "never-heard-of --then='rm v'", "never-heard-of -c '/bin/rm v'", "bat --pager=rm x"),
        *(
            "aa-exec rm v",
            "multitime -n 2 rm v",
            "pidstat -e rm v",
            "xdotool exec rm v",
            "logsave x rm v",
            "ag --pager rm x",
        ),
        *("yash -c 'rm v'", "cowsay -f rm", "sem rm v", "make rm", "never-heard-of curl x"),
        *("never-heard-of 'r\"\"m v'", "never-heard-of \"r''m v\"", "never-heard-of 'x; r\\m v'"),
    ],
)
def test_a_program_that_is_in_no_table_requires_approval_if_its_words_name_one_of_a_rule(command: str) -> None:
    rules = Permissions(allow=["bash"], deny=["bash(rm *)"], ask=["bash(curl *)"])
    assert permission_policy(rules).decide("bash", {"command": command}).action is not PermissionAction.ALLOW
    assert permission_policy(rules).decide("bash", {"command": "never-heard-of farm"}).action is PermissionAction.ALLOW
    assert (
        permission_policy(rules).decide("bash", {"command": "grep -r rm . | tee curl"}).action is PermissionAction.ALLOW
    )


@pytest.mark.parametrize(
    "command",
    [
        *("never-heard-of d sh -c x", "never-heard-of --shell=/bin/bash x", "never-heard-of env x"),
        *("never-heard-of python3.12 x", "envdir d x", "xdg-user-dir x", "vidir", "rename s/a/b/e x", "groff -U x"),
    ],
)
def test_a_program_that_may_run_code_requires_approval_although_its_words_name_no_program(command: str) -> None:
    rules = Permissions(allow=["bash"], deny=["bash(rm *)"])
    assert permission_policy(rules).decide("bash", {"command": command}).action is PermissionAction.ASK
    assert permission_policy(rules).decide("bash", {"command": "grep sh python3"}).action is PermissionAction.ALLOW


def test_code_that_names_a_denied_program_requires_approval_even_if_its_language_is_allowed() -> None:
    policy = permission_policy(Permissions(deny=["bash(rm *)"], allow=["bash(python3 *)", "bash(make *)"]))
    for command in ("python3 -c 'import os; os.system(\"rm v\")'", "make rm"):
        decision = policy.decide("bash", {"command": command})
        assert (decision.action, decision.rule) == (PermissionAction.ASK, "bash(rm *)")
    assert policy.decide("bash", {"command": "python3 -m unittest"}).action is PermissionAction.ALLOW


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git log --format='%h %s' | cat",
        "cd src && git diff 2>&1",
        "git log > out.txt",
        "cat < README.md > /dev/null",
        "ls *.py && echo done",
        'ls -la ~ $HOME "$HOME/x" ${HOME}',
        "timeout 5 git log",
        "env -u X timeout --signal KILL 5 git log",
        "npm run test:unit",
        "bash -c 'git log | cat'",
        "find . -name '*.py' -exec cat {} +",
        "find . ! -name x \\( -type f -o -type d \\) -exec cat {} \\;",
        "git ls-files | xargs -0 --max-args 1 cat",
        "git commit -m 'rm and git push'",
        "git commit -m \"first\n\nsecond 'line'\"",
        "git reset HEAD~1\ngit log -p a#b 'a\\b' \"a\\.b\"",
        "sudo ls x",
        "set -euo pipefail; set -x; ls",
        "[ -f x ] && ls -la",
        "ls > x rm",
        "\n\nls;\n\ngit log |\n cat\n",
        "command -v git; true || ls",
        "git config user.email a@b && git config --get user.name",
        "cat 'it'\"'\"'s' é",
    ],
)
def test_an_allowed_command_needs_no_approval(command: str) -> None:
    assert permission_policy(RULES).decide("bash", {"command": command}).action is PermissionAction.ALLOW
