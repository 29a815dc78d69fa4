"""Programs that can run others are read by full tables of their options."""

from collections.abc import Iterator

import pytest

from holdfast.tools.permissions.shell.option_tables import GIT_OPTIONS, PROGRAM_OPTIONS
from holdfast.tools.permissions.shell.options import option_grammar
from holdfast.tools.permissions.shell.run_options import option_that_runs
from holdfast.tools.permissions.shell.wrappers import nested_commands

HARMLESS = """
tar xzf a.tar.gz
tar -czvf out.tgz --exclude=.git src
tar cf - . -C /tmp
tar --list --file a.tar
tar --create --gzip --file=a.tgz a b
tar xf a.tar --strip-components 1
tar tbf 20 a.tar
tar -xf host:a.tar --force-local
tar -xf a.tar -- -I
git status -sb
git log --oneline -5
git log -p --stat -- src
git log -n 3 --format=%H --author=me
git diff HEAD~1..HEAD --name-only
git diff --cached -U5
git show HEAD:a.py
git commit -am message
git commit --no-verify -m 'a: b'
git add -A .
git checkout -b topic
git switch -c topic main
git stash
git stash push -m wip
git stash list
git remote -v
git remote add origin ../other
git worktree add ../x topic
git branch -vv --no-merged main
git tag -l 'v*'
git reflog
git reflog -5
git rev-parse --abbrev-ref HEAD
git ls-files -o --exclude-standard
git blame -L 1,5 a.py
git fetch -p
git push -u origin main
git pull --rebase
git rebase main
git merge --no-ff topic
git grep -n foo
git -C sub --no-pager log
git config user.name
git submodule status
git clone --depth 1 ../a b
cc -O2 -Wall -Wextra -std=c11 -o a a.c -lm
gcc -c -g -fPIC -march=native -I include -DX=1 a.c
cc --version
g++ -std=c++20 -O3 -shared -o liba.so a.o -L lib -pthread
cc a.c -Wl,-rpath,/opt/lib -MMD -MF a.d
clang -fsanitize=address -fno-omit-frame-pointer a.c
cc -x c -
sort -k 2,2n -t , a.csv
sort -uo out a
split -l 100 a b
split --bytes=1M a
install -Dm 755 a b
curl -sSLo out https://localhost/a
curl -X POST -H 'a: b' -d @body https://localhost
curl -fsS -x p:1 u
wget -qO- https://localhost/a
wget -nv -P dir u
rsync -av --delete a/ b/
rsync -aP --exclude .git a b
rg -n --hidden -g '*.py' pattern src
fd -e py -t f pattern
zip -qr a.zip src
patch -p1 -i a.diff
diff3 -m a b c
sdiff -w 80 a b
cpio -idv -F a.cpio
nm -D a.o
ar rcs liba.a a.o
sed 's/[a-z]*/x/' a
sed -E 's/[^0-9]+$//g' a
sed 's/[[:space:]]*$//' a
sed 's/\\[x\\]/[y]/' a
sed -n 's,[^_[:alnum:].-],,gp' a
""".strip().splitlines()
RUNNING = """
tar cIf rm a.tar b
tar -cIrm -f a.tar b
tar --use-comp=rm -xf a
tar --to-com rm -xf a
tar -xf a --to-command=rm
tar xFf rm a.tar
tar -x --info=rm -f a
tar -cf a b --checkpoint-act=exec=rm --checkpoint=1
tar -T list -cf a
tar -xf host:a.tar
tar xf host:a.tar
tar --rsh=rm -xf a:b
tar -xW use-compress-program=rm -f a
tar -L --to-command=rm -xf a
tar --unknown-option -xf a
tar tbf 20 a:b
git ls-remote --exec=rm .
git ls-remote --exec rm .
git ls-remote --ex=rm .
git fetch-pack --exec=rm . HEAD
git fetch --upload-p=rm .
git clone -urm . x
git clone -qu rm . x
git clone --conf a=b . x
git clone -c a=b . x
git rebase -xrm main
git rebase -qx rm main
git rebase --exe=rm main
git rebase -i main
git pull -s x
git merge -sx y
git grep -Orm foo
git grep --open=rm foo
git archive --exec=rm --remote=. HEAD
git push --receive-pack=rm . main
git push --exec rm . main
git -c alias.x=!rm x
git --exec-path=. log
git --config-env=a=b log
git x
git difftool --extcmd=rm
git bisect run rm
git submodule foreach rm
git submodule update
git remote add x 'ext::rm'
git clone ext::rm x
git init --template=x
git commit -e
git tag -e v1
git log --unknown
git stash foo
git worktree foo
git config core.pager rm
git config --global alias.x !rm
git filter-branch --tree-filter rm
git help -w log
cc -wrapper rm a.c
cc --wrapper=rm a.c
cc -B. a.c
cc -B . a.c
cc -specs=x a.c
cc --specs=x a.c
cc @args
cc -fplugin=./x.so a.c
cc -fuse-ld=x a.c
cc -Wl,-plugin,x a.c
cc -Wl,--plugin=x a.c
cc -Xlinker x a.c
cc -Xclang -load a.c
clang -fpass-plugin=x a.c
clang -mllvm -load=x a.c
clang --ld-path=rm a.c
cc -o -wrapper rm a.c
cc -Wl,@args a.c
sort --compress-prog=rm a
sort --comp rm a
split --filt=rm a
install --strip-prog=rm a b
diff3 --diff=rm a b c
sdiff --diff-program rm a b
sdiff -o out a b
patch -e
patch --e
patch -g1 a
patch --get=1 a
curl -K a
curl -sKa u
curl --conf a
wget -e use_askpass=rm u
wget --exec=a u
wget --use-ask=rm u
wget -qe a u
rsync -e rm a b:c
rsync -ave rm a b:c
rsync --rsh=rm a b:c
rsync --rsync-path=rm a b:c
rg --pre rm x
rg --pre=rm x
rg --hostname-bin=rm x
fd -x rm
fd -Hx rm
fd --exec rm
fdfind -X rm
zip -TT rm a b
zip -T a b
cpio -iF host:a
cpio --rsh-command=rm -iF a
nm --plugin ./x.so a
ar --plug=./x.so t a
aria2c --on-download-complete=rm u
yt-dlp --exec rm u
bsdtar -xf a
ld a.o
""".strip().splitlines()


