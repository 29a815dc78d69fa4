"""Versions of agents for people: list them, compare two, and activate an earlier one."""

import asyncio
import json
from hashlib import sha256
from typing import Final, Literal

import msgspec

from holdfast.control.errors import Forbidden
from holdfast.control.principal import Principal
from holdfast.domain.agent_version import AgentBundle, AgentHead, AgentVersion, BundleFile, LeftOutPath
from holdfast.domain.ids import SpaceId
from holdfast.domain.instant import Instant
from holdfast.domain.page import DEFAULT_PAGE_SIZE
from holdfast.ports.workspace import AgentVersions, RunAgents
from holdfast.tools.files.diff import unified_diff

MAX_DIFF_CHARS: Final = 200_000
"""Characters of all diffs in one comparison."""


class AgentVersionView(msgspec.Struct, frozen=True, kw_only=True):
    """A version of an agent, without the contents of its files."""

    agent: str
    digest: str
    active: bool
    """Whether new runs get this version."""
    published_by: str | None
    """Null for a version that was read from files."""
    published_at: Instant
    files: list[BundleFile]
    left_out: list[LeftOutPath]
    """Tools and skills that are not part of the version: runs use them as they are on the server's disk."""


class AgentVersionPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the versions of an agent, the newest first."""

    items: list[AgentVersionView]
    active: str
    """The version of new runs."""
    published: str
    """The version that was published last; it is active unless an earlier one was activated since."""
    changed_by: str | None
    changed_at: Instant
    """When another version became the active one, and who did that; null if a file was edited."""
    next_cursor: str | None = None


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one file between two versions."""

    path: str
    change: Literal["added", "removed", "changed"]
    diff: str | None = None
    """The difference, for texts that a model reads and for `agent.json`; null for tools and other files."""


class AgentVersionDiff(msgspec.Struct, frozen=True, kw_only=True):
    """The difference between two versions of an agent; the addresses of MCP servers are shown as digests."""

    agent: str
    before: str
    after: str
    files: list[FileChange]


class AgentVersionControl:
    """Commands and queries for versions of the agents that a space knows."""

    def __init__(self, versions: AgentVersions, agents: RunAgents, *, principal: Principal) -> None:
        """Record `principal` as the author of activations."""
        self._versions = versions
        self._agents = agents
        self._principal = principal

    async def page(
        self, space: SpaceId, agent: str, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> AgentVersionPage:
        """Return the versions of an agent, the newest first."""
        owner = await self._agents.owner(space, agent)
        head = await self._versions.head(owner, agent)
        page = await self._versions.page(owner, agent, limit=limit, cursor=cursor)
        return AgentVersionPage(
            items=[_view(version, head) for version in page.items],
            active=head.active,
            published=head.published,
            changed_by=head.changed_by,
            changed_at=head.changed_at,
            next_cursor=page.next_cursor,
        )

    async def get(self, space: SpaceId, agent: str, digest: str) -> AgentVersionView:
        """Return a version, by its digest or the first characters of it."""
        owner = await self._agents.owner(space, agent)
        version = await self._versions.get(owner, agent, digest)
        return _view(version, await self._versions.head(owner, agent))

    async def activate(self, space: SpaceId, agent: str, digest: str) -> AgentVersionView:
        """Give new runs a published version, until the agent is edited."""
        owner = await self._agents.owner(space, agent)
        version = await self._versions.get(owner, agent, digest)
        if owner is None and not self._principal.has_all_spaces:
            raise Forbidden("agents of the workspace are those of all spaces: use a key for every space")
        await self._agents.check_usable(agent, version.digest, owner=owner)
        head = await self._versions.activate(owner, agent, version.digest, by=self._principal.name)
        if owner is None:
            await self._agents.follow(head)
        return _view(version, head)

    async def diff(self, space: SpaceId, agent: str, before: str, after: str) -> AgentVersionDiff:
        """Return the difference between two versions."""
        owner = await self._agents.owner(space, agent)
        old, new = [await self._versions.get(owner, agent, digest) for digest in (before, after)]
        changes = _changes(old.bundle, new.bundle)
        texts = []
        for version, files in ((old, [each for each, _ in changes]), (new, [each for _, each in changes])):
            wanted = [file.digest for file in files if file is not None and _is_shown(file.path, agent)]
            texts.append(await self._versions.contents(owner, agent, version.digest, wanted) if wanted else {})
        described = await asyncio.to_thread(_describe, agent, changes, *texts)
        return AgentVersionDiff(agent=agent, before=old.digest, after=new.digest, files=described)


def _view(version: AgentVersion, head: AgentHead) -> AgentVersionView:
    return AgentVersionView(
        agent=version.agent,
        digest=version.digest,
        active=version.digest == head.active,
        published_by=version.published_by,
        published_at=version.published_at,
        files=version.bundle.files,
        left_out=version.bundle.left_out,
    )


def _changes(old: AgentBundle, new: AgentBundle) -> list[tuple[BundleFile | None, BundleFile | None]]:
    """Return the files that differ, each as it was and as it is, by path."""
    before, after = ({file.path: file for file in bundle.files} for bundle in (old, new))
    paths = sorted(before.keys() | after.keys())
    return [(before.get(path), after.get(path)) for path in paths if before.get(path) != after.get(path)]


def _is_shown(path: str, agent: str) -> bool:
    """Return whether the text of a file is shown: what a model reads, and `agent.json`."""
    return path == f"agents/{agent}/agent.json" or (path.endswith(".md") and not path.startswith("tools/"))


def _describe(
    agent: str,
    changes: list[tuple[BundleFile | None, BundleFile | None]],
    before: dict[str, bytes],
    after: dict[str, bytes],
) -> list[FileChange]:
    described, rest = [], MAX_DIFF_CHARS
    for old, new in changes:
        path = (old or new).path  # type: ignore[union-attr]  # one of them is there
        diff = None
        if _is_shown(path, agent) and rest > 0:
            texts = [_text(file, contents) for file, contents in ((old, before), (new, after))]
            diff = unified_diff(*texts, path=path, limit=rest)
            rest -= len(diff)
        change: Literal["added", "removed", "changed"] = "added" if old is None else "removed"
        described.append(FileChange(path=path, change="changed" if old and new else change, diff=diff))
    return described


def _text(file: BundleFile | None, contents: dict[str, bytes]) -> str:
    if file is None:
        return ""
    text = contents[file.digest].decode(errors="replace")
    return _without_addresses(text) if file.path.endswith("/agent.json") else text


def _without_addresses(text: str) -> str:
    """Return an `agent.json` without what the API does not show: the addresses and commands of MCP servers."""
    settings = json.loads(text)
    if isinstance(settings, dict) and isinstance(servers := settings.get("mcp_servers"), dict):
        digests = {
            name: sha256(json.dumps(each, sort_keys=True).encode()).hexdigest() for name, each in servers.items()
        }
        settings["mcp_servers"] = {name: f"sha256:{digest[:16]}" for name, digest in digests.items()}
    return json.dumps(settings, indent=2, ensure_ascii=False) + "\n"


def _digest(value: object) -> str:
    return f"sha256:{sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]}"
