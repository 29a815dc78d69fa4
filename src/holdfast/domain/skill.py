"""Skills: instructions for one kind of work, in the Agent Skills format, with a contract about what the work produces.

    agent ──► workspace ──► space ──► official ──► folder      the first source that has a name wins

A skill only adds text to a prompt and narrows tools. It never widens the permissions of an agent.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from holdfast.domain.artifact import ArtifactType
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid, TooLarge, VersionChanged
from holdfast.domain.ids import SkillId, SpaceId
from holdfast.domain.instant import Instant
from holdfast.domain.linear_regex import LinearRegex
from holdfast.domain.validation import check_text

MAX_NAME_CHARS: Final = 128
FORMAT_NAME_CHARS: Final = 64
"""The longest name that the format allows; a longer one is a warning."""
MAX_DESCRIPTION_CHARS: Final = 2_000
MAX_INSTRUCTIONS_CHARS: Final = 50_000
MAX_TRIGGERS: Final = 64
MAX_TRIGGER_CHARS: Final = 600
MAX_TAG_CHARS: Final = 100
MAX_SKILL_TAGS: Final = 32
MAX_LIST_ITEMS: Final = 64
"""Items of each list of a contract, and of `allowed-tools`."""
MAX_ITEM_CHARS: Final = 200
MAX_METADATA_BYTES: Final = 16 * 1024
MAX_TRANSLATIONS: Final = 10
MAX_SKILL_FILES: Final = 100
MAX_SKILL_FILE_BYTES: Final = 1024 * 1024
MAX_SKILL_BYTES: Final = 5 * 1024 * 1024
"""All files of a skill together."""
DEFAULT_CATEGORY: Final = "custom"
TEMPLATE_FOLDER: Final = "assets"

NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,127}\Z"
NAME_EXPECTED: Final = "1 to 128 letters, digits, `-` or `_`, beginning with a letter or a digit"
_NAME: Final = re.compile(NAME_PATTERN)
MAX_PRIORITY: Final = 1_000
_LOCALE: Final = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,3}")
_CONTROL_CHARACTERS: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")

SkillName: TypeAlias = Annotated[str, Meta(pattern=NAME_PATTERN, extra={"expected": NAME_EXPECTED})]
DurableOutput: TypeAlias = Literal["artifact", "reminder", "repo", "app", "workspace_file"]
OutputMode: TypeAlias = Literal["chat", "artifact", "reminder", "repo", "app", "workspace_file"]


class SkillSource(StrEnum):
    """Where a skill comes from, in the order of precedence."""

    AGENT = "agent"
    """`skills/` in the folder of the agent."""
    WORKSPACE = "workspace"
    """`skills/` in the workspace."""
    SPACE = "space"
    """A custom skill of the space, in the store."""
    OFFICIAL = "official"
    """A skill that comes with Holdfast."""
    FOLDER = "folder"
    """`.agents/skills` in the working folder; untrusted, and read only if the settings say so."""

    @property
    def rank(self) -> int:
        """Rank by precedence; the lowest wins."""
        return _SOURCE_RANKS[self]


_SOURCE_RANKS: Final = {source: rank for rank, source in enumerate(SkillSource)}


class ArtifactProduct(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="artifact"
):
    """The run must create an artifact."""

    type: ArtifactType | None = None
    title: str | None = None
    """A regular expression (RE2) that its title must match, in any case."""


class ReminderProduct(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="reminder"
):
    """The run must set a reminder."""


class FileProduct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="file"):
    """The run must write a file."""

    path: str
    """A path in the working folder: a file, a folder that ends with `/`, or a pattern with `*`."""


class PlanProduct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="plan"):
    """The run must have a plan whose items are all completed."""


Product: TypeAlias = ArtifactProduct | ReminderProduct | FileProduct | PlanProduct


class ExecutionContract(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a skill needs, and what it promises to produce."""

    preferred_tools: list[str] = []
    """Tools that it works best with; a missing one is a warning."""
    required_tools: list[str] = []
    """Tools without which it is unavailable."""
    required_mcp_servers: list[str] = []
    template_ids: list[str] = []
    """Files in its `assets/`, by name without ending, without which it is unavailable."""
    output_modes: list[OutputMode] = msgspec.field(default_factory=lambda: ["chat"])
    durable_output_hints: list[DurableOutput] = []
    must_produce: list[Product] = []
    """What a run must have produced when it ends."""


class SkillFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a skill beside its instructions."""

    path: str
    """Relative to the skill, such as `references/style.md`."""
    size: int
    digest: str


class SkillText(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a skill in one language."""

    description: str
    instructions: str
    triggers: list[str] = []


