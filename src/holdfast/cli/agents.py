"""`holdfast agent …` and `holdfast mcp …`: the agents and MCP servers of a workspace."""

import asyncio
import logging
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import msgspec
import typer

from holdfast.cli.arguments import AgentArgument
from holdfast.cli.command import command, connect, new_group, options
from holdfast.cli.output import WorkspaceOption, print_json, print_message, strip_control_chars
from holdfast.cli.tables import print_done, print_list, print_object
from holdfast.domain.errors import Invalid, NotFound

agent: Final = new_group("List, show, create and check agents, and their versions.")
mcp: Final = new_group("List and test the MCP servers of a workspace.")


SHOWN_DIGEST_CHARS: Final = 12
VersionArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="VERSION", help="The digest of a version, or at least its first 8 characters.")
]

NewNameArgument: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="The name of the new agent.")]
FolderArgument: TypeAlias = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="A folder with `agent.json`, `AGENT.md` and optionally `SOUL.md`.")
]


@command(agent, "list")
def list_agents() -> None:
    """List the agents by name."""
    with connect() as hf:
        print_list(
            hf.agents.list(),
            [
                ("agent", lambda agent: agent.name),
                ("model", lambda agent: agent.models[0]),
                ("description", lambda agent: agent.description),
            ],
            empty="no agents",
        )


@command(agent, "show")
def show_agent(name: AgentArgument) -> None:
    """Show an agent: its models, tools, permissions, limits and instructions."""
    with connect() as hf:
        found = hf.agents.get(name)
    fields = [field for field in found.__struct_fields__ if field != "capabilities"]
    print_object(found, [(field, getattr(found, field)) for field in fields])


@command(agent)
def versions(name: AgentArgument) -> None:
    """List the published versions of an agent, the newest first; new runs get the active one."""
    with connect() as hf:
        print_list(
            hf.agents.versions(name),
            [
                ("version", lambda each: each.digest[:SHOWN_DIGEST_CHARS]),
                ("", lambda each: "active" if each.active else ""),
                ("published", lambda each: each.published_at),
                ("by", lambda each: each.published_by),
                ("files", lambda each: len(each.files)),
            ],
            empty="no versions",
        )


@command(agent)
def diff(
    name: AgentArgument,
    before: VersionArgument,
    after: Annotated[
        str | None,
        typer.Argument(metavar="VERSION", help="The later version; by default the active one."),
    ] = None,
) -> None:
    """Show what differs from one version of an agent to another."""
    with connect() as hf:
        found = hf.agents.diff(name, before, after or hf.agents.get(name).version or "")
    if options().as_json:
        print_json(found)
    elif not found.files:
        print_message("the versions are equal")
    for file in [] if options().as_json else found.files:
        typer.echo(strip_control_chars(file.diff or f"{file.change}: {file.path}\n"), nl=False)


@command(agent)
def activate(name: AgentArgument, version: VersionArgument) -> None:
    """Give new runs an earlier version of an agent, until it is edited."""
    with connect() as hf:
        found = hf.agents.activate(name, version)
    print_done(found, f"new runs of {name} get version {found.digest[:SHOWN_DIGEST_CHARS]}")


@command(agent, "create")
def create_agent(name: NewNameArgument, folder: FolderArgument) -> None:
    """Create an agent that only the space has, from a FOLDER like those in `agents/` of a workspace.

    `holdfast agent new` makes such a folder; in the folder `agents` of the server it is an agent of every space.
    """
    definition = _read_definition(folder)
    with connect() as hf:
        made = hf.agents.create(name, **definition)
    print_done(made, f"created {name}, version {(made.version or '')[:SHOWN_DIGEST_CHARS]}")


@command(agent, "edit")
def edit_agent(name: AgentArgument, folder: FolderArgument) -> None:
    """Give an agent of the space the definition in FOLDER; runs that have begun keep theirs."""
    definition = _read_definition(folder)
    with connect() as hf:
        made = hf.agents.replace(name, **definition)
    print_done(made, f"new runs of {name} get version {(made.version or '')[:SHOWN_DIGEST_CHARS]}")


@command(agent, "delete")
def delete_agent(name: AgentArgument) -> None:
    """Delete an agent of the space; runs that have begun go on."""
    with connect() as hf:
        hf.agents.delete(name)
    print_done({"agent": name}, f"deleted {name}")


def _read_definition(folder: Path) -> dict[str, Any]:
    """Return what the files of a folder say, as a request says it."""
    json_files = sorted(each for each in folder.glob("*.json") if each.name != "agent.json")
    soul = folder / "SOUL.md"
    try:
        return {
            "settings": _read_json(folder / "agent.json"),
            "instructions": (folder / "AGENT.md").read_text("utf-8-sig"),
            "soul": soul.read_text("utf-8-sig") if soul.exists() else None,
            "scripts": {each.name: _read_json(each) for each in json_files},
        }
    except OSError as exc:
        raise Invalid(f"cannot read `{exc.filename}`: {exc.strerror or exc}") from exc
    except UnicodeDecodeError as exc:
        raise Invalid(f"a file of `{folder}` is not UTF-8: {exc.reason}") from exc


