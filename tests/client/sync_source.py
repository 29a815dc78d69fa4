"""The modules of `holdfast.client.sync`, generated from those of the async client: no `await`, no event loop.

`python -m tests.client.sync_source` writes them.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.architecture.project import PACKAGE

CLIENT: Final = PACKAGE / "client"
MODULES: Final = ("client", "connection", "resources")
_REPLACEMENTS: Final = (
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\basync ", ""),
    (r"\bhttpx2\.Async(Client|BaseTransport)\b", r"httpx2.\1"),
    (r"\bAbstractAsyncContextManager\b", "AbstractContextManager"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\b__aenter__\b", "__enter__"),
    (r"\b__aexit__\b", "__exit__"),
    (r"\baclose\b", "close"),
    (r"\baclosing\b", "closing"),
    (r"\bAsyncGenerator\[(\w+), None\]", r"Generator[\1, None, None]"),
    (r"\bAsyncGenerator\b", "Generator"),
    (r"\baread\b", "read"),
    (r"\baiter_bytes\b", "iter_bytes"),
    (r"\bimport asyncio\b", "import time"),
    (r"\basyncio\.sleep\b", "time.sleep"),
    (r"\bholdfast\.client\.(client|connection|resources)\b", r"holdfast.client.sync.\1"),
    (r"(?<!httpx2\.)\b(Client|Connection|EventConnection|Remote[A-Z]\w+)\b(?!Error)", r"Sync\1"),
)


def sync_source(module: str) -> str:
    """Return the source of a sync module."""
    source = (CLIENT / f"{module}.py").read_text()
    for pattern, replacement in _REPLACEMENTS:
        source = re.sub(pattern, replacement, source)
    ruff = str(Path(sys.executable).with_name("ruff"))
    for command in ([ruff, "check", "-q", "--select", "I,F811,F401", "--fix-only"], [ruff, "format", "-q"]):
        target = ["--stdin-filename", str(CLIENT / "sync" / f"{module}.py"), "-"]
        source = subprocess.run([*command, *target], input=source, capture_output=True, text=True, check=True).stdout
    return f"# Generated from the async client: run `python -m tests.client.sync_source` to write it.\n{source}"


if __name__ == "__main__":
    (CLIENT / "sync").mkdir(exist_ok=True)
    (CLIENT / "sync" / "__init__.py").write_text('"""The client without async, generated from the async one."""\n')
    for name in MODULES:
        (CLIENT / "sync" / f"{name}.py").write_text(sync_source(name))