class SkillContent(msgspec.Struct, frozen=True, kw_only=True):
    """What a `SKILL.md` says."""

    name: str
    description: str
    instructions: str
    triggers: list[str] = []
    """Phrases of requests that it is for; the words of one must occur in this order, near each other."""
    tags: list[str] = []
    category: str = DEFAULT_CATEGORY
    priority: int = 0
    """Decides between skills of the same relevance; higher first."""
    locale: str | None = None
    """The language of its text."""
    translations: dict[str, SkillText] = {}
    """Its text in other languages."""
    license: str | None = None
    compatibility: str | None = None
    allowed_tools: list[str] | None = None
    """Rules for the tools that may be called while it is active; null does not narrow them."""
    contract: ExecutionContract = ExecutionContract()
    metadata: dict[str, Json] = {}
    """Other metadata of its file, kept as it is."""

    def in_locale(self, locale: str) -> SkillText:
        """Return its text in a language, or else in its own."""
        language = locale.partition("-")[0].lower()
        found = self.translations.get(language)
        if found is None or self.locale == language:
            return SkillText(description=self.description, instructions=self.instructions, triggers=self.triggers)
        return found


class Skill(SkillContent, frozen=True, kw_only=True):
    """A skill of one source, as a run sees it."""

    id: SkillId
    source: SkillSource
    version: int = 1
    files: list[SkillFile] = []
    folder: str | None = None
    """Its folder on this machine, if it has one; never shown to clients."""
    digest: str = ""
    warnings: list[str] = []
    """What is not as the format wants it, but was accepted."""

    def __post_init__(self) -> None:
        if not self.digest:
            msgspec.structs.force_setattr(self, "digest", content_digest(self, self.files))

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def templates(self) -> frozenset[str]:
        """The ids of its templates."""
        names = [file.path.rpartition("/") for file in self.files]
        return frozenset(name.partition(".")[0] for folder, _, name in names if folder == TEMPLATE_FOLDER)


class SkillSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of skills."""

    working_folders: Annotated[
        bool, Meta(description="Whether `.agents/skills` of working folders is read; its text is untrusted.")
    ] = False
    catalog_tokens: Annotated[
        int, Meta(ge=0, le=100_000, description="Tokens of the list of skills in a prompt; others are only named.")
    ] = 2_000
    active_tokens: Annotated[
        int, Meta(ge=0, le=1_000_000, description="Tokens of the instructions of active skills in a prompt.")
    ] = 12_000
    file_tokens: Annotated[
        int, Meta(ge=0, le=1_000_000, description="Tokens of one file of a skill that the model reads.")
    ] = 8_000


class ContractPolicy(StrEnum):
    """What happens when a run would end and the contract of an active skill is not kept."""

    RECORD = "record"
    """The run ends, and its log says what is missing."""
    ENFORCE = "enforce"
    """The model is told what is missing, twice at most, before the run ends."""


class BrokenSkill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill with invalid files, and the error; other skills are not affected."""

    name: str
    source: SkillSource
    file: str
    message: str


class CustomSkill(SkillContent, frozen=True, kw_only=True):
    """A custom skill of a space, in its current version."""

    id: SkillId
    space_id: SpaceId
    enabled: bool
    version: int
    files: list[SkillFile]
    created_by: str | None
    created_at: Instant
    updated_by: str | None
    updated_at: Instant


class NewSkill(msgspec.Struct, frozen=True, kw_only=True):
    """A custom skill to create; `contents` are its files by path."""

    content: SkillContent
    id: SkillId | None = None
    enabled: bool = True
    contents: Mapping[str, bytes] = {}
    created_by: str | None = None


class SkillPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes of a custom skill; an absent field stays as it is."""

    name: SkillName | UnsetType = UNSET
    description: str | UnsetType = UNSET
    instructions: str | UnsetType = UNSET
    triggers: list[str] | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    category: str | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    locale: str | None | UnsetType = UNSET
    translations: dict[str, SkillText] | UnsetType = UNSET
    license: str | None | UnsetType = UNSET
    compatibility: str | None | UnsetType = UNSET
    allowed_tools: list[str] | None | UnsetType = UNSET
    contract: ExecutionContract | UnsetType = UNSET
    metadata: dict[str, Json] | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET


class SkillVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a custom skill: what it said, and who changed it when."""

    version: int
    enabled: bool
    content: SkillContent
    files: list[SkillFile]
    changed_by: str | None
    created_at: Instant


def content_of(skill: SkillContent) -> SkillContent:
    """Return only the content of a skill."""
    return SkillContent(**{name: getattr(skill, name) for name in SkillContent.__struct_fields__})


def content_digest(content: SkillContent, files: list[SkillFile]) -> str:
    """Return a digest of what a skill says and contains."""
    encoded = msgspec.json.encode([content_of(content), files], order="sorted")
    return sha256(encoded).hexdigest()[:32]


def describe_files(contents: Mapping[str, bytes]) -> list[SkillFile]:
    """Return the descriptions of files, by path."""
    return [
        SkillFile(path=path, size=len(content), digest=sha256(content).hexdigest())
        for path, content in sorted(contents.items())
    ]


def apply_patch(skill: CustomSkill, patch: SkillPatch) -> tuple[SkillContent, bool]:
    """Return the content and state of a skill after a patch; one that changes nothing raises `Invalid`."""
    changes = {name: value for name, value in msgspec.structs.asdict(patch).items() if value is not UNSET}
    if not changes:
        raise Invalid("the patch changes nothing: name at least one field")
    enabled = changes.pop("enabled", skill.enabled)
    content = replace(content_of(skill), **changes)
    check_skill_content(content)
    return content, enabled


