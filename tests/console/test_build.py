"""The build: its size, its repeatability, the pure tests, and what the wheel contains."""

import hashlib
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

import pytest

from holdfast.console.shelf import STATIC_FOLDER
from tests.architecture.project import ROOT
from tests.cli.reference import all_commands

CONSOLE: Final = ROOT / "console"
MAX_TOTAL_BYTES: Final = 150 * 1024
MAX_FIRST_SCREEN_BYTES: Final = 60 * 1024
LAYERS: Final = {"app": 5, "screens": 4, "parts": 3, "live": 2, "log": 1, "api": 0, "words": 0, "style": 0}
built = pytest.mark.skipif(
    not (STATIC_FOLDER / "index.html").is_file(), reason="the console is not built: `make console`"
)
_CLASS_NAMES: Final = re.compile(r"""class=(?:\{[^}]*?)?["`]([^"`]*)["`]""")
node = pytest.mark.skipif(
    shutil.which("node") is None or not (CONSOLE / "node_modules").is_dir(),
    reason="there is no Node, or `make console` has not installed what the console is built with",
)


def gzip_size(path: Path) -> int:
    """Return the size of a file as it is sent."""
    compressed = path.with_name(path.name + ".gz")
    return (compressed if compressed.is_file() else path).stat().st_size


@built
def test_all_of_it_and_the_first_screen_are_small() -> None:
    files = [path for path in (STATIC_FOLDER / "assets").iterdir() if path.suffix in (".js", ".css")]
    assert sum(map(gzip_size, files)) <= MAX_TOTAL_BYTES
    index = (STATIC_FOLDER / "index.html").read_text()
    first = [STATIC_FOLDER / name for name in re.findall(r"/console/(assets/[\w.-]+\.(?:js|css))", index)]
    assert first
    assert sum(map(gzip_size, first)) <= MAX_FIRST_SCREEN_BYTES


@node
def test_the_pure_tests_pass() -> None:
    done = subprocess.run(["npm", "test"], cwd=CONSOLE, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@node
def test_two_builds_have_the_same_hashes(tmp_path: Path) -> None:
    hashes = []
    for name in ("one", "two"):
        command = ["npx", "--no-install", "vite", "build", "--outDir", str(tmp_path / name)]
        subprocess.run(command, cwd=CONSOLE, check=True, capture_output=True, timeout=120)
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        hashes.append(
            {str(path.relative_to(tmp_path / name)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
        )
    assert hashes[0] == hashes[1]
    assert len(hashes[0]) > 5


def test_imports_point_down_and_screens_do_not_see_each_other() -> None:
    wrong = []
    for path in (CONSOLE / "src").rglob("*.ts*"):
        layer, *rest = path.relative_to(CONSOLE / "src").parts
        for target in re.findall(r"""(?:from|import)\s*\(?["'](\.[^"']+)["']""", path.read_text()):
            other = (path.parent / target).resolve().relative_to(CONSOLE / "src").parts
            is_down = LAYERS[other[0]] < LAYERS[layer] or other[0] == layer
            same_screen = layer != "screens" or other[0] != "screens" or other[1] == rest[0]
            if not (is_down and same_screen):
                wrong.append(f"{path.relative_to(CONSOLE)}: {target}")
    assert wrong == []


def test_the_stylesheet_of_a_screen_styles_no_other_screen() -> None:
    """Stylesheets stay once they are loaded: a list may not look different after a thread was shown."""
    sources = {path: path.read_text() for path in (CONSOLE / "src").rglob("*.tsx")}
    classes = {path: set(re.findall(r"[\w-]+", " ".join(_CLASS_NAMES.findall(text)))) for path, text in sources.items()}
    leaks = []
    for sheet in (CONSOLE / "src" / "screens").rglob("*.css"):
        others = [path for path in sources if sheet.parent not in path.parents]
        rules = re.findall(r"([^{}]+)\{", re.sub(r"/\*.*?\*/", "", sheet.read_text(), flags=re.DOTALL))
        for selector in {each.strip() for rule in rules if "@" not in rule for each in re.split(r",(?![^(]*\))", rule)}:
            head = re.sub(r":[\w-]+(\([^)]*\))?", "", re.split(r"(?<=[\w)\]])\s*[ >+~]", selector)[0])
            names, tag = set(re.findall(r"\.([\w-]+)", head)), re.match(r"[a-z]\w*", head)
            for path in others:
                if names <= classes[path] if names else tag and f"<{tag[0]}" in sources[path]:
                    leaks.append(f"{sheet.name}: {selector}: {path.name}")
    assert leaks == []


def test_files_are_short() -> None:
    files = [path for path in (CONSOLE / "src").rglob("*.ts*") if not path.name.endswith("schema.d.ts")]
    assert [path.name for path in files if len(path.read_text().splitlines()) > 300] == []


def test_every_command_that_the_console_names_exists() -> None:
    words = (CONSOLE / "src" / "words" / "en.ts").read_text()
    named = re.findall(r"holdfast ((?:[a-z]+ )+)", words)
    known = {name.removeprefix("holdfast ") for name, _ in all_commands()}
    assert len(named) >= 4 and [each for each in named if each.strip() not in known] == []


def test_the_lock_names_no_registry() -> None:
    assert '"resolved"' not in (CONSOLE / "package-lock.json").read_text()


@built
def test_the_wheel_contains_the_console(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "holdfast/console/static/index.html" in names
    assert {path.name for path in (STATIC_FOLDER / "assets").iterdir()} <= {Path(name).name for name in names}
    assert [name for name in names if name.startswith("console/") or "node_modules" in name] == []
