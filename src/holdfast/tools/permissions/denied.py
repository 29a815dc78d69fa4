"""Paths that are denied, for whoever meets them without a call that names them: searches, links, and sandboxes.

A tool that walks through folders asks `hides` of each file before it opens or shows it, and one that follows a link
asks it of where that leads. A sandbox puts something empty over what is hidden, and mounts what is kept so that it can
only be read.
"""

from collections.abc import Mapping

import msgspec

from holdfast.domain.agent import Agent
from holdfast.domain.content import Json
from holdfast.tools.permissions.chain import chain_of
from holdfast.tools.permissions.match import Match
from holdfast.tools.permissions.paths import normal, path_pattern
from holdfast.tools.permissions.shell.found import Access
from holdfast.tools.permissions.subjects import BINDING


class DeniedPaths(msgspec.Struct, frozen=True, kw_only=True):
    """Patterns of paths, as rules write them; `**` is everything."""

    hidden: tuple[str, ...] = ()
    """What may not be read."""
    kept: tuple[str, ...] = ()
    """What may not be written."""

    def hides(self, path: str) -> bool:
        """Say whether a path, relative to the working folder or absolute, may not be read."""
        return _any(self.hidden, path)

    def keeps(self, path: str) -> bool:
        """Say whether it may not be written."""
        return _any(self.kept, path)


def denied_paths(agent: Agent, values: Mapping[str, Json]) -> DeniedPaths:
    """Return the paths that are denied to a run of `agent`, by its own rules or by those above it."""
    found: dict[Access, dict[str, None]] = {access: {} for access in Access}
    for _, policy in chain_of(agent, values).links:
        for one in policy.deny:
            if one.tool in BINDING:
                found[BINDING[one.tool]]["**" if one.path is None else one.path.text] = None
    return DeniedPaths(hidden=tuple(found[Access.READ]), kept=tuple(found[Access.WRITE]))


def _any(patterns: tuple[str, ...], path: str) -> bool:
    place = normal(path)
    return any(path_pattern(pattern).match(place) is Match.YES for pattern in patterns)
