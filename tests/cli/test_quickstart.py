"""The commands of the quick start work."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.api.server_process import TIMEOUT_SECONDS, run_server
from tests.architecture.project import ROOT
from tests.cli.batch import run_all

GUIDE: Final = (ROOT / "docs" / "guides" / "quickstart.md").read_text()
ADDRESS: Final = "http://127.0.0.1:5050"


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_first_task_of_the_quick_start_has_the_documented_output(tmp_path: Path) -> None:
    (command,) = re.findall(r"^curl .+/agents/hello/task .+$", GUIDE, re.MULTILINE)
    (documented,) = re.findall(r"^```text\n(.+?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    with run_server(tmp_path, "--quiet") as server:
        command_line = command.replace(ADDRESS, server.url)
        output = subprocess.run(
            command_line, shell=True, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=True
        ).stdout
        task = json.loads(output)["taskId"]
        (followed,) = run_all([["run", "follow", task, "--url", server.url]])
    assert (followed.code, re.sub(r"_[0-9a-f]{32}", "_…", followed.out)) == (0, documented)