def words(command: str) -> tuple[str, ...]:
    return tuple(word.strip("'") for word in command.split())


@pytest.mark.parametrize("command", HARMLESS)
def test_an_ordinary_command_runs_nothing_else(command: str) -> None:
    assert option_that_runs(words(command)[0], words(command)[1:]) is None


@pytest.mark.parametrize("command", RUNNING)
def test_a_command_that_may_run_another_program_is_unclear(command: str) -> None:
    assert nested_commands(words(command)).unclear is not None


def running_options() -> Iterator[tuple[str, str]]:
    for program, table in PROGRAM_OPTIONS.items():
        yield from ((program, option) for option in option_grammar(table).runs)
    for command, table in GIT_OPTIONS.items():
        yield from ((f"git {command}", option) for option in option_grammar(table, negatable=True).runs)


def spellings(option: str) -> Iterator[tuple[str, ...]]:
    if not option.startswith("--"):
        yield from ((option, "rm"), (f"{option}rm",))
        return
    for length in range(3, len(option) + 1):
        yield from ((option[:length], "rm"), (f"{option[:length]}=rm",))


def is_another_option(program: str, word: str) -> bool:
    """Return whether a word is the full name of another option."""
    table = GIT_OPTIONS[program.removeprefix("git ")] if program.startswith("git ") else PROGRAM_OPTIONS[program]
    return word.partition("=")[0] in (f"--{name.rstrip('=?!')}" for name in table.split() if "!" not in name)


@pytest.mark.parametrize(("program", "option"), list(running_options()))
def test_every_spelling_of_an_option_that_runs_a_program_is_unclear(program: str, option: str) -> None:
    for spelling in spellings(option):
        if is_another_option(program, spelling[0]):
            continue
        command = (*program.split(), *spelling, "a")
        assert nested_commands(command).unclear is not None, command


@pytest.mark.parametrize("table", [*PROGRAM_OPTIONS.values(), *GIT_OPTIONS.values()])
def test_a_word_that_is_only_known_at_run_time_is_not_read(table: str) -> None:
    assert option_grammar(table).read((None,), permute=True) is None


@pytest.mark.parametrize("word", ["-Wl,-z" + "=a" * 20_000 + "@", "-f" + "plugi" * 20_000, "-W" + "a" * 100_000 + "@"])
def test_a_long_option_of_a_compiler_is_read_in_linear_time(word: str) -> None:
    assert option_that_runs("cc", (word,)) is not None or "@" not in word
