"""`holdfast skill …`: custom skills of a space, the catalog, and a check of skill folders."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias
from urllib.parse import quote

import msgspec
import typer

from holdfast.cli.arguments import LimitOption, RunArgument, complete_items
from holdfast.cli.command import command, connect, new_group, options
from holdfast.cli.output import print_json, print_message
from holdfast.cli.tables import one_line, print_done, print_list, print_object, short_time, write_content
from holdfast.domain.errors import HoldfastError, NotFound
from holdfast.domain.page import MAX_PAGE_SIZE, Page
from holdfast.domain.skill import CustomSkill, Skill, SkillSource, SkillVersion

if TYPE_CHECKING:
    from holdfast.client.sync.client import SyncClient
    from holdfast.control.skills import CatalogSkill
    from holdfast.skills.folder import DiskFolder

skill: Final = new_group("List, change, import, export and check skills.")

SkillArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="SKILL",
        autocompletion=complete_items("skills", key="name", text="description"),
        help="The name or id of a custom skill.",
    ),
]


class _Versions(msgspec.Struct, frozen=True, kw_only=True):
    items: list[SkillVersion]


@command(skill, "list")
def list_skills(limit: LimitOption = 100) -> None:
    """List the custom skills of the space, newest first, disabled ones too."""
    with connect() as hf:
        found: list[CustomSkill] = []
        cursor = None
        while len(found) < limit:
            query = {"limit": str(min(limit - len(found), MAX_PAGE_SIZE)), **({"cursor": cursor} if cursor else {})}
            page = hf.send("GET", "/skills", Page[CustomSkill], query=query)
            found += page.items
            cursor = page.next_cursor
            if cursor is None:
                break
    print_list(
        found,
        [
            ("name", lambda each: each.name),
            ("id", lambda each: each.id),
            ("version", lambda each: each.version),
            ("enabled", lambda each: "yes" if each.enabled else "no"),
            ("updated", lambda each: short_time(each.updated_at)),
            ("description", lambda each: one_line(each.description)),
        ],
        empty="the space has no custom skills: `holdfast skill import` adds one",
    )


@command(skill)
def catalog(
    agent: Annotated[str | None, typer.Option("--agent", metavar="NAME", help="As this agent sees it.")] = None,
    locale: Annotated[str | None, typer.Option(metavar="TAG", help="The language, such as `ja`.")] = None,
) -> None:
    """List the skills of all sources, with what shadows them and whether they can be used."""
    from holdfast.control.skills import SkillCatalogView

    query = {name: value for name, value in (("agent", agent), ("locale", locale)) if value is not None}
    with connect() as hf:
        view = hf.send("GET", "/skills/catalog", SkillCatalogView, query=query)
    if options().as_json:
        print_json(view)
        return
    print_list(
        view.items,
        [
            ("name", lambda each: each.name),
            ("source", lambda each: each.source),
            ("state", _state),
            ("description", lambda each: one_line(each.description)),
        ],
        empty="there are no skills",
    )
    for broken in view.broken:
        print_message(f"broken: {broken.message}")


def _state(each: "CatalogSkill") -> str:
    if each.shadowed_by is not None:
        return f"shadowed by {each.shadowed_by}"
    return (
        each.availability if not each.availability_reasons else f"{each.availability}: {each.availability_reasons[0]}"
    )


@command(skill)
def show(name: SkillArgument) -> None:
    """Show the custom skill SKILL with its instructions."""
    with connect() as hf:
        found = _find(hf, name)
    print_object(
        found,
        [
            ("id", found.id),
            ("name", found.name),
            ("version", found.version),
            ("enabled", "yes" if found.enabled else "no"),
            ("updated", f"{short_time(found.updated_at)} by {found.updated_by or 'unknown'}"),
            ("description", found.description),
            ("triggers", ", ".join(found.triggers)),
            ("files", ", ".join(file.path for file in found.files)),
            ("instructions", found.instructions),
        ],
    )


@command(skill)
def versions(name: SkillArgument) -> None:
    """List the versions of the custom skill SKILL, oldest first."""
    with connect() as hf:
        found = hf.send("GET", f"/skills/{quote(_find(hf, name).id, safe='')}/versions", _Versions)
    print_list(
        found.items,
        [
            ("version", lambda each: each.version),
            ("at", lambda each: short_time(each.created_at)),
            ("by", lambda each: each.changed_by or ""),
            ("enabled", lambda each: "yes" if each.enabled else "no"),
            ("description", lambda each: one_line(each.content.description)),
        ],
        empty="there are no versions",
    )


@command(skill)
def enable(name: SkillArgument) -> None:
    """Let agents use the custom skill SKILL again."""
    _set_enabled(name, "enable")


@command(skill)
def disable(name: SkillArgument) -> None:
    """Keep the custom skill SKILL, but let no agent use it."""
    _set_enabled(name, "disable")


def _set_enabled(name: str, verb: str) -> None:
    with connect() as hf:
        changed = hf.send("POST", f"/skills/{quote(_find(hf, name).id, safe='')}/{verb}", CustomSkill)
    print_done(changed, f"{verb}d skill {changed.name}")


@command(skill)
def delete(name: SkillArgument) -> None:
    """Delete the custom skill SKILL with its versions and files."""
    with connect() as hf:
        found = _find(hf, name)
        hf.send("DELETE", f"/skills/{quote(found.id, safe='')}", type(None))
    print_done(found, f"deleted skill {found.name}")


@command(skill, "import")
def import_skill(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", exists=True, help="A folder with a SKILL.md, or a zip archive of one.")
    ],
) -> None:
    """Store the skill in PATH as a custom skill; one of the same name gets a new version."""
    from holdfast.client.connection import new_key
    from holdfast.control.skills import ImportedSkill

    archive = _pack(path) if path.is_dir() else path.read_bytes()
    with connect() as hf:
        body = hf.request(
            "POST", hf.path("/skills/import"), content=archive, media_type="application/zip", key=new_key()
        )
    done = msgspec.json.decode(body, type=ImportedSkill)
    for warning in done.warnings:
        print_message(f"warning: {warning}")
    verb = "created" if done.created else f"changed to version {done.skill.version}"
    print_done(done, f"{verb}: skill {done.skill.name} ({done.skill.id})")


@command(skill)
def export(
    name: SkillArgument,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="The archive to write; `-` is stdout.")
    ] = None,
) -> None:
    """Write the custom skill SKILL as a zip archive, by default SKILL.zip."""
    with connect() as hf:
        found = _find(hf, name)
        content = hf.request("GET", hf.path(f"/skills/{quote(found.id, safe='')}/export"))
    write_content(content, file or Path(f"{found.name}.zip"))


@command(skill, "of-run")
def of_run(run_id: RunArgument) -> None:
    """Show the skills of RUN_ID: which were chosen and why, and what became of their contracts."""
    from holdfast.control.skills import RunSkillsView

    with connect() as hf:
        view = hf.send("GET", f"/runs/{quote(run_id, safe='')}/skills", RunSkillsView)
    lines = [f"{each.name} ({each.source}, {each.cause})" + _reasons(each.reasons) for each in view.active]
    outcomes = [
        f"{each.skill}: {'kept' if each.kept else 'broken'}"
        + (f", by {', '.join(each.evidence)}" if each.evidence else "")
        + (f", missing {', '.join(each.missing)}" if each.missing else "")
        for each in view.contracts
    ]
    print_object(
        view,
        [
            ("language", view.locale or "none was chosen"),
            ("active", "\n".join(lines)),
            ("left out", "\n".join(f"{each.name}: {each.reason}" for each in view.left_out)),
            ("contracts", "\n".join(outcomes)),
        ],
    )


def _reasons(reasons: list[str]) -> str:
    return f": {'; '.join(reasons)}" if reasons else ""


@command(skill, server=False)
def check(
    path: Annotated[
        Path,
        typer.Argument(metavar="PATH", exists=True, file_okay=False, help="A skill folder, or a folder of skills."),
    ],
) -> None:
    """Check the skill in PATH, or all skills in it, without a server.

    Exit codes: 0 all are valid, 1 one is not.
    """
    from holdfast.skills.folder import DiskFolder, find_skills

    root = path.absolute()
    single = (root / "SKILL.md").exists()
    folder = DiskFolder(root.parent if single else root)
    names = {root.name: f"{root.name}/SKILL.md"} if single else find_skills(folder)
    valid: list[Skill] = []
    for relative in names.values():
        try:
            valid.append(_read(folder, relative))
        except HoldfastError as error:
            print_message(f"invalid: {error.message}")
    for found in valid:
        for warning in found.warnings:
            print_message(f"warning: {found.name}: {warning}")
    print_list(
        valid,
        [
            ("name", lambda each: each.name),
            ("files", lambda each: len(each.files)),
            ("description", lambda each: one_line(each.description)),
        ],
        empty="there is no valid skill here",
    )
    if len(valid) < len(names) or not names:
        raise typer.Exit(1)


def _read(folder: "DiskFolder", relative: str) -> Skill:
    from holdfast.skills.folder import read_skill

    return read_skill(
        folder, relative, skill_id=relative, source=SkillSource.WORKSPACE, shown_path=".", disk=folder.path
    )


def _pack(path: Path) -> bytes:
    """Return an archive of a skill folder, which is checked before it is sent."""
    from holdfast.skills.archive import pack_skill
    from holdfast.skills.folder import DiskFolder, read_skill_file

    root = path.absolute()
    folder = DiskFolder(root.parent)
    found = _read(folder, f"{root.name}/SKILL.md")
    return pack_skill(found, {file.path: read_skill_file(folder, root.name, file.path) for file in found.files})


def _find(hf: "SyncClient", name: str) -> CustomSkill:
    """Return a custom skill by its id or its name."""
    cursor = None
    while True:
        query = {"limit": str(MAX_PAGE_SIZE), **({"cursor": cursor} if cursor else {})}
        page = hf.send("GET", "/skills", Page[CustomSkill], query=query)
        for each in page.items:
            if name in (each.id, each.name):
                return each
        cursor = page.next_cursor
        if cursor is None:
            raise NotFound(f"the space has no custom skill `{name}`: `holdfast skill list` shows them", id=name)
