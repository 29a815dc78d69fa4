"""The commands of the cluster guide work as printed: three replicas and eight workers, on real servers."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.project import ROOT
from tests.support.nats import NatsServer
from tests.support.postgres import PostgresServer

GUIDE: Final = (ROOT / "docs" / "guides" / "cluster.md").read_text()
SECTION: Final = "## From one process to three replicas and eight workers"
TIMEOUT_SECONDS: Final = 400
STOP: Final = "trap 'kill $(jobs -p); wait' EXIT"


def commands(ports: list[int]) -> str:
    """Return the commands of the section as one script, on these ports."""
    section = GUIDE.partition(SECTION)[2].partition("\n## ")[0]
    script = "\n".join(re.findall(r"^```bash\n(.+?)^```", section, re.MULTILINE | re.DOTALL))
    assert script.count("PORTS=(5050 5051 5052)") == 1
    return script.replace("PORTS=(5050 5051 5052)", f"PORTS=({' '.join(map(str, ports))})")


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.mark.slow  # eleven processes start
async def test_the_commands_of_the_guide_lead_to_a_cluster(tmp_path: Path) -> None:
    async with PostgresServer() as postgres, NatsServer() as nats:
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "LANG": "C.UTF-8",
            "DATABASE_URL": await postgres.create_database("cluster"),
            "NATS_URL": nats.url(),
        }
        done = subprocess.run(  # noqa: ASYNC221 - nothing else runs here
            ["bash", "-euc", f"{STOP}\n{commands(free_ports(3))}"],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )
    assert done.returncode == 0, done.stderr
    assert "Hello! You said: Good morning." in done.stdout
    assert all((tmp_path / f"worker-{number}" / ".holdfast").is_dir() for number in range(1, 9))