def _read_json(path: Path) -> Any:
    try:
        return msgspec.json.decode(path.read_text("utf-8-sig"))
    except msgspec.DecodeError as exc:
        raise Invalid(f"`{path}` is not JSON: {exc}") from exc


@command(agent, "new", server=False)
def new_agent(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the agent, and of its folder.")],
    model: Annotated[
        str, typer.Option("--model", "-m", metavar="NAME", help="The model, `provider:name`.")
    ] = "openai:gpt-5",
    description: Annotated[str, typer.Option(metavar="TEXT", help="What the agent is for.")] = "",
    workspace: WorkspaceOption = Path(),
) -> None:
    """Create the folder of an agent, with `AGENT.md` and `agent.json` to edit."""
    from holdfast.workspace.folder import Workspace

    folder = Workspace(workspace).create_agent(name, model=model, description=description)
    print_done({"agent": name, "folder": str(folder)}, f"created {folder}: write its instructions into AGENT.md")


@command(agent, server=False)
def check(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The agent; by default all of them.")] = None,
    workspace: WorkspaceOption = Path(),
) -> None:
    """Check the files of agents, without a server.

    Exit codes: 0 all are valid, 1 at least one is not.
    """
    from holdfast.bootstrap.doctor.checks import WorkspaceDefinitions
    from holdfast.workspace.folder import Workspace

    checked = WorkspaceDefinitions(Workspace(workspace)).check_agents()
    if name is not None:
        if name not in checked:
            raise NotFound(f"no agent `{name}`: there are {', '.join(checked) or 'none'}")
        checked = {name: checked[name]}
    print_list(
        [{"agent": each, "valid": error is None, "error": error} for each, error in checked.items()],
        [
            ("agent", lambda each: each["agent"]),
            ("state", lambda each: "ok" if each["valid"] else "invalid"),
            ("problem", lambda each: each["error"]),
        ],
        empty="no agents",
    )
    raise typer.Exit(0 if all(error is None for error in checked.values()) else 1)


@command(mcp, "list", server=False)
def list_servers(workspace: WorkspaceOption = Path()) -> None:
    """List the MCP servers that the settings and the agents declare."""
    from holdfast.bootstrap.doctor.checks import WorkspaceDefinitions
    from holdfast.workspace.folder import Workspace

    print_list(
        WorkspaceDefinitions(Workspace(workspace)).mcp_servers(),
        [
            ("server", lambda each: each.name),
            ("declared in", lambda each: each.declared_in),
            ("command or url", lambda each: each.address),
        ],
        empty="no MCP servers",
    )


@command(mcp, server=False)
def test(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The server; by default all of them.")] = None,
    workspace: WorkspaceOption = Path(),
) -> None:
    """Start MCP servers as a run would, and show their tools, or why they do not answer, with their stderr.

    Exit codes: 0 all answer, 1 at least one does not.
    """
    from holdfast.bootstrap.doctor.checks import WorkspaceDefinitions, diagnose_mcp_servers
    from holdfast.bootstrap.doctor.finding import Severity
    from holdfast.mcp.connection import HANDSHAKE_TIMEOUT_SECONDS
    from holdfast.workspace.folder import Workspace

    folder = Workspace(workspace)
    definitions = WorkspaceDefinitions(folder)
    declared = {each.name for each in definitions.mcp_servers()}
    if name is not None and name not in declared:
        raise NotFound(f"no MCP server `{name}`: there are {', '.join(sorted(declared)) or 'none'}")
    logging.getLogger("holdfast").addHandler(logging.NullHandler())  # the findings say it already
    if declared and not options().as_json:
        print_message(
            f"starting {name or ', '.join(sorted(declared))}: this takes at most {HANDSHAKE_TIMEOUT_SECONDS:.0f} s"
        )
    findings = asyncio.run(diagnose_mcp_servers(folder, definitions.settings, definitions.agents, only=name))
    if options().as_json:
        print_json(findings)
    elif not findings:
        print_message("no MCP servers")
    for finding in [] if options().as_json else findings:
        typer.echo(strip_control_chars(f"{finding.verdict:<8} {finding.message}"))
        if finding.remedy is not None:
            typer.echo(strip_control_chars(f"{'':<8} → {finding.remedy}"))
    raise typer.Exit(0 if all(finding.verdict is not Severity.FAILED for finding in findings) else 1)
