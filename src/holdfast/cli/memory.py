"""`holdfast memory …`: what a space remembers, why, and how to correct and forget it."""

from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote

import msgspec
import typer

from holdfast.cli.arguments import (
    LimitOption,
    RunArgument,
    complete_items,
    complete_runs,
    complete_threads,
    read_input,
)
from holdfast.cli.command import command, connect, new_group, options
from holdfast.cli.output import print_json, print_message
from holdfast.cli.tables import one_line, print_done, print_list, print_object, short_time, write_content
from holdfast.domain.content import Json
from holdfast.domain.context import InjectedItem
from holdfast.domain.errors import Invalid, Unavailable
from holdfast.domain.forgetting import ForgetReceipt
from holdfast.domain.memory import Memory, MemoryStatus, MemoryType, Provenance
from holdfast.domain.recall import RecallStatus

memory: Final = new_group("Read, search, correct, export and forget what a space remembers.")

MemoryArgument = Annotated[
    str,
    typer.Argument(
        metavar="MEMORY_ID", autocompletion=complete_items("memories", text="text"), help="The id of the memory."
    ),
]
TextArgument = Annotated[str | None, typer.Argument(metavar="TEXT", help="The statement; by default from stdin.")]
TypeOption = Annotated[MemoryType | None, typer.Option("--type", help="Only memories of this type.")]
StandingOption = Annotated[bool, typer.Option("--standing", help="Show it to agents with every message.")]
TagOption = Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="A tag; may be repeated.")]


@command(memory, "list")
def list_memories(
    type: TypeOption = None,
    status: Annotated[MemoryStatus | None, typer.Option(help="Only memories with this status.")] = None,
    tag: Annotated[str | None, typer.Option(metavar="TAG", help="Only memories with this tag.")] = None,
    thread: Annotated[
        str | None,
        typer.Option(metavar="THREAD_ID", autocompletion=complete_threads, help="Only memories of this thread."),
    ] = None,
    limit: LimitOption = 50,
) -> None:
    """List memories, newest first."""
    query = _query(type=type, status=status, tag=tag, thread_id=thread)
    with connect() as hf:
        print_list(
            hf.pages("/memories", Memory, query=query, limit=limit),
            [
                ("memory", lambda each: each.id),
                ("type", lambda each: each.type),
                ("status", lambda each: each.status),
                ("origin", lambda each: each.origin),
                ("at", lambda each: short_time(each.occurred_from or each.created_at)),
                ("text", lambda each: one_line(each.text)),
            ],
            empty="no memories",
        )


