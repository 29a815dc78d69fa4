"""Versions of an agent: everything that its folder says, as an immutable bundle of files that its digest names.

A bundle has the layout of a small workspace, so that the same code reads both:

    agents/<name>/    agent.json, AGENT.md, SOUL.md, heartbeats, skills and the scripts of scripted models
    skills/ tools/    the shared skills and the custom tools that the agent may use

A run is executed from the version with which it was created, whatever happens to the files meanwhile.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.domain.agent import Permissions, check_agent_name
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid, TooLarge
from holdfast.domain.instant import Instant

MAX_BUNDLE_FILES: Final = 5_000
MAX_BUNDLE_BYTES: Final = 32 * 1024 * 1024
MAX_PATH_CHARS: Final = 512
MIN_DIGEST_PREFIX_CHARS: Final = 8
MAX_SPACE_AGENTS: Final = 200
"""Agents that a space may have of its own."""

_DIGEST_CHARS: Final = 64
_HEX: Final = frozenset("0123456789abcdef")


class BundleFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a bundle; its path is relative to the bundle."""

    path: str
    size: int
    digest: str
    executable: bool = False


class LeftOutPath(msgspec.Struct, frozen=True, kw_only=True):
    """A tool or skill that is not part of a bundle, and why: it is used as it is on the disk of the server."""

    path: str
    reason: str


class AgentBundle(msgspec.Struct, frozen=True, kw_only=True):
    """What a version consists of, without the contents of its files."""

    agent: str
    folder: str
    """The folder that paths of scripts are relative to."""
    files: list[BundleFile]
    """By path."""
    left_out: list[LeftOutPath] = []

    @property
    def digest(self) -> str:
        """The digest that names the version."""
        return sha256(msgspec.json.encode(self, order="sorted")).hexdigest()


class NewAgentVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version to publish, with the contents of its files by digest."""

    bundle: AgentBundle
    digest: str
    contents: Mapping[str, bytes]


class AgentVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A published version of an agent."""

    agent: str
    digest: str
    bundle: AgentBundle
    published_by: str | None
    published_at: Instant


class AgentHead(msgspec.Struct, frozen=True, kw_only=True):
    """Which version of an agent new runs get."""

    agent: str
    published: str
    """The version that was published last."""
    active: str
    """The version of new runs: the published one, unless an earlier one was activated since."""
    changed_by: str | None
    changed_at: Instant


class AgentDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as a request defines it: what its files would say."""

    settings: dict[str, Json]
    """The content of `agent.json`."""
    instructions: str
    """The text of `AGENT.md`."""
    soul: str | None = None
    """The text of `SOUL.md`."""
    scripts: dict[str, dict[str, Json]] = {}
    """The scripts of `scripted:` models, by file name."""


class AgentPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes of the definition of an agent; absent fields stay."""

    settings: dict[str, Json] | UnsetType = UNSET
    """Merged with the content of `agent.json`: null removes a key that cannot be null."""
    instructions: str | UnsetType = UNSET
    soul: str | UnsetType | None = UNSET
    """Null removes it."""
    scripts: dict[str, dict[str, Json] | None] | UnsetType = UNSET
    """Scripts to write, by file name; null removes one."""


class LiveRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of an agent that hold in running runs too, whatever their version says."""

    deny: Sequence[str] = ()
    ask: Sequence[str] = ()
    granted: Sequence[str] = ()
    """The rules of `permissions.json`; those that were removed no longer hold."""

    def applied_to(self, permissions: Permissions) -> Permissions:
        """Return the permissions of a version with the rules that were added since: they only narrow it."""
        deny, ask = (
            [*own, *(rule for rule in live if rule not in own)]
            for own, live in ((permissions.deny, self.deny), (permissions.ask, self.ask))
        )
        if len(deny) == len(permissions.deny) and len(ask) == len(permissions.ask):
            return permissions
        return Permissions(deny=deny, ask=ask, allow=permissions.allow)


def make_bundle(
    agent: str,
    contents: Mapping[str, bytes],
    *,
    folder: str,
    executable: frozenset[str] = frozenset(),
    left_out: Sequence[LeftOutPath] = (),
) -> NewAgentVersion:
    """Return the version with these files, by path."""
    digests = {path: sha256(content).hexdigest() for path, content in contents.items()}
    files = [
        BundleFile(path=path, size=len(contents[path]), digest=digests[path], executable=path in executable)
        for path in sorted(contents)
    ]
    bundle = AgentBundle(agent=agent, folder=folder, files=files, left_out=sorted(left_out, key=lambda each: each.path))
    by_digest = {digests[path]: content for path, content in contents.items()}
    return NewAgentVersion(bundle=bundle, digest=bundle.digest, contents=by_digest)


def check_new_version(new: NewAgentVersion) -> None:
    """Raise unless a version can be published: safe paths, contents that match their digests, and within the limits."""
    check_bundle(new.bundle)
    if new.digest != new.bundle.digest:
        raise Invalid("the digest is not that of the version", field="digest")
    for file in new.bundle.files:
        check_content(file, new.contents.get(file.digest))


def check_bundle(bundle: AgentBundle) -> None:
    """Raise unless the paths and sizes of a bundle are acceptable."""
    check_agent_name(bundle.agent)
    if len(bundle.files) > MAX_BUNDLE_FILES or sum(file.size for file in bundle.files) > MAX_BUNDLE_BYTES:
        raise TooLarge(
            f"a version of agent `{bundle.agent}` may have at most {MAX_BUNDLE_FILES} files and {MAX_BUNDLE_BYTES} "
            "bytes: move what does not belong to its tools and skills to another folder"
        )
    paths = [file.path for file in bundle.files]
    if len(set(paths)) != len(paths):
        raise Invalid("a version names a file twice", field="files")
    for path in paths if bundle.folder == "" else [*paths, bundle.folder]:
        steps = path.split("/")
        if len(path) > MAX_PATH_CHARS or "\x00" in path or any(step in ("", ".", "..") for step in steps):
            raise Invalid("a version has a file whose path leaves its folder", field="files")


def check_content(file: BundleFile, content: bytes | None) -> bytes:
    """Return the content of a file if it is what the bundle says."""
    if content is None or len(content) != file.size or sha256(content).hexdigest() != file.digest:
        raise Invalid(f"the content of `{file.path}` does not match its digest", field="files")
    return content


def check_digest_prefix(digest: str) -> str:
    """Return `digest` if it can name a version, in full or by its first characters."""
    if not MIN_DIGEST_PREFIX_CHARS <= len(digest) <= _DIGEST_CHARS or not _HEX.issuperset(digest):
        raise Invalid(
            f"a version is named by its digest, or by at least the first {MIN_DIGEST_PREFIX_CHARS} characters of it: "
            "only 0-9 and a-f",
            field="digest",
        )
    return digest
