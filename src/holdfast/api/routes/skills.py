"""Routes for skills: custom ones of a space with their versions and archives, the catalog, and the skills of a run."""

from hashlib import sha256
from typing import Annotated, Any, Final
from urllib.parse import quote

import msgspec
from litestar import Request, Response, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, HeaderParameter, JSONBody, QueryParameter
from msgspec import Meta

from holdfast.api.bodies import Id
from holdfast.api.errors import ErrorEnvelope
from holdfast.api.idempotency import REPLAYED_HEADER, IdempotencyKey, keyed_request, replay_headers
from holdfast.api.parameters import Cursor, Limit, PortDependency, space_paths
from holdfast.control.skills import ImportedSkill, RunSkillsView, SkillCatalogView, SkillControl
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.ids import RunId, SkillId, SpaceId
from holdfast.domain.page import DEFAULT_PAGE_SIZE, Page
from holdfast.domain.skill import (
    DEFAULT_CATEGORY,
    CustomSkill,
    ExecutionContract,
    NewSkill,
    SkillContent,
    SkillName,
    SkillPatch,
    SkillText,
    SkillVersion,
)
from holdfast.domain.space import DEFAULT_SPACE
from holdfast.domain.thread import MAX_LOCALE_CHARS
from holdfast.ports.skills import Skills
from holdfast.skills.archive import MAX_ARCHIVE_BYTES

_TAGS: Final = ["skills"]
_ONE: Final = space_paths("/skills/{skill_id:str}")
_ZIP: Final = "application/zip"
_OCTET_STREAM: Final = "application/octet-stream"
"""The type that generators of clients know for a file."""
_ALSO: Final = {"also": {"412": {"application/json": ErrorEnvelope}}}

IfMatch = Annotated[
    str | None,
    HeaderParameter(
        name="If-Match",
        max_length=100,
        description='The `ETag` that the skill was read with, such as `"3"`; a changed one is refused.',
    ),
]


class SkillBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new custom skill."""

    name: SkillName
    description: str
    instructions: str
    id: Annotated[SkillId, Id] | None = None
    triggers: list[str] = []
    tags: list[str] = []
    category: str = DEFAULT_CATEGORY
    priority: Annotated[int, Meta(ge=-1000, le=1000)] = 0
    locale: str | None = None
    translations: dict[str, SkillText] = {}
    license: str | None = None
    compatibility: str | None = None
    allowed_tools: list[str] | None = None
    contract: ExecutionContract = ExecutionContract()
    metadata: dict[str, Json] = {}
    enabled: bool = True

    def new_skill(self) -> NewSkill:
        """Convert to the domain type."""
        content = SkillContent(**{name: getattr(self, name) for name in SkillContent.__struct_fields__})
        return NewSkill(content=content, id=self.id, enabled=self.enabled)


class SkillVersions(msgspec.Struct, frozen=True, kw_only=True):
    """All versions of a skill, oldest first."""

    items: list[SkillVersion]


@get(space_paths("/skills"), summary="List custom skills", tags=_TAGS)
async def list_skills(
    skill_store: PortDependency[Skills],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: Cursor = None,
) -> Page[CustomSkill]:
    """Return the custom skills of a space, newest first, disabled ones too."""
    return await skill_store.page(space_id, limit=limit, cursor=cursor)


@post(
    space_paths("/skills"),
    summary="Create a custom skill",
    tags=_TAGS,
    opt={"headers": {"201": REPLAYED_HEADER}},
)
async def create_skill(
    skills: NamedDependency[SkillControl],
    data: JSONBody[SkillBody],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    key: IdempotencyKey = None,
) -> Response[CustomSkill]:
    """Create a skill that the agents of the space may use from their next run on. A name that is taken is refused."""
    done = await skills.create(space_id, data.new_skill(), request=keyed_request("create_skill", key, [data]))
    return Response(done.value, headers=_etag(done.value) | replay_headers(replayed=done.replayed))


@get(space_paths("/skills/catalog"), summary="Read the skill catalog", tags=_TAGS)
async def read_skill_catalog(
    skills: NamedDependency[SkillControl],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    agent: Annotated[str | None, QueryParameter(max_length=64, description="The agent; by default none.")] = None,
    locale: Annotated[
        str | None, QueryParameter(max_length=MAX_LOCALE_CHARS, description="The language of the descriptions.")
    ] = None,
) -> SkillCatalogView:
    """Return the skills of all sources by name, with what shadows them, whether they can be used, and broken files."""
    return await skills.catalog(space_id, agent=agent, locale=locale)


@post(
    space_paths("/skills/import"),
    summary="Import a skill from an archive",
    tags=_TAGS,
    request_max_body_size=MAX_ARCHIVE_BYTES,
    opt={"body": {_OCTET_STREAM: bytes}, "headers": {"201": REPLAYED_HEADER}},
)
async def import_skill(
    skills: NamedDependency[SkillControl],
    request: Request[Any, Any, Any],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    key: IdempotencyKey = None,
) -> Response[ImportedSkill]:
    """Store the skill of a zip archive with its folder; a skill of the same name gets a new version."""
    archive = await request.body()
    keyed = keyed_request("import_skill", key, [sha256(archive).hexdigest()])
    done = await skills.unpack(space_id, archive, request=keyed)
    return Response(done.value, headers=_etag(done.value.skill) | replay_headers(replayed=done.replayed))


@get(_ONE, summary="Read a custom skill", tags=_TAGS)
async def read_skill(
    skill_store: PortDependency[Skills], skill_id: FromPath[SkillId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> Response[CustomSkill]:
    """Return a skill in its current version; its `ETag` is for `If-Match`."""
    return _response(await skill_store.get(space_id, skill_id))


@patch(_ONE, summary="Change a custom skill", tags=_TAGS, opt=_ALSO)
async def update_skill(
    skills: NamedDependency[SkillControl],
    skill_id: FromPath[SkillId],
    data: JSONBody[SkillPatch],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    if_match: IfMatch = None,
) -> Response[CustomSkill]:
    """Add a version with these changes; earlier versions stay readable, and its files stay."""
    return _response(await skills.update(space_id, skill_id, data, version=_parse_version(if_match)))


@delete(_ONE, summary="Delete a custom skill", tags=_TAGS, opt=_ALSO)
async def delete_skill(
    skill_store: PortDependency[Skills],
    skill_id: FromPath[SkillId],
    space_id: FromPath[SpaceId] = DEFAULT_SPACE,
    if_match: IfMatch = None,
) -> None:
    """Delete a skill with its versions and files. Runs that used it keep their record of it."""
    await skill_store.delete(space_id, skill_id, version=_parse_version(if_match))


@post(space_paths("/skills/{skill_id:str}/enable"), summary="Enable a custom skill", tags=_TAGS, status_code=200)
async def enable_skill(
    skills: NamedDependency[SkillControl], skill_id: FromPath[SkillId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> Response[CustomSkill]:
    """Let agents use a skill again."""
    return _response(await skills.set_enabled(space_id, skill_id, enabled=True))


@post(space_paths("/skills/{skill_id:str}/disable"), summary="Disable a custom skill", tags=_TAGS, status_code=200)
async def disable_skill(
    skills: NamedDependency[SkillControl], skill_id: FromPath[SkillId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> Response[CustomSkill]:
    """Keep a skill, but let no agent use it."""
    return _response(await skills.set_enabled(space_id, skill_id, enabled=False))


@get(space_paths("/skills/{skill_id:str}/versions"), summary="List the versions of a custom skill", tags=_TAGS)
async def list_skill_versions(
    skill_store: PortDependency[Skills], skill_id: FromPath[SkillId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> SkillVersions:
    """Return all versions, oldest first, with who made each and when."""
    return SkillVersions(items=await skill_store.versions(space_id, skill_id))


@get(
    space_paths("/skills/{skill_id:str}/export"),
    summary="Export a custom skill as an archive",
    tags=_TAGS,
    opt={"content": {_ZIP: bytes, _OCTET_STREAM: bytes}},
)
async def export_skill(
    skills: NamedDependency[SkillControl], skill_id: FromPath[SkillId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> Response[bytes]:
    """Return a zip archive with the folder of the skill, in the Agent Skills format."""
    name, archive = await skills.pack(space_id, skill_id)
    headers = {
        "Content-Type": _ZIP,
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}.zip",
    }
    return Response(archive, headers=headers)


@get(space_paths("/runs/{run_id:str}/skills"), summary="Read the skills of a run", tags=["runs"])
async def read_run_skills(
    skills: NamedDependency[SkillControl], run_id: FromPath[RunId], space_id: FromPath[SpaceId] = DEFAULT_SPACE
) -> RunSkillsView:
    """Return what the run chose and why, what it left out, and what became of the contracts."""
    return await skills.of_run(space_id, run_id)


ROUTES: list[HTTPRouteHandler] = [
    list_skills,
    create_skill,
    read_skill_catalog,
    import_skill,
    read_skill,
    update_skill,
    delete_skill,
    enable_skill,
    disable_skill,
    list_skill_versions,
    export_skill,
    read_run_skills,
]


def _response(skill: CustomSkill) -> Response[CustomSkill]:
    return Response(skill, headers=_etag(skill))


def _etag(skill: CustomSkill) -> dict[str, str]:
    return {"ETag": f'"{skill.version}"'}


def _parse_version(if_match: str | None) -> int | None:
    """Return the version of an `If-Match` header, or null for any."""
    if if_match is None or if_match.strip() == "*":
        return None
    number = if_match.strip().removeprefix('"').removesuffix('"')
    if not (number.isascii() and number.isdecimal() and len(number) <= 9):
        raise Invalid('`If-Match` must be the `ETag` of the skill, such as `"3"`', field="If-Match")
    return int(number)
