"""The distribution of Holdfast and its extras: what each is for, whether it is installed, and the command that does."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

DISTRIBUTION: Final = "holdfast-agents"
EXTRA_MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "anthropic": ("pydantic_ai", "anthropic"),
    "memory": ("wordllama", "tokenizers", "safetensors"),
    "nats": ("nats",),
    "onnx": ("onnxruntime", "tokenizers"),
    "openai": ("pydantic_ai", "openai"),
    "otel": ("opentelemetry.sdk",),
    "postgres": ("asyncpg",),
    "uvloop": ("uvloop",),
    "web": ("html_to_markdown",),
    "worker": ("aiohttp",),
}
"""The modules that each extra of `pyproject.toml` installs."""


def install_command(extra: str) -> str:
    """Return the command that installs an extra of Holdfast."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def is_installed(module: str) -> bool:
    """Return whether a module can be imported, without importing it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the parent of a submodule
        return False


def has_extra(extra: str) -> bool:
    """Return whether the modules of an extra are installed."""
    return all(map(is_installed, EXTRA_MODULES[extra]))
