from pathlib import Path

import pytest

from tests.unit.tools.files.file_tool_runner import FileToolRunner


@pytest.fixture
def runner(tmp_path: Path) -> FileToolRunner:
    return FileToolRunner(tmp_path)
