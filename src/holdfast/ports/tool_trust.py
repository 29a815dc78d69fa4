"""What the tools of others said of themselves when they were trusted."""

from collections.abc import Mapping
from typing import Protocol

from holdfast.domain.ids import SpaceId


class ToolTrust(Protocol):
    """Trust on first use: what a tool says of itself is trusted when it is first seen, and never again unasked."""

    async def trusted(self, space: SpaceId, source: str, digests: Mapping[str, str]) -> dict[str, str]:
        """Return the digest that is trusted of each tool of a source; one never seen before is trusted as it is now.

        `digests` are those of the tools as they are now, by name. Two who see a tool first at once agree on one.
        """

    async def trust(self, space: SpaceId, source: str, tool: str, digest: str) -> None:
        """Trust a tool as it is now, and no longer as it was."""
