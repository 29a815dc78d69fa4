"""Variables that change what other programs do, or which programs run at all."""

import re
from typing import Final

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CHANGES: Final = re.compile(
    r"PATH|IFS|ENV|HOME|SHELL|SHELLOPTS|BASHOPTS|BASH_.*|LD_.*|DYLD_.*|PROMPT_COMMAND|PS[0-4]|CDPATH|GLOBIGNORE|FUNCNEST"
    r"|POSIXLY_CORRECT|TMOUT|EXECIGNORE|INPUTRC|HIST.*|GIT_.*|SSH_.*|PYTHON.*|PERL.*|RUBY.*|NODE_.*|NPM_.*|npm_.*|LUA_.*"
    r"|JAVA_.*|_JAVA_.*|JDK_.*|CLASSPATH|MAKE.*|GOFLAGS|CARGO_.*|RUSTC.*|RUSTFLAGS|CC|CXX|LESS.*|MAN.*|TAR_.*|GZIP|XZ_.*"
    r"|ZIP.*|UNZIP.*|RSYNC_.*|CURL_.*|WGET.*|AWK.*|TERMINFO.*|TERMCAP|MALLOC_.*|GCONV_PATH|LOCPATH|NLSPATH|RES_OPTIONS"
    r"|HOSTALIASES|.*(EDITOR|VISUAL|PAGER|BROWSER|COMMAND|_OPTS|_OPTIONS|_PATH|_ARGS|_PRELOAD|_SHELL|_ASKPASS|_WRAPPER)"
)


def is_tame(name: str) -> bool:
    """Say whether a variable can be set without changing what programs do."""
    return _NAME.fullmatch(name) is not None and _CHANGES.fullmatch(name) is None


def is_tame_assignment(word: str) -> bool:
    """Say so of `NAME=value`."""
    return is_tame(word.partition("=")[0])
