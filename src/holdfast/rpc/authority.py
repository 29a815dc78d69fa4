"""What a worker may name in a body: only what belongs to the run of its lease.

A worker reads what its run may read, which is its space. In what it writes, authors, keys and owners are compared with
the run, because the ports believe the runtime, and here it is on another machine. What has an id is compared by the
ports themselves: the store finds it by the run or the space of the lease.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from holdfast.domain.commit import Lease
from holdfast.domain.context import ContextSnapshot, text_digest
from holdfast.domain.distillation import DISTILLER_PREFIX, is_distiller
from holdfast.domain.errors import Invalid
from holdfast.domain.memory import MemoryOrigin, MemorySource, NewMemory
from holdfast.domain.memory_file import MemoryPath, owner_of
from holdfast.domain.message import NewMessage
from holdfast.domain.new_run import NewRun
from holdfast.domain.thread import NewThread
from holdfast.ports.runtime import RuntimePorts

WORKER_TIMER: Final = "wake"
"""The kind of the timers that a run sets for itself."""


def check_arguments(lease: Lease, port: str, name: str, arguments: Any) -> None:
    """Raise `Invalid` if the arguments of a call name what is not the run's own."""
    for field, check in _CHECKS.get((port, name), {}).items():
        if (value := getattr(arguments, field)) is not None:
            check(lease, value)


async def check_commit_parts(lease: Lease, parts: dict[str, Any], ports: RuntimePorts) -> None:
    """Raise `Invalid` if a commit names what is not the run's own."""
    for field in ("children", "follow_ups"):
        for new in parts[field]:
            _check_run(lease, new)
    if any(timer.kind != WORKER_TIMER for timer in parts["timers"]):
        raise Invalid(f"a worker sets timers of the kind `{WORKER_TIMER}` only", field="timers")
    for artifact in parts["artifacts"]:
        _check_author(lease, artifact.created_by, field="artifacts")
        if artifact.file is not None:
            _check_author(lease, artifact.file.created_by, field="artifacts")
    _check_texts(parts["contexts"])
    await _check_messages(lease, parts["messages"], parts["consumed"], ports)
    for memory in parts["memories"]:
        await _check_memory(lease, memory, ports)


def _check_key(lease: Lease, key: str) -> None:
    if not key.startswith(f"{lease.run_id}."):
        raise Invalid(f"`{key}` is not the key of a step of run `{lease.run_id}`", field="key")


def _check_author(lease: Lease, author: str | None, *, field: str) -> None:
    if author not in (None, lease.run.created_by):
        raise Invalid("`created_by` names somebody else than the run's own author", field=field)


def _check_run(lease: Lease, new: NewRun) -> None:
    _check_author(lease, new.created_by, field="created_by")
    if isinstance(new.thread, NewThread):
        _check_author(lease, new.thread.created_by, field="thread")
    for message in new.messages:
        _check_author(lease, message.created_by, field="messages")
    if new.idempotency_key is not None:
        raise Invalid("a run of a worker has no idempotency key: those are of clients", field="idempotency_key")


def _check_texts(contexts: Sequence[ContextSnapshot]) -> None:
    """Raise unless each text has its own digest: later commits of the space send the digest alone."""
    for context in contexts:
        if any(text_digest(text) != digest for digest, text in context.texts.items()):
            raise Invalid("a text of a context has another digest", field="contexts")


async def _check_messages(
    lease: Lease, messages: Sequence[NewMessage], consumed: Sequence[int], ports: RuntimePorts
) -> None:
    """Raise unless the author of each message is that of the run, or of a consumed inbox item."""
    foreign = {message.created_by for message in messages} - {None, lease.run.created_by}
    if foreign:
        items = await ports.journal.inbox(lease)
        foreign -= {item.created_by for item in items if item.number in consumed}
    if foreign:
        raise Invalid("`created_by` names somebody who sent the run nothing", field="messages")


async def _check_memory(lease: Lease, new: NewMemory, ports: RuntimePorts) -> None:
    """Raise unless a memory is the agent's, a distiller's, or a proposal in the words of a person in the thread."""
    agent, own = lease.run.agent_type, lease.run.agent_type.removeprefix(DISTILLER_PREFIX)
    match new.origin:
        case MemoryOrigin.AGENT:
            allowed = new.run_id == lease.run_id and new.thread_id == lease.thread_id and new.author == agent
        case MemoryOrigin.DISTILLED:
            allowed = is_distiller(agent) and new.author == own
        case MemoryOrigin.PERSON:
            allowed = new.proposed and new.thread_id == lease.thread_id
            allowed = allowed and await _said(lease, new.author, new.sources, ports)
        case _:
            allowed = False
    if not allowed or new.agent != own:
        raise Invalid("a memory states another origin, author, agent, run or thread than its own", field="memories")


async def _said(lease: Lease, author: str | None, sources: Iterable[MemorySource], ports: RuntimePorts) -> bool:
    """Return whether somebody is the author of the messages that a memory came from."""
    if author in (None, lease.run.created_by):
        return True
    names = [(source.thread_id, source.message_id) for source in sources]
    said = await ports.memory.messages(lease, names)
    return bool(said) and all(node.speaker == author for node in said)


def _check_file(lease: Lease, path: MemoryPath) -> None:
    _check_owner(lease, owner_of(path))


def _check_files(lease: Lease, paths: Sequence[MemoryPath]) -> None:
    for path in paths:
        _check_file(lease, path)


def _check_owners(lease: Lease, owners: Sequence[str | None]) -> None:
    for owner in owners:
        _check_owner(lease, owner)


def _check_owner(lease: Lease, owner: str | None) -> None:
    if owner not in (None, lease.run.agent_type):
        raise Invalid(f"the notes of agent `{owner}` are its own", field="path")


_CHECKS: Final[dict[tuple[str, str], dict[str, Callable[[Lease, Any], None]]]] = {
    ("journal", "next_task_id"): {"step": _check_key},
    ("memory", "change_file"): {"path": _check_file},
    ("memory", "file"): {"path": _check_file},
    ("memory", "files"): {"paths": _check_files},
    ("memory", "search_files"): {"owners": _check_owners},
    ("remote", "call"): {"key": _check_key},
    ("remote", "resume"): {"key": _check_key},
    ("subagents", "spawn"): {"new": _check_run},
    ("subagents", "subscribe"): {"waits": _check_key},
}
"""The arguments that are compared with the run, by method."""
