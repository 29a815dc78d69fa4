"""The entry point of `holdfast`. It imports nothing before Ctrl-C is handled: importing the commands takes a while."""

import gc
import sys
from typing import Final

EXIT_INTERRUPTED: Final = 130
"""The conventional exit code after Ctrl-C."""


def main() -> None:
    """Run the command line application."""
    try:
        gc.disable()  # imports leave no garbage, and looking for it is a tenth of the time of `--help`
        from holdfast.cli.app import run_app

        gc.enable()
        run_app()
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
