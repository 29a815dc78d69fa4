"""`holdfast artifact …`, `file …`, `space …`, `notification …` and `model …`: what a space and a server hold."""

from pathlib import Path
from typing import Annotated, Final
from urllib.parse import quote

import msgspec
import typer

from holdfast.cli.arguments import (
    ArtifactArgument,
    FileArgument,
    LimitOption,
    SpaceArgument,
    complete_runs,
    complete_threads,
)
from holdfast.cli.command import command, connect, connect_async, new_group, options, run_until_interrupted
from holdfast.cli.output import print_json, print_message
from holdfast.cli.tables import one_line, print_done, print_list, print_object, short_time, write_content
from holdfast.domain.errors import Unavailable
from holdfast.domain.notification import Notification
from holdfast.domain.packages import install_command
from holdfast.domain.worker import SpaceQueue

artifact: Final = new_group("List and read artifacts.")
file: Final = new_group("Store, list and read files.")
space: Final = new_group("Create, list, change and delete spaces.")
notification: Final = new_group("List, follow and mark notifications.")
model: Final = new_group("List models.")

FileOption = Annotated[
    Path | None, typer.Option("--to", metavar="FILE", dir_okay=False, help="Write it into a new file, not to stdout.")
]


@command(artifact, "list")
def list_artifacts(
    run: Annotated[
        str | None, typer.Option(metavar="RUN_ID", autocompletion=complete_runs, help="Only of this run.")
    ] = None,
    thread: Annotated[
        str | None, typer.Option(metavar="THREAD_ID", autocompletion=complete_threads, help="Only of this thread.")
    ] = None,
    limit: LimitOption = 50,
) -> None:
    """List artifacts, newest first."""
    if run is not None and thread is not None:
        raise typer.BadParameter("give `--run` or `--thread`", param_hint="--run")
    with connect() as hf:
        found = hf.artifacts.list(limit=limit)
        if run is not None:
            found = hf.run(run).artifacts()
        elif thread is not None:
            found = hf.threads.artifacts(thread)
        print_list(
            found,
            [
                ("artifact", lambda each: each.id),
                ("version", lambda each: each.version),
                ("type", lambda each: each.type),
                ("size", lambda each: each.size),
                ("created", lambda each: short_time(each.created_at)),
                ("title", lambda each: one_line(each.title)),
            ],
            empty="no artifacts",
        )


VersionOption = Annotated[int | None, typer.Option(metavar="NUMBER", min=1, help="The version; by default the newest.")]


@command(artifact, "show")
def show_artifact(artifact_id: ArtifactArgument, version: VersionOption = None) -> None:
    """Show an artifact: its type, its run and its versions, without the content."""
    with connect() as hf:
        found = hf.artifacts.get(artifact_id, version=version)
    names = ("id", "title", "type", "version", "media_type", "size", "digest", "run_id", "created_by", "metadata")
    fields = [(name, getattr(found, name)) for name in names]
    print_object(found, [*fields, ("created_at", short_time(found.created_at))])


@command(artifact, "get")
def get_artifact(artifact_id: ArtifactArgument, version: VersionOption = None, to: FileOption = None) -> None:
    """Print the content of an artifact, or write it into a new file."""
    with connect() as hf:
        found = hf.artifacts.get(artifact_id, version=version)
        content = hf.files.content(found.file_id) if found.content is None and found.file_id else None
    write_content((found.content or "").encode() if content is None else content, to)


@command(file, "list")
def list_files(limit: LimitOption = 50) -> None:
    """List files, newest first."""
    with connect() as hf:
        print_list(
            hf.files.list(limit=limit),
            [
                ("file", lambda each: each.id),
                ("size", lambda each: each.size),
                ("type", lambda each: each.media_type),
                ("created", lambda each: short_time(each.created_at)),
                ("name", lambda each: each.name),
            ],
            empty="no files",
        )


@command(file)
def upload(
    path: Annotated[Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="The file to store.")],
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Its name; by default that of the file.")] = None,
    media_type: Annotated[
        str | None, typer.Option(metavar="TYPE", help="Its media type; by default guessed from the name.")
    ] = None,
) -> None:
    """Store a file in the space, and print its id."""
    import mimetypes

    guessed = media_type or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    try:
        content = path.read_bytes()
    except OSError as exc:
        raise Unavailable(f"cannot read `{path}`: {exc.strerror or exc}") from exc
    with connect() as hf:
        stored = hf.files.upload(name or path.name, content, media_type=guessed)
    print_json(stored) if options().as_json else typer.echo(stored.id)


@command(file, "show")
def show_file(file_id: FileArgument) -> None:
    """Show the name, size, type and digest of a file."""
    with connect() as hf:
        found = hf.files.get(file_id)
    print_object(found, [(name, getattr(found, name)) for name in found.__struct_fields__])


@command(file, "get")
def get_file(file_id: FileArgument, to: FileOption = None) -> None:
    """Print the content of a file, or write it into a new file."""
    with connect() as hf:
        write_content(hf.files.content(file_id), to)


@command(file, "delete")
def delete_file(file_id: FileArgument) -> None:
    """Delete a file; one that an artifact uses stays."""
    with connect() as hf:
        hf.files.delete(file_id)
    print_done({"deleted": file_id}, f"deleted {file_id}")


