"""What a server is given of the environment that Holdfast runs in: the variables that its declaration names."""

from collections.abc import Mapping

from holdfast.domain.errors import McpServerFailed
from holdfast.domain.mcp_server import ENV_REFERENCE


def resolved(texts: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return texts with the values of the variables that they name."""
    return {name: _resolve(text, environment) for name, text in texts.items()}


def _resolve(text: str, environment: Mapping[str, str]) -> str:
    missing = [name for name in ENV_REFERENCE.findall(text) if name not in environment]
    if missing:
        raise McpServerFailed(
            f"there is no variable `{missing[0]}` in the environment of Holdfast: set it, or take it out of the "
            "declaration of the server",
            started=False,
        )
    return ENV_REFERENCE.sub(lambda found: environment[found[1]], text)