def check_expected_version(skill: CustomSkill, version: int | None) -> None:
    """Raise `VersionChanged` if a change was made for another version than the current one."""
    if version is not None and version != skill.version:
        raise VersionChanged(
            f"skill `{skill.name}` has version {skill.version} by now: read it again, then repeat the change",
            id=skill.id,
            version=skill.version,
        )


def check_skill_name(name: str) -> str:
    """Return `name` if it is a valid name of a skill."""
    if _NAME.match(name) is None:
        raise Invalid(f"a skill's name must be {NAME_EXPECTED}", field="name")
    return name


def is_language(text: str) -> bool:
    """Return whether a text can be the language of a translation, and so a part of a file's name."""
    return text.isascii() and text.isalpha() and text.islower() and 2 <= len(text) <= 8


def check_skill_content(content: SkillContent) -> None:
    """Raise if a skill cannot be used as written."""
    check_skill_name(content.name)
    _check_words(content.description, field="description", max_chars=MAX_DESCRIPTION_CHARS, required=True)
    _check_words(content.instructions, field="instructions", max_chars=MAX_INSTRUCTIONS_CHARS)
    _check_words(content.category, field="category", max_chars=MAX_ITEM_CHARS)
    for field in ("license", "compatibility"):
        if (text := getattr(content, field)) is not None:
            _check_words(text, field=field, max_chars=MAX_DESCRIPTION_CHARS)
    if abs(content.priority) > MAX_PRIORITY:
        raise Invalid(f"`priority` must be between {-MAX_PRIORITY} and {MAX_PRIORITY}", field="priority")
    if content.locale is not None and _LOCALE.fullmatch(content.locale) is None:
        raise Invalid("`locale` must be a language, such as `en`, `ja` or `en-GB`", field="locale")
    _check_list(content.triggers, field="triggers", most=MAX_TRIGGERS, max_chars=MAX_TRIGGER_CHARS)
    _check_list(content.tags, field="tags", most=MAX_SKILL_TAGS, max_chars=MAX_TAG_CHARS)
    _check_list(content.allowed_tools or [], field="allowed_tools", most=MAX_LIST_ITEMS, max_chars=MAX_ITEM_CHARS)
    if len(content.translations) > MAX_TRANSLATIONS:
        raise Invalid(f"a skill may have at most {MAX_TRANSLATIONS} translations", field="translations")
    for language, text in content.translations.items():
        if not is_language(language):
            raise Invalid("the keys of `translations` must be languages, such as `en` or `ja`", field="translations")
        _check_words(text.description, field="translations", max_chars=MAX_DESCRIPTION_CHARS, required=True)
        _check_words(text.instructions, field="translations", max_chars=MAX_INSTRUCTIONS_CHARS)
        _check_list(text.triggers, field="translations", most=MAX_TRIGGERS, max_chars=MAX_TRIGGER_CHARS)
    if len(msgspec.json.encode(content.metadata)) > MAX_METADATA_BYTES:
        raise TooLarge(f"`metadata` may have at most {MAX_METADATA_BYTES} bytes", field="metadata")
    _check_contract(content.contract)


def _check_contract(contract: ExecutionContract) -> None:
    for field in ("preferred_tools", "required_tools", "required_mcp_servers", "template_ids"):
        _check_list(getattr(contract, field), field=field, most=MAX_LIST_ITEMS, max_chars=MAX_ITEM_CHARS)
    if len(contract.must_produce) > MAX_LIST_ITEMS:
        raise Invalid(f"`must_produce` may have at most {MAX_LIST_ITEMS} items", field="must_produce")
    for product in contract.must_produce:
        if isinstance(product, ArtifactProduct) and product.title is not None:
            _check_words(product.title, field="must_produce", max_chars=MAX_ITEM_CHARS)
            _check_pattern(product.title)
        if isinstance(product, FileProduct):
            _check_words(product.path, field="must_produce", max_chars=MAX_ITEM_CHARS)
            if not product.path.strip() or product.path.startswith("/") or ".." in product.path.split("/"):
                raise Invalid("the path of a file to produce must be inside the working folder", field="must_produce")


def _check_pattern(pattern: str) -> None:
    try:
        LinearRegex(pattern)
    except Invalid as exc:
        raise Invalid(exc.message, field="must_produce") from exc


def _check_words(text: str, *, field: str, max_chars: int, required: bool = False) -> None:
    check_text(text, field=field, max_chars=max_chars)
    if _CONTROL_CHARACTERS.search(text) is not None:
        raise Invalid(f"`{field}` contains a control character: remove it", field=field)
    if required and not text.strip():
        raise Invalid(f"`{field}` is empty: say what the skill does, and when to use it", field=field)


def _check_list(items: list[str], *, field: str, most: int, max_chars: int) -> None:
    if len(items) > most:
        raise Invalid(f"`{field}` may have at most {most} items", field=field)
    for item in items:
        _check_words(item, field=field, max_chars=max_chars)
        if not item.strip():
            raise Invalid(f"`{field}` has an empty item: remove it", field=field)