@command(space, "list")
def list_spaces(limit: LimitOption = 50) -> None:
    """List the spaces that the key gives access to, oldest first."""
    with connect() as hf:
        print_list(
            hf.spaces.list(limit=limit),
            [
                ("space", lambda each: each.id),
                ("created", lambda each: short_time(each.created_at)),
                ("name", lambda each: each.name),
            ],
            empty="no spaces",
        )


@command(space, "create")
def create_space(
    space_id: Annotated[str, typer.Argument(metavar="SPACE_ID", help="The id of the new space.")],
    name: Annotated[str | None, typer.Option(metavar="TEXT", help="Its name for people.")] = None,
) -> None:
    """Create a space."""
    with connect() as hf:
        print_done(hf.spaces.create(space_id, name=name), f"created {space_id}")


@command(space, "show")
def show_space(space_id: SpaceArgument) -> None:
    """Show a space."""
    with connect() as hf:
        found = hf.spaces.get(space_id)
    print_object(found, [(name, getattr(found, name)) for name in found.__struct_fields__])


@command(space, "rename")
def rename_space(
    space_id: SpaceArgument, name: Annotated[str, typer.Argument(metavar="NAME", help="Its new name for people.")]
) -> None:
    """Change the name of a space; its id stays."""
    with connect() as hf:
        print_done(hf.spaces.update(space_id, name=name), f"renamed {space_id}")


@command(space, "queue")
def space_queue(
    space_id: SpaceArgument,
    weight: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", min=1, help="Runs that workers take of it in each round, if it is to change."),
    ] = None,
    max_running: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", min=0, help="Runs at work at a time, if it is to change; 0 is no limit."),
    ] = None,
) -> None:
    """Show or change how a space shares the workers with others."""
    with connect() as hf:
        path = f"/spaces/{quote(space_id, safe='')}/queue/settings"
        found = hf.send("GET", path, SpaceQueue, in_space=False)
        if weight is not None or max_running is not None:
            changed = SpaceQueue(
                weight=found.weight if weight is None else weight,
                max_running=found.max_running if max_running is None else max_running or None,
            )
            found = hf.send("PUT", path, SpaceQueue, body=changed, in_space=False)
    print_object(found, [(name, getattr(found, name)) for name in found.__struct_fields__])


@command(space, "delete")
def delete_space(
    space_id: SpaceArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a space with everything in it."""
    if not yes and not typer.confirm(f"delete space {space_id} with everything in it?", err=True):
        raise typer.Exit(1)
    with connect() as hf:
        hf.spaces.delete(space_id)
    print_done({"deleted": space_id}, f"deleted {space_id}")


@command(notification, "list")
def list_notifications(
    unread: Annotated[bool, typer.Option("--unread", help="Only those that are not marked as read.")] = False,
    limit: LimitOption = 50,
) -> None:
    """List notifications, newest first."""
    with connect() as hf:
        found = [each for each in hf.notifications.list(limit=limit) if not unread or each.read_at is None]
    print_list(
        found,
        [
            ("number", lambda each: each.number),
            ("created", lambda each: short_time(each.created_at)),
            ("kind", lambda each: each.kind),
            ("run", lambda each: each.run_id),
            ("read", lambda each: "" if each.read_at is None else "read"),
            ("data", lambda each: one_line(each.data)),
        ],
        empty="no notifications",
    )


@command(notification)
def follow(
    after: Annotated[
        int | None, typer.Option(metavar="NUMBER", min=0, help="Begin after this one; by default with the next.")
    ] = None,
) -> None:
    """Print notifications as they come, until Ctrl-C."""
    run_until_interrupted(_follow_notifications(after))


async def _follow_notifications(after: int | None) -> None:
    async with connect_async() as hf:
        hf.retry_seconds = float("inf")
        async for each in hf.notifications.follow(after=after, on_connection=print_message):
            if options().as_json:
                print_json(each)
            else:
                typer.echo(_notification_line(each))


def _notification_line(each: Notification) -> str:
    return f"{each.number}  {short_time(each.created_at)}  {each.kind}  {each.run_id or ''}  {one_line(each.data)}"


@command(notification)
def read(
    number: Annotated[int | None, typer.Argument(metavar="NUMBER", help="The notification; by default all.")] = None,
) -> None:
    """Mark a notification, or all, as read."""
    with connect() as hf:
        left = hf.notifications.mark_read(number=number)
    print_done({"unread": left}, f"{left} unread")


@command(model, "list")
def list_models(
    provider: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this provider.")] = None,
) -> None:
    """List the models of the providers that have a key, with context windows and prices per million tokens."""
    with connect() as hf:
        catalog = msgspec.json.decode(hf.request("GET", "/models"))
    usable = {each["name"] for each in catalog["providers"] if each.get("has_key")}
    wanted = {provider} if provider is not None else usable
    empty = "no provider has a key: set one, such as OPENAI_API_KEY" if provider is None else "no such model"
    if not catalog["models"]:
        empty = f"the server has no list of models: run `{install_command('openai')}` for it"
    print_list(
        [each for each in catalog["models"] if each["provider"] in wanted],
        [
            ("model", lambda each: each["id"]),
            ("context", lambda each: each["context_window"]),
            ("input", lambda each: each["input_usd_per_million"]),
            ("output", lambda each: each["output_usd_per_million"]),
        ],
        empty=empty,
    )
