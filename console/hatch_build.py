"""Builds the console for the wheel and the sdist, so that an installed Holdfast needs no Node."""

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ConsoleBuildHook(BuildHookInterface[Any]):
    """Runs `npm run build` unless the console is built, as in an sdist."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the console, or fail with what to do."""
        if version == "editable":  # a checkout: `make console` builds it
            return
        index = Path(self.root) / "src/holdfast/console/static/index.html"
        folder = Path(self.root) / "console"
        if not index.is_file():
            try:
                subprocess.run(["npm", "ci"], cwd=folder, check=True)
                subprocess.run(["npm", "run", "build"], cwd=folder, check=True)
            except (OSError, subprocess.CalledProcessError) as exc:
                raise RuntimeError("the console cannot be built: install Node 20 or newer") from exc
        if not index.is_file():
            raise RuntimeError(f"the build of the console made no `{index}`")
