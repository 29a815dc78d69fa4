"""Programs that run the command in their own words (`env`, `xargs`, `sudo`, `find -exec`, `bash -c` …), as a table.

A wrapper is read by its full option grammar, because the grammar decides which of its words is the program. What the
table does not know is unclear.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from holdfast.tools.permissions.shell.options import OptionGrammar, word_set
from holdfast.tools.permissions.shell.run_options import has_option_table, option_that_runs
from holdfast.tools.permissions.shell.script import FileAccess, Redirection, ShellWords


class NestedCommands(msgspec.Struct, frozen=True, kw_only=True):
    """What a command runs besides itself, as far as its words show it."""

    commands: tuple[ShellWords, ...] = ()
    code: str | None = None
    """Shell code, to be read in turn."""
    redirections: tuple[Redirection, ...] = ()
    changes_folder: bool = False
    transparent: bool = False
    opaque: bool = False
    unknown: bool = False
    """The program is in no table."""
    unclear: str | None = None
    """Why no rule can allow it."""
    may_run: ShellWords = ()
    """Words of which any could be the program that runs, or code."""


class _Wrapper(msgspec.Struct, frozen=True, kw_only=True):
    """A program that runs the command after its options and `skip` operands."""

    options: OptionGrammar
    skip: int = 0
    transparent: bool = True
    appends: bool = False
    """It adds words to the command."""
    may_be_alone: bool = False
    """Without a command it does nothing but print, or open files."""


_WRAPPERS: Final[Mapping[str, _Wrapper]] = {
    "nohup": _Wrapper(options=OptionGrammar()),
    "setsid": _Wrapper(options=OptionGrammar(flags="cfwVh", long="ctty fork wait")),
    "builtin": _Wrapper(options=OptionGrammar()),
    # A name of the program other than its own (`exec -a`, `exec -l`, `env --argv0`) can be a command to it, as
    # `git-push` is to git: such options are in no table.
    "exec": _Wrapper(options=OptionGrammar(), may_be_alone=True),
    # The keyword of bash has one option; those of the program of this name mean something else to it.
    "time": _Wrapper(options=OptionGrammar(flags="p"), may_be_alone=True),
    "nice": _Wrapper(options=OptionGrammar(flags="0123456789", valued="n", long="adjustment="), may_be_alone=True),
    "ionice": _Wrapper(
        options=OptionGrammar(flags="thV", valued="cn", long="class= classdata= ignore"),
    ),
    "timeout": _Wrapper(
        options=OptionGrammar(flags="fpv", valued="ks", long="preserve-status foreground kill-after= signal= verbose"),
        skip=1,
    ),
    "stdbuf": _Wrapper(options=OptionGrammar(valued="ioe", long="input= output= error=")),
    "sudo": _Wrapper(
        options=OptionGrammar(
            flags="AbBEHnPSkN",
            valued="ugpCTrtUh",
            long="askpass background bell close-from= preserve-env=? group= set-home host= non-interactive "
            "preserve-groups prompt= role= stdin type= command-timeout= other-user= user=",
        ),
        transparent=False,
    ),
    "doas": _Wrapper(options=OptionGrammar(flags="n", valued="u"), transparent=False),
    "busybox": _Wrapper(options=OptionGrammar(), transparent=False),
    "toybox": _Wrapper(options=OptionGrammar(), transparent=False),
}
_XARGS_OPTIONS: Final = OptionGrammar(
    flags="0ortxp",
    valued="adEILnPs",
    optional="eil",
    long="null arg-file= delimiter= eof=? replace=? max-lines=? max-args= max-procs= max-chars= interactive open-tty "
    "no-run-if-empty verbose exit show-limits",
)
_ENV_OPTIONS: Final = OptionGrammar(
    flags="i0v",
    valued="uCS",
    long="ignore-environment null unset= chdir= split-string= block-signal=? default-signal=? ignore-signal=? "
    "list-signal-handling debug",
)
_SHELL_NAMES: Final = frozenset({"bash", "sh", "dash"})
"""Shells that read the small grammar alike."""
_SHELL_OPTIONS: Final = OptionGrammar(flags="ceux")
_RUNNERS: Final = word_set(
    "ash bash-static chronic coreutils direnv guix ifne lckdo mispipe mise msgexec msgfilter nix-shell pee zrun "
    "asdf pyenv rbenv nodenv lxc-attach lxc machinectl aws-vault chamber doppler dotenv "
    "runcon ssh-agent dbus-launch systemd-inhibit systemd-nspawn systemd-cat scriptlive login sulogin vipw vigr "
    "capsh catchsegv chpst choom chroot chrt cpulimit csh cgexec dbus-run-session dtach eatmydata "
    "entr expect fakeroot faketime firejail fish flatpak flock gosu hyperfine i386 ksh ld.so linux32 linux64 "
    "ltrace mksh newgrp newuidmap nsenter numactl parallel perf pkexec proot proxychains proxychains4 prlimit pwsh "
    "rbash rlwrap run-parts runuser s6-setuidgid screen script scriptreplay setarch setpriv setuidgid sg softlimit "
    "sshpass start-stop-daemon strace su systemd-run taskset tcsh tini tmux torify torsocks tsp unbuffer unshare "
    "uclampset valgrind watch x86_64 xterm xvfb-run zsh bwrap at batch dumb-init gdb lldb gdbserver kstart "
    "aria2c bsdtar ld tcpdump yt-dlp youtube-dl "
    "aa-exec abduco agetty annotate-output apptainer autossh bear buildah ccache check_by_ssh csvtool distcc dosbox "
    "elvish es fakechroot grc heaptrack icecc kitty konsole libtool logsave lxc-execute memusage multitime nodemon nq "
    "nu openvt osh pdsh pexec pidstat posh pssh rc rlogin rr runc crun sash sccache scan-build schedtool scrot sem "
    "service setlock singularity sotruss startx tmate trickle uftrace urxvt watchexec watchman wine with-contenv "
    "xdotool xinit xonsh yash ysh zellij "
    "bubblewrap byobu cargo-watch cdist circusd concurrently coredumpctl distrobox dmenu_run dvtm envdir envuidgid "
    "gtester ksshell ksu limactl lxd minijail0 npm-run-all nsjail rlfe rofi runsv runsvdir s6-supervise s6-svscan "
    "sshuttle stunnel supervise svscan systemd-socket-activate tasksh varlinkctl with-readline xdg-user-dir"
)
"""Programs that run the command in their words, or any code in them, and whose options are not in a table."""
_STATE_BUILTINS: Final = word_set(
    "alias unalias bind compgen complete compopt coproc declare enable export fc getopts hash history jobs let local "
    "mapfile read readarray readonly shopt typeset unset wait"
)
"""Shell builtins that change what later commands mean, or evaluate their words as code."""
_OPAQUE_PROGRAMS: Final = re.compile(
    r"(source|\.|ld-linux.*|python|pypy|ipython|perl|ruby|irb|node|nodejs|deno|bun|php|lua|luajit|tclsh|wish"
    r"|awk|gawk|mawk|nawk|osascript|guile|scheme|racket|ghc|ghci|runghc|R|Rscript|julia|jshell|groovy|scala|kotlin|java"
    r"|erl|elixir|iex|clojure|ocaml|swift|tcc|go|dotnet|sqlite|sqlite3|psql|mysql|mariadb|mongo|mongosh|redis-cli|duckdb"
    r"|octave|maxima|gnuplot|gs|latex|pdflatex|xelatex|lualatex|tex|pdftex"
    r"|make|gmake|cmake|ctest|meson|bazel|scons|ninja|just|rake|task|tox|nox|pytest|mvn|gradle|ant|sbt|cargo|npm|npx"
    r"|yarn|pnpm|bunx|uv|uvx|pip|pipx|poetry|hatch|pdm|pre-commit|gem|bundle|composer|conda|mamba|rpm|dpkg|apt|apt-get"
    r"|aptitude|dnf|yum|apk|brew|ssh|scp|sftp|rsh|mosh|crontab|docker|podman|nerdctl|kubectl|helm|terraform|ansible.*"
    r"|vagrant|vi|vim|vimdiff|view|nvim|vim\..*|rvim|rview|gvim|pico|editor|pager|sensible-.*|run-mailcap|see|compose|edit|lesspipe|zless|zmore"
    r"|perldoc|pydoc|prove|cpan|original-awk|emacs|emacsclient|ed|ex|nano|micro|joe|less|more|most|man|info|mail|mailx|mutt"
    r"|ftp|lftp|telnet|m4|dc|socat|nc|ncat|netcat|fzf|tig|xdg-open|open|ip|ldd|git-.*|scalar|gitk|svn|hg|bzr|gh|glab|rclone|restic|borg|pipenv|rye|nix|nmap|openssl|gpg|gpg2|rpmbuild|logrotate"
    r"|abcl|bb|bmake|bpftrace|bpython|bundler|byebug|cabal|clisp|clj|cowsay|cowthink|crystal|csi|debugfs|dune|ecl|exiftool"
    r"|fab|facter|fennel|foreman|gcl|gimp|ginsh|gosh|grunt|gsi|gulp|gunicorn|honcho|hy|invoke|janet|jest|jjs|jrunscript"
    r"|jupyter|knife|latexmk|lein|luatex|mc|mocha|ncdu|newlisp|nextflow|nim|opam|openvpn|pdb|phpdbg|picolisp|pry|psftp"
    r"|ptpython|puppet|py\.test|qemu-.*|ranger|rdmd|rustup|sbcl|slsh|smbclient|snakemake|stack|supervisord|tdbtool|top"
    r"|htop|ts-node|tshark|tsx|uvicorn|virsh|waf|xetex|zathura|zig"
    r"|2to3|aerc|airflow|alembic|alpine|anacron|animate|autoconf|autom4te|automake|autoreconf|aws|bats|bazelisk|buck2?|celery"
    r"|certbot|cobc|composite|coverage|crash|cron|cs|cscope|csharp|ctr|dagger|devenv|dialog|display|django-admin|dmsetup|doxygen"
    r"|dstat|dvips|earthly|easy_install|enc2xs|enscript|exim4?|expectk|fastapi|fastfetch|fetchmail|flask|fsharpi|gcc-(ar|nm|ranlib)"
    r"|gcloud|genie|gio|gold|groovysh|h2ph|hping3|hugo|hypercorn|identify|idle|iftop|instmodsh|ispell|jdb|jekyll|jtag|kotlinc"
    r"|(.*-)?ld\.[a-z]+|loginctl|lto-wrapper|maildrop|minicom|mkdocs|modprobe|mogrify|mono|monit|montage|msfconsole|ncftp"
    r"|neofetch|neomutt|nomad|nx|packer|pants|perlbug|(file-|perl-|p)?rename|pg|g?pic|pkg|please|postfix|procmail|pulumi|pyspark"
    r"|red|redo|redo-ifchange|rpmdb|rpmquery|rpmverify|[gnt]*roff|rtorrent|runscript|salt|salt-call|scala-cli|scanmem|scons-time"
    r"|select-editor|sendmail|serverless|skaffold|snap|spark-(shell|submit)|sphinx-build|sqlmap|streamlit|systemd-resolve|tcl"
    r"|tilt|timedatectl|tup|turbo|updatedb|uwsgi|vidir|vipe|waypoint|x?inetd|xmore|zsoelim|zypper"
    r"|rustc|rustdoc|javac|protoc|pandoc|magick|convert|w3m|lynx|elinks|journalctl|systemctl|ssh-keygen|ssh-add|ssh-copy-id)"
    r"[0-9.]*"
)
"""Programs that may run anything: a script, code in another language, or what their files say."""
_INTERPRETERS: Final = re.compile(
    r"((ba|da|a|z|k|mk|pdk|lk|c|tc|fi|ya|po|rba|sa|el)?sh|busybox|toybox|env|xargs|eval|sed|awk|gawk|mawk|nawk|expect|ssh|make"
    r"|python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|luajit|tclsh|guile|Rscript|julia|gdb|vim?|ex|ed)[0-9.]*"
)
"""Programs that run code: a program in no table may run the one in its words, and code can hide any name."""
_PLAIN_PROGRAMS: Final = word_set(
    "[ arch b2sum base32 base64 basename basenc cat chcon chgrp chmod chown cksum comm cp csplit cut date dd df dir "
    "dircolors dirname du expand expr factor fmt fold groups head hostid hostname id join kill link ln logname ls "
    "md5sum mkdir mkfifo mknod mktemp mv nl nproc numfmt od paste pathchk pinky pr printenv ptx readlink realpath rm "
    "rmdir seq sha1sum sha224sum sha256sum sha384sum sha512sum shred shuf sleep stat stty sum sync tac tail tee touch "
    "tr truncate tsort tty uname unexpand uniq unlink uptime users vdir wc who whoami yes "
    "bunzip2 bzcat bzip2 cal cmp col colrm column diff egrep fgrep file free getent grep gunzip gzip hexdump "
    "iconv jq locale look lsblk lscpu lsof lz4 nslookup dig host ping pgrep pidof pkill ps rev strings tree type "
    "ulimit umask unxz unzip unzstd vmstat whatis whereis which xxd xz xzcat yq zcat zgrep zstd zstdcat "
    "times dirs help return break continue shift"
)
"""Programs and builtins that run no others: their words are names of files, patterns and text."""
_HARMLESS_BUILTINS: Final = frozenset({"cd", "pushd", "popd", "true", "false", ":", "echo", "pwd", "exit"})
_SAFE_SET_OPTIONS: Final = re.compile(r"[-+][eux]*o?|pipefail|errexit|nounset|xtrace")


def nested_commands(words: ShellWords) -> NestedCommands:
    """Return what a command runs besides itself."""
    program = words[0] or ""
    name, arguments = program.rpartition("/")[2], words[1:]
    found = _nested_commands(name, arguments)
    if "/" not in program:
        return found
    # A file of the same name is something else than the builtin or the program in `PATH`.
    return msgspec.structs.replace(found, transparent=False, opaque=True)


def _nested_commands(name: str, arguments: ShellWords) -> NestedCommands:
    if name in _READERS:
        return _READERS[name](name, arguments)
    if name in _WRAPPERS:
        return _wrapped_command(name, arguments)
    if name in _SHELL_NAMES:
        return _shell(name, arguments)
    if name in _STATE_BUILTINS:
        return NestedCommands(unclear=f"`{name}`, which can change what commands mean", may_run=arguments)
    if name in _RUNNERS:
        return NestedCommands(unclear=f"`{name}`, which runs other programs", may_run=arguments)
    if (option := option_that_runs(name, arguments)) is not None:
        # The words of git are often its own commands.
        may_run = [word for word in arguments if word and (name != "git" or " " in word or "=" in word)]
        return NestedCommands(unclear=option, may_run=tuple(may_run))
    if name in ("cd", "pushd", "popd"):
        return NestedCommands(transparent=True, changes_folder=True)
    unknown = not (name in _HARMLESS_BUILTINS or name in _PLAIN_PROGRAMS or has_option_table(name))
    return NestedCommands(
        transparent=name in _HARMLESS_BUILTINS,
        opaque=not name
        or _OPAQUE_PROGRAMS.fullmatch(name) is not None
        or (unknown and any(word is not None and _names_interpreter(word) for word in arguments)),
        unknown=unknown,
    )


def _names_interpreter(word: str) -> bool:
    """Return whether a word, or the value of an option, is a program that runs code in its own words."""
    return _INTERPRETERS.fullmatch(word.rpartition("=")[2].rpartition("/")[2]) is not None


def _unclear_command(name: str, words: ShellWords) -> NestedCommands:
    return NestedCommands(unclear=f"`{name}` with words that are not in its table", may_run=words)


def _wrapped_command(name: str, words: ShellWords) -> NestedCommands:
    wrapper = _WRAPPERS[name]
    reading = wrapper.options.read(words)
    if reading is None or None in reading.operands[: wrapper.skip + 1]:
        return _unclear_command(name, words)
    command = reading.operands[wrapper.skip :]
    if not command:
        alone = wrapper.may_be_alone or reading.has("--help", "--version")
        return NestedCommands(transparent=True) if alone else _unclear_command(name, words)
    if "=" in (command[0] or ""):
        return NestedCommands(unclear=f"`{name}` with a variable", may_run=words)
    return NestedCommands(commands=(command,), transparent=wrapper.transparent)


def _command(name: str, words: ShellWords) -> NestedCommands:
    reading = OptionGrammar(flags="pvV").read(words)
    if reading is None or None in reading.operands[:1]:
        return _unclear_command(name, words)
    if reading.has("-v", "-V") or not reading.operands:
        return NestedCommands(transparent=True)
    return NestedCommands(commands=(reading.operands,), transparent=True)


def _env(name: str, words: ShellWords) -> NestedCommands:
    reading = _ENV_OPTIONS.read(words)
    if reading is None or reading.has("-S", "--split-string"):
        return _unclear_command(name, words)
    command = reading.operands[1:] if reading.operands[:1] == ("-",) else reading.operands
    if not command:
        return NestedCommands(transparent=True)
    if (
        reading.has("-i", "--ignore-environment")
        or command != reading.operands
        or "PATH" in reading.values("-u", "--unset")
    ):
        return NestedCommands(unclear="`env` without `PATH`", may_run=words)
    if command[0] is None or "=" in command[0]:
        return NestedCommands(unclear="`env` with a variable", may_run=words)
    changes_folder = reading.has("-C", "--chdir")
    return NestedCommands(commands=(command,), transparent=True, changes_folder=changes_folder)


def _xargs(name: str, words: ShellWords) -> NestedCommands:
    reading = _XARGS_OPTIONS.read(words)
    if reading is None or None in reading.operands[:1]:
        return _unclear_command(name, words)
    if not reading.operands:
        return NestedCommands(transparent=True)  # it runs `echo`
    marks = [mark or "{}" for mark in reading.values("-I", "-i", "--replace")]
    marked = tuple(word for word in reading.operands if word is not None and any(mark in word for mark in marks))
    command = tuple(None if word in marked else word for word in reading.operands)
    return NestedCommands(commands=((*command, None),), transparent=True, may_run=marked)


def _shell(name: str, words: ShellWords) -> NestedCommands:
    reading = _SHELL_OPTIONS.read(words)
    if reading is None or None in reading.operands[:1]:
        return _unclear_command(name, words)
    if not reading.has("-c"):
        return NestedCommands(opaque=True)  # it runs a script file or its standard input
    if not reading.operands or reading.operands[0] == "-" or (reading.operands[0] or "").startswith("+"):
        return _unclear_command(name, words)  # these are options, too
    return NestedCommands(code=reading.operands[0], transparent=True)


def _eval_or_trap(name: str, words: ShellWords) -> NestedCommands:
    words = words[1:] if words[:1] == ("--",) else words
    if name == "trap":
        if not words or words[0] in ("-", "", "-l", "-p"):
            return NestedCommands(transparent=True)
        words = words[:1]  # the signals follow
    code = [word for word in words if word is not None]
    if len(code) < len(words) or (code and code[0].startswith("-")):
        return _unclear_command(name, words)
    return NestedCommands(code=" ".join(code), transparent=True) if code else NestedCommands(transparent=True)


_FIND_FLAGS: Final = word_set(
    "-H -L -P -O0 -O1 -O2 -O3 -a -and -d -daystart -delete -depth -empty -executable -false -follow "
    "-ignore_readdir_race -ls -mount -nogroup -noignore_readdir_race -noleaf -not -nouser -nowarn -o -or -print "
    "-print0 -prune -quit -readable -true -warn -writable -xdev --help --version -help -version ( ) ! ,"
)
_FIND_VALUED: Final = re.compile(
    r"-(amin|anewer|atime|cmin|cnewer|context|ctime|D|fstype|gid|group|i?lname|i?name|inum|i?path|i?regex|i?wholename"
    r"|links|maxdepth|mindepth|mmin|mtime|newer([aBcm][aBcmt])?|perm|printf|regextype|samefile|size|type|uid|used|user"
    r"|xtype)"
)
_FIND_FILES: Final = {"-fprint": 1, "-fprint0": 1, "-fls": 1, "-fprintf": 2}
"""Actions that write to the file in their first value, with the number of their values."""
_FIND_COMMANDS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


def _find(name: str, words: ShellWords) -> NestedCommands:
    """Return the commands of `find -exec`, with null for words that contain `{}`."""
    commands: list[ShellWords] = []
    written: list[Redirection] = []
    marked: list[str | None] = []
    changes_folder, index = False, 0
    while index < len(words):
        word = words[index]
        index += 1
        if word is None:
            return NestedCommands(unclear="`find` with a word that is only known at run time", may_run=words)
        if word in _FIND_COMMANDS:
            end = _find_command_end(words, index)
            if end is None:
                return _unclear_command(name, words)
            changes_folder = changes_folder or word.endswith("dir")
            marked += [part for part in words[index:end] if "{}" in (part or "")]
            commands.append(tuple(None if "{}" in (part or "") else part for part in words[index:end]))
            index = end + 1
        elif word in _FIND_FILES:
            path = words[index] if index < len(words) else None
            written.append(Redirection(path=path, access=FileAccess.WRITE))
            index += _FIND_FILES[word]
        elif _FIND_VALUED.fullmatch(word):
            if index < len(words) and words[index] is None:
                return NestedCommands(unclear="`find` with a word that is only known at run time", may_run=words)
            index += 1
        elif word.startswith("-") and word not in _FIND_FLAGS:
            return _unclear_command(name, words)
    return NestedCommands(
        commands=tuple(commands),
        redirections=tuple(written),
        may_run=tuple(marked),
        changes_folder=changes_folder,
    )


def _find_command_end(words: ShellWords, start: int) -> int | None:
    """Return the index of the `;`, or of the `+` after `{}`, that ends the command of an `-exec`."""
    for index in range(start, len(words)):
        if index > start and (words[index] == ";" or (words[index] == "+" and words[index - 1] == "{}")):
            return index
        if words[index] is None:
            return None
    return None


def _test(name: str, words: ShellWords) -> NestedCommands:
    if any(word is None or word in ("-v", "-R") for word in words):
        return NestedCommands(unclear=f"`{name}` with a word that may be evaluated as code", may_run=words)
    return NestedCommands(transparent=True)


_PRINTF_ASSIGNMENT: Final = re.compile(r"%[^A-Za-z%]*[hjlLtz]*n")


def _printf(name: str, words: ShellWords) -> NestedCommands:
    """Return nothing for a `printf` that only prints: `-v` and `%n` assign variables."""
    format_words = words[1:2] if words[:1] == ("--",) else words[:1]
    for word in format_words:
        if word is None or word.startswith("-") or _PRINTF_ASSIGNMENT.search(word.replace("%%", "")):
            return NestedCommands(unclear="`printf` with something other than a format", may_run=words)
    return NestedCommands(transparent=True)


def _set(name: str, words: ShellWords) -> NestedCommands:
    if not words or any(word is None or _SAFE_SET_OPTIONS.fullmatch(word) is None for word in words):
        return NestedCommands(unclear="`set` with options that can change what commands mean")
    return NestedCommands(transparent=True)


_READERS: Final[Mapping[str, Callable[[str, ShellWords], NestedCommands]]] = {
    "command": _command,
    "env": _env,
    "xargs": _xargs,
    "eval": _eval_or_trap,
    "trap": _eval_or_trap,
    "find": _find,
    "test": _test,
    "[": _test,
    "printf": _printf,
    "set": _set,
}


def is_transparent_wrapper(name: str) -> bool:
    """Return whether a program only runs another one, so that a rule which allows it would have no effect."""
    return name in ("env", "eval", "trap", "command", "xargs") or (name in _WRAPPERS and _WRAPPERS[name].transparent)