@command(memory)
def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to search for, in plain words.")],
    type: TypeOption = None,
    target: Annotated[str, typer.Option(help="`raw` for messages, `abstract` for memories, or `both`.")] = "both",
    explain: Annotated[bool, typer.Option("--explain", help="Show the parts of each score.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=100, help="The maximum number of results.")] = 10,
) -> None:
    """Search what was said and kept, best first."""
    asked = _query(q=query, type=type, target=target, explain="true" if explain else None, limit=limit)
    with connect() as hf:
        found = hf.send("GET", "/memories/search", dict[str, Any], query=asked)
    if options().as_json:
        print_json(found)
        return
    if found.get("notice"):
        print_message(found["notice"])
    columns: list[Any] = [
        ("score", lambda hit: round(hit["score"], 3)),
        ("id", lambda hit: hit["id"]),
        ("at", lambda hit: short_time(hit["at"])),
        ("text", lambda hit: one_line(hit["excerpt"]["text"])),
    ]
    if explain:
        columns.insert(1, ("parts", lambda hit: _parts(hit.get("parts"))))
    print_list(found["results"], columns, empty="nothing found")


@command(memory)
def show(memory_id: MemoryArgument) -> None:
    """Show MEMORY_ID with the messages it came from, what it replaced and what replaced it."""
    with connect() as hf:
        found = hf.send("GET", f"{_one(memory_id)}/provenance", Provenance)
    kept = found.memory
    sources = "\n".join(
        f"{each.id} {short_time(each.at)} {each.speaker or each.role}: {each.text}" for each in found.messages
    )
    names = ("id", "type", "status", "text", "importance", "tags", "standing", "origin", "taint", "author", "agent")
    print_object(
        found,
        [
            *((name, getattr(kept, name) or "") for name in names),
            ("occurred", short_time(kept.occurred_from)),
            ("created", short_time(kept.created_at)),
            ("version", kept.version),
            ("superseded by", kept.superseded_by),
            ("supersedes", ", ".join(kept.supersedes)),
            ("sources", sources),
        ],
    )


@command(memory)
def why(run_id: RunArgument) -> None:
    """Show what was recalled into the prompt of RUN_ID, with the parts of each score."""
    from holdfast.control.run_details import RunContextView

    with connect() as hf:
        view = hf.send("GET", f"/runs/{quote(run_id, safe='')}/context", RunContextView)
    items: list[InjectedItem] = [] if view.context is None else view.context.memory
    print_list(
        items,
        [
            ("kind", lambda item: item.kind),
            ("id", lambda item: item.id),
            ("at", lambda item: short_time(item.at)),
            ("tokens", lambda item: item.tokens),
            ("score", lambda item: "always" if item.score is None else item.score),
            ("parts", lambda item: "" if item.parts is None else _parts(msgspec.structs.asdict(item.parts))),
        ],
        empty="nothing was recalled",
    )


@command(memory)
def add(
    text: TextArgument = None,
    type: Annotated[MemoryType, typer.Option("--type", help="The type of the memory.")] = MemoryType.SEMANTIC,
    tag: TagOption = None,
    importance: Annotated[float | None, typer.Option(min=0, max=1, help="From 0 to 1.")] = None,
    standing: StandingOption = False,
) -> None:
    """Keep a statement, and print its id."""
    body = _query(text=read_input(text), type=type, tags=tag, importance=importance, standing=standing or None)
    with connect() as hf:
        kept = hf.send("POST", "/memories", Memory, body=body, key=_new_key())
    if options().as_json:
        print_json(kept)
    else:
        typer.echo(kept.id)


@command(memory)
def edit(
    memory_id: MemoryArgument,
    text: Annotated[str | None, typer.Option(metavar="TEXT", help="The new statement.")] = None,
    type: Annotated[MemoryType | None, typer.Option("--type", help="The new type.")] = None,
    tag: TagOption = None,
    importance: Annotated[float | None, typer.Option(min=0, max=1, help="The new importance.")] = None,
    standing: Annotated[bool | None, typer.Option("--standing/--not-standing", help="Show it always, or not.")] = None,
) -> None:
    """Change MEMORY_ID; earlier versions stay readable."""
    body = _query(text=text, type=type, tags=tag, importance=importance, standing=standing)
    if not body:
        raise typer.BadParameter("name at least one change, such as `--text`", param_hint="--text")
    with connect() as hf:
        kept = hf.send("PATCH", _one(memory_id), Memory, body=body)
    print_done(kept, f"changed {kept.id}, which has version {kept.version} now")


@command(memory)
def supersede(
    memory_id: MemoryArgument,
    text: TextArgument = None,
    by: Annotated[str | None, typer.Option(metavar="MEMORY_ID", help="An existing memory that replaces it.")] = None,
) -> None:
    """Replace MEMORY_ID by a new statement, or by an existing memory."""
    body: Json = {"by": by} if by is not None else {"memory": {"text": read_input(text)}}
    with connect() as hf:
        new = hf.send("POST", f"{_one(memory_id)}/supersede", Memory, body=body, key=_new_key())
    print_done(new, f"{memory_id} is superseded by {new.id}")


@command(memory)
def accept(memory_id: MemoryArgument) -> None:
    """Accept the proposed MEMORY_ID, so that it is recalled."""
    with connect() as hf:
        kept = hf.send("POST", f"{_one(memory_id)}/accept", Memory)
    print_done(kept, f"{kept.id} is {kept.status}")


@command(memory)
def retract(memory_id: MemoryArgument) -> None:
    """Retract MEMORY_ID: it stays readable by id, and is recalled no more."""
    with connect() as hf:
        kept = hf.send("POST", f"{_one(memory_id)}/retract", Memory)
    print_done(kept, f"{kept.id} is {kept.status}")


@command(memory)
def forget(
    memory_id: Annotated[list[str] | None, typer.Argument(metavar="[MEMORY_ID]...", help="Memories to forget.")] = None,
    message: Annotated[list[str] | None, typer.Option(metavar="MESSAGE_ID", help="A message; may be repeated.")] = None,
    thread: Annotated[
        str | None,
        typer.Option(metavar="THREAD_ID", autocompletion=complete_threads, help="Everything said on this thread."),
    ] = None,
    run: Annotated[
        str | None, typer.Option(metavar="RUN_ID", autocompletion=complete_runs, help="Everything said in this run.")
    ] = None,
    entity: Annotated[str | None, typer.Option(metavar="NAME", help="The memories about this name.")] = None,
    author: Annotated[str | None, typer.Option(metavar="NAME", help="What this author said and kept.")] = None,
    before: Annotated[str | None, typer.Option(metavar="TIME", help="What was said and kept before.")] = None,
    keep_sources: Annotated[
        bool, typer.Option("--keep-sources", help="Keep the runs that memories came from.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would go.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove memories and messages from every row, index and file; this cannot be undone."""
    body = _query(
        ids=memory_id,
        message_ids=message,
        thread_id=thread,
        run_id=run,
        entity=entity,
        author=author,
        before=before,
        sources=False if keep_sources else None,
    )
    with connect() as hf:
        counted = hf.send("POST", "/memories/forget", ForgetReceipt, body={**body, "dry_run": True}, key=_new_key())
        if dry_run:
            return _print_receipt(counted)
        question = f"forget {counted.memories} memories and {counted.messages} messages for good?"
        if not yes and not typer.confirm(question, err=True):
            raise typer.Exit(1)
        _print_receipt(hf.send("POST", "/memories/forget", ForgetReceipt, body=body, key=_new_key()))


@command(memory)
def export(
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", dir_okay=False, help="Write into a new file, not to stdout.")
    ] = None,
) -> None:
    """Export all memories with their histories, one JSON object per line."""
    with connect() as hf:
        content = hf.request("GET", hf.path("/memories/export"))
    write_content(content, to)


@command(memory, "import")
def import_memories(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An export, or `-` for stdin.", allow_dash=True)],
    drop_missing_sources: Annotated[
        bool, typer.Option("--drop-missing-sources", help="Leave out sources that are not in this space.")
    ] = False,
) -> None:
    """Import exported memories as they were, all or none."""
    try:
        content = typer.get_binary_stream("stdin").read() if str(file) == "-" else file.read_bytes()
    except OSError as exc:
        raise Unavailable(f"cannot read `{file}`: {exc.strerror or exc}") from exc
    if not content.strip():
        raise Invalid(f"`{file}` is empty: name an export", field="file")
    query = {"missing_sources": "drop"} if drop_missing_sources else {}
    from holdfast.ports.memory import RestoredMemories

    with connect() as hf:
        sent = hf.request(
            "POST",
            hf.path("/memories/import"),
            query=query,
            content=content,
            media_type="application/octet-stream",
            key=_new_key(),
        )
        restored = hf.decode(sent, RestoredMemories)
    dropped = f", {restored.dropped_sources} sources left out" if restored.dropped_sources else ""
    print_done(restored, f"imported {restored.added}, {restored.unchanged} unchanged{dropped}")


@command(memory)
def reindex() -> None:
    """Build the search index of the space again; the old one answers until the new one is complete."""
    with connect() as hf:
        status = hf.send("POST", "/memories/reindex", RecallStatus)
    print_done(status, "the index is built again: see `holdfast memory status`")


@command(memory)
def status() -> None:
    """Show how far the search index of the space is."""
    with connect() as hf:
        found = hf.send("GET", "/memories/status", RecallStatus)
    rebuilt = None if found.rebuild is None else f"{found.rebuild:.0%}"
    fields = [(name, getattr(found, name)) for name in ("items", "pending", "analyser", "embedder", "notice")]
    print_object(found, [*fields, ("rebuild", rebuilt)])


def _print_receipt(receipt: ForgetReceipt) -> None:
    names = ("dry_run", "memories", "versions", "edges", "messages", "events", "copies", "items", "threads")
    fields = [(name, getattr(receipt, name)) for name in names]
    print_object(receipt, [*fields, ("forgotten_at", short_time(receipt.forgotten_at))])


def _new_key() -> str:
    from holdfast.client.connection import new_key

    return new_key()


def _one(memory_id: str) -> str:
    return f"/memories/{quote(memory_id, safe='')}"


def _query(**values: Any) -> dict[str, Any]:
    """Return the parameters that are given."""
    return {name: value for name, value in values.items() if value is not None}


def _parts(parts: dict[str, Any] | None) -> str:
    return " ".join(f"{name}={value:.2f}" for name, value in (parts or {}).items() if value)
