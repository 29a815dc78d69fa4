"""`SKILL.md`: YAML frontmatter and instructions in Markdown, in the open Agent Skills format.

    ---
    name: release-notes
    description: Write release notes from merged changes. Use it when a version is about to be published.
    metadata: {triggers: [release notes], execution_contract: {must_produce: [{kind: artifact, type: doc}]}}
    ---
    Read the changes since the last tag …

Everything that Holdfast adds to the format is under `metadata`, so that other programs can read the same file. Where
the format's guide for clients asks for leniency, a deviation is a warning: an unquoted value with a colon, a name that
differs from the folder or is too long, an unknown key. Anything else is an error with its line.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn

import msgspec
import yaml
from yaml.composer import ComposerError

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid, TooLarge
from holdfast.domain.skill import (
    DEFAULT_CATEGORY,
    FORMAT_NAME_CHARS,
    MAX_INSTRUCTIONS_CHARS,
    MAX_PRIORITY,
    ExecutionContract,
    SkillContent,
    SkillText,
    check_skill_content,
    check_skill_name,
    is_language,
)
from holdfast.domain.validation import explain_validation_error, format_message

SKILL_FILE_NAME: Final = "SKILL.md"
MAX_FRONTMATTER_CHARS: Final = 64 * 1024
MAX_YAML_NODES: Final = 2_000
MAX_YAML_DEPTH: Final = 20

_FENCE: Final = "---"
_FORMAT_KEYS: Final = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed-tools"})
_OWN_KEYS: Final = ("triggers", "activation_tags", "category", "priority", "locale", "execution_contract")
"""Keys under `metadata` that Holdfast reads."""
_OUTPUT_MODE_ALIASES: Final = {"text": "chat", "structured": "chat"}
_PLAIN_STARTS: Final = frozenset("\"'[{|>&*!%@`#")
"""Characters that a YAML value without quotes does not begin with."""


class ParsedSkill(msgspec.Struct, frozen=True, kw_only=True):
    """What a `SKILL.md` says, and what is not quite as the format wants it."""

    content: SkillContent
    warnings: list[str] = []


def parse_skill(text: str, *, file: str, folder_name: str | None = None) -> ParsedSkill:
    """Return the skill that a file defines, or raise `Invalid` with the file and line.

    In a folder, the name is that of the folder.
    """
    front = _Frontmatter(text, file=file)
    warnings = list(front.warnings)
    written = front.text("name")
    name = folder_name or written
    if name is None:
        front.fail("name", "is missing: give the skill a name")
    if written is None:
        warnings.append("it has no `name`")
    elif name != written:
        front.check_name(written)
        warnings.append(f"its name `{written}` is not that of its folder, `{name}`, which is used")
    if len(name) > FORMAT_NAME_CHARS:
        warnings.append(f"the name has more than {FORMAT_NAME_CHARS} characters")
    warnings += [f"the key `{key}` is not known and is ignored" for key in front.keys if key not in _FORMAT_KEYS]
    metadata = front.mapping("metadata")
    content = SkillContent(
        name=name,
        description=front.required_text("description"),
        instructions=front.body,
        triggers=front.words("metadata", "triggers"),
        tags=front.words("metadata", "activation_tags"),
        category=front.text("metadata", "category") or DEFAULT_CATEGORY,
        priority=front.number("metadata", "priority"),
        locale=front.text("metadata", "locale"),
        license=front.text("license"),
        compatibility=front.text("compatibility"),
        allowed_tools=None if "allowed-tools" not in front.keys else split_rules(front, "allowed-tools"),
        contract=front.contract(),
        metadata={key: value for key, value in metadata.items() if key not in _OWN_KEYS},
    )
    front.check(content)
    return ParsedSkill(content=content, warnings=warnings)


def parse_translation(text: str, *, file: str) -> SkillText:
    """Return the text of a skill in another language, from a file such as `SKILL.ja.md`."""
    front = _Frontmatter(text, file=file)
    return SkillText(
        description=front.required_text("description"),
        instructions=front.body,
        triggers=front.words("metadata", "triggers"),
    )


def translation_name(locale: str) -> str:
    """Return the file name of a translation."""
    return f"SKILL.{locale}.md"


def translation_locale(file_name: str) -> str | None:
    """Return the language of a translation by its file name, or null for another file."""
    prefix, _, rest = file_name.partition(".")
    locale, dot, ending = rest.partition(".")
    locale = locale.lower()
    return locale if (prefix, dot, ending) == ("SKILL", ".", "md") and is_language(locale) else None


def render_skill(content: SkillContent) -> str:
    """Return a skill as the text of a `SKILL.md`."""
    own: dict[str, Json] = {
        "triggers": content.triggers,
        "activation_tags": content.tags,
        "category": content.category,
        "priority": content.priority,
        "locale": content.locale,
        "execution_contract": _without_defaults(content.contract),
    }
    front: dict[str, Json] = {
        "name": content.name,
        "description": content.description,
        "license": content.license,
        "compatibility": content.compatibility,
        "allowed-tools": None if content.allowed_tools is None else list(content.allowed_tools),
        "metadata": {**content.metadata, **{key: value for key, value in own.items() if value}},
    }
    return _render({key: value for key, value in front.items() if value is not None and value != {}}, content)


def render_translation(content: SkillContent, text: SkillText) -> str:
    """Return a translation as the text of a file."""
    metadata = {"metadata": {"triggers": text.triggers}} if text.triggers else {}
    return _render({"name": content.name, "description": text.description, **metadata}, text)


def _render(front: Mapping[str, Json], text: SkillContent | SkillText) -> str:
    dumped = yaml.safe_dump(dict(front), allow_unicode=True, sort_keys=False, width=1_000)
    return f"{_FENCE}\n{dumped}{_FENCE}\n\n{text.instructions}\n"


def _without_defaults(contract: ExecutionContract) -> Json:
    plain, default = msgspec.to_builtins(contract), msgspec.to_builtins(ExecutionContract())
    return {key: value for key, value in plain.items() if value != default[key]}


def split_rules(front: "_Frontmatter", key: str) -> list[str]:
    """Return the rules of `allowed-tools`: a list, or a text with spaces between rules, but not in parentheses."""
    value = front.get(key)
    if isinstance(value, list):
        return front.words(key)
    rules, depth, rule = [], 0, ""
    for character in (front.text(key) or "") + " ":
        depth += (character == "(") - (character == ")")
        if character in " ,\n\t" and depth <= 0:
            rules += [rule] if rule else []
            rule = ""
        else:
            rule += character
    return [*rules, *([rule] if rule else [])]


class _Frontmatter:
    """The frontmatter of a file: its values by key, and the line of each for messages."""

    def __init__(self, text: str, *, file: str) -> None:
        self._file = file
        self.warnings: list[str] = []
        lines = text.splitlines()
        if not lines or lines[0].strip() != _FENCE:
            self._fail_at(1, f"begins without a frontmatter: the first line must be `{_FENCE}`")
        end = next((index for index, line in enumerate(lines[1:], start=1) if line.rstrip() == _FENCE), None)
        if end is None:
            self._fail_at(1, f"the frontmatter has no end: write a line `{_FENCE}` after it")
        source = "\n".join(lines[1:end])
        if len(source) > MAX_FRONTMATTER_CHARS:
            raise TooLarge(
                f"{file}: line 1: the frontmatter has more than {MAX_FRONTMATTER_CHARS} characters", file=file
            )
        self.body = "\n".join(lines[end + 1 :]).strip()
        if len(self.body) > MAX_INSTRUCTIONS_CHARS:
            raise TooLarge(
                f"{file}: line {end + 2}: the instructions have more than {MAX_INSTRUCTIONS_CHARS} characters: move "
                "details into `references/`",
                file=file,
            )
        self._lines: dict[str, int] = {}
        self._values = self._load(source)
        self.keys = list(self._values)

    def get(self, *path: str) -> Any:
        """Return the value at a path, or null."""
        value: Any = self._values
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def text(self, *path: str) -> str | None:
        value = self.get(*path)
        if isinstance(value, bool | list | dict):
            self.fail(path[-1], "must be a text: put it into quotes")
        return None if value is None else str(value).strip()

    def required_text(self, key: str) -> str:
        value = self.text(key)
        if not value:
            self.fail(key, "is missing or empty: say what the skill does, and when to use it")
        return value

    def number(self, *path: str) -> int:
        value = self.get(*path)
        if value is None:
            return 0
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) > MAX_PRIORITY:
            self.fail(path[-1], f"must be a whole number between {-MAX_PRIORITY} and {MAX_PRIORITY}")
        return value

    def words(self, *path: str) -> list[str]:
        """Return a list of texts, which may also be one text with commas."""
        value = self.get(*path)
        items = [] if value is None else value.replace("\u3001", ",").split(",") if isinstance(value, str) else value
        if not isinstance(items, list) or any(isinstance(item, list | dict) for item in items):
            self.fail(path[-1], "must be a list of texts")
        return list(dict.fromkeys(str(item).strip() for item in items if str(item).strip()))

    def mapping(self, key: str) -> dict[str, Json]:
        value = self.get(key)
        if value is not None and not isinstance(value, dict):
            self.fail(key, "must be a mapping of keys to values")
        return value or {}

    def contract(self) -> ExecutionContract:
        raw = self.get("metadata", "execution_contract")
        if raw is None:
            return ExecutionContract()
        if isinstance(raw, dict) and isinstance(raw.get("output_modes"), list):
            modes = [_OUTPUT_MODE_ALIASES.get(str(mode), mode) for mode in raw["output_modes"]]
            raw = {**raw, "output_modes": list(dict.fromkeys(modes))}
        try:
            return msgspec.convert(raw, ExecutionContract)
        except (msgspec.ValidationError, TypeError) as exc:
            if not isinstance(exc, msgspec.ValidationError):
                self.fail("execution_contract", str(exc))
            problem = explain_validation_error(exc, raw, ExecutionContract)
            self.fail("execution_contract", format_message(*problem), cause=exc)

    def check_name(self, name: str) -> None:
        """Raise if `name` is not a valid name."""
        try:
            check_skill_name(name)
        except Invalid as exc:
            self.fail("name", exc.message, cause=exc)

    def check(self, content: SkillContent) -> None:
        """Raise the problem of the content with the line of its key."""
        try:
            check_skill_content(content)
        except (Invalid, TooLarge) as exc:
            field = str(exc.details.get("field", "name")).replace("allowed_tools", "allowed-tools")
            self.fail(field, exc.message, cause=exc)

    def fail(self, key: str, reason: str, *, cause: Exception | None = None) -> NoReturn:
        """Raise `Invalid` with the line of a key."""
        self._fail_at(self._lines.get(key, 1), f"`{key}`: {reason}", cause=cause)

    def _fail_at(self, line: int, reason: str, *, cause: Exception | None = None) -> NoReturn:
        raise Invalid(f"{self._file}: line {line}: {reason}", file=self._file, line=line) from cause

    def _load(self, source: str) -> dict[str, Any]:
        try:
            return self._load_yaml(source)
        except yaml.YAMLError as exc:
            quoted = _quote_colons(source)
            if quoted == source:
                self._fail_yaml(exc)
            try:
                values = self._load_yaml(quoted)
            except yaml.YAMLError:
                self._fail_yaml(exc)
            self.warnings.append("a value with a colon is not in quotes")
            return values

    def _fail_yaml(self, error: yaml.YAMLError) -> NoReturn:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "is not YAML"
        self._fail_at(1 if mark is None else mark.line + 2, f"the frontmatter cannot be read: {problem}", cause=error)

    def _load_yaml(self, source: str) -> dict[str, Any]:
        loader = _Loader(source)
        try:
            node = loader.get_single_node()
            if not isinstance(node, yaml.MappingNode):
                self._fail_at(2, "the frontmatter must be a mapping of keys to values")
            self._note_lines(node)
            values = loader.construct_document(node)
            if any(not isinstance(key, str) for key in values):
                self._fail_at(2, "the keys of the frontmatter must be texts")
            # YAML has values that JSON has not, such as keys of any kind and numbers of any length.
            return dict(msgspec.json.decode(msgspec.json.encode(values)))
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as exc:
            self._fail_at(2, f"the frontmatter has a value that cannot be read: {exc}", cause=exc)
        finally:
            loader.dispose()

    def _note_lines(self, node: yaml.MappingNode) -> None:
        for key, value in node.value:
            if key.value in self._lines and node.start_mark.line == 0:
                self._fail_at(key.start_mark.line + 2, f"`{key.value}` is there twice: remove one of them")
            self._lines.setdefault(str(key.value), key.start_mark.line + 2)
            if isinstance(value, yaml.MappingNode):
                self._note_lines(value)


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader without aliases, which can expand to any size, and without dates, which JSON has not."""

    yaml_implicit_resolvers = {
        first: [each for each in resolvers if each[0] != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._nodes = 0
        self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise ComposerError(None, None, "aliases are not allowed: write the value out", event.start_mark)
        self._nodes += 1
        self._depth += 1
        if self._nodes > MAX_YAML_NODES or self._depth > MAX_YAML_DEPTH:
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise ComposerError(
                None, None, "there are too many values, or they are nested too deeply", event.start_mark
            )
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _quote_colons(source: str) -> str:
    """Return the frontmatter with quotes around the plain values of top-level keys that contain a colon."""
    return "\n".join(_quoted_lines(source))


def _quoted_lines(source: str) -> Iterator[str]:
    for line in source.split("\n"):
        key, separator, value = line.partition(": ")
        value = value.strip()
        if separator and key.replace("-", "").isalnum() and ": " in value and value[0] not in _PLAIN_STARTS:
            yield f"{key}: {json.dumps(value, ensure_ascii=False)}"
        else:
            yield line
