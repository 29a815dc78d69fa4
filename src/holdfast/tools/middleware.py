"""The standard middleware around every tool: validation, timeout, error results, redaction, output limit.

    with_provenance(with_output_limit(with_redaction(with_error_results(with_timeout(with_argument_checks(tool))))))

Output over the limit is cut to its head and tail; the whole text is kept as an artifact that the note in the middle
names.
"""

import asyncio

from msgspec.structs import replace

from holdfast.domain.artifact import MAX_ARTIFACT_CHARS, ArtifactType, NewArtifact
from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError, Invalid, LeaseLost, OutcomeUnknown, Unavailable
from holdfast.domain.idempotency import derived_id
from holdfast.domain.ids import ArtifactId
from holdfast.domain.tool import ToolClass, ToolSpec
from holdfast.domain.untrusted import taint_source_name
from holdfast.tools.arguments import check_arguments
from holdfast.tools.content import artifact_made_event, as_text, sanitize
from holdfast.tools.redaction import Redaction, with_redaction
from holdfast.tools.tool import CallNext, Tool, ToolContext, ToolResult, wrap_tool


def with_standard_middleware(tool: Tool, *, redaction: Redaction | None = None) -> Tool:
    """Return `tool` with its arguments checked, its time limited, its errors explained and its output bounded.

    With a `redaction`, secrets are taken out of what it answers, before anything is cut off. Answers that others wrote
    say so.
    """
    answering = with_error_results(with_timeout(with_argument_checks(tool)))
    return with_provenance(with_output_limit(answering if redaction is None else with_redaction(answering, redaction)))


def with_argument_checks(tool: Tool) -> Tool:
    """Return `tool`, which runs only with arguments that fit its schema."""
    return wrap_tool(tool, _check_arguments)


async def _check_arguments(
    spec: ToolSpec, call: ToolContext, arguments: dict[str, Json], call_next: CallNext
) -> ToolResult:
    try:
        check_arguments(spec, arguments)
    except Invalid as error:
        return error_result(error)
    return await call_next()


def with_timeout(tool: Tool) -> Tool:
    """Return `tool`, which is stopped after the time that its spec gives it."""
    return wrap_tool(tool, _limit_time)


async def _limit_time(spec: ToolSpec, call: ToolContext, arguments: dict[str, Json], call_next: CallNext) -> ToolResult:
    limit = asyncio.timeout(spec.timeout)
    try:
        async with limit:
            return await call_next()
    except TimeoutError:
        if not limit.expired():
            raise  # the tool's own
        return _timeout_result(spec)


def _timeout_result(spec: ToolSpec) -> ToolResult:
    harmless = spec.read_only or spec.kind is ToolClass.TRANSACTIONAL
    so = "it changed nothing" if harmless else "nobody knows whether it took effect: verify before you call it again"
    return ToolResult(
        content=f"`{spec.name}` was stopped after {spec.timeout:g} seconds: {so}",
        failed=True,
        unknown=spec.kind is ToolClass.EFFECTFUL,
    )


def with_error_results(tool: Tool) -> Tool:
    """Return `tool`, whose errors on purpose are failed outcomes that say why."""
    return wrap_tool(tool, _catch_errors)


def error_result(error: HoldfastError) -> ToolResult:
    """Return the outcome that tells a model of `error`."""
    return ToolResult(content=f"{error.code}: {error.message}", failed=True)


async def _catch_errors(
    spec: ToolSpec, call: ToolContext, arguments: dict[str, Json], call_next: CallNext
) -> ToolResult:
    try:
        return await call_next()
    except LeaseLost:
        raise  # the run is somebody else's now: there is no model to tell
    except Unavailable as error:
        if spec.kind is ToolClass.TRANSACTIONAL:
            raise  # our own store is away: no model can help, and the call can be made again
        lost = isinstance(error, OutcomeUnknown) and spec.kind is ToolClass.EFFECTFUL
        return ToolResult(content=f"{error.code}: {error.message}", failed=True, unknown=lost)
    except HoldfastError as error:
        return error_result(error)


def with_output_limit(tool: Tool) -> Tool:
    """Return `tool`, of whose output a model reads at most what its spec allows."""
    return wrap_tool(tool, _limit_output)


def output_artifact_id(call: ToolContext) -> ArtifactId:
    """Return the id under which the whole output of `call` is kept, if it is too long."""
    # Not the ids that the tool itself may derive from the key, for artifacts of its own.
    return ArtifactId(derived_id("art", key=f"{call.key}.output"))


async def _limit_output(
    spec: ToolSpec, call: ToolContext, arguments: dict[str, Json], call_next: CallNext
) -> ToolResult:
    outcome = await call_next()
    if outcome.wait is not None:
        return outcome
    content = sanitize(outcome.content)
    text = as_text(content)
    if len(text) <= spec.output_limit:
        return outcome if content == outcome.content else replace(outcome, content=content)
    artifact = _output_artifact(
        spec, call, text, media_type="text/plain" if isinstance(content, str) else "application/json"
    )
    return replace(
        outcome,
        content=_truncate_middle(text, artifact, limit=spec.output_limit),
        artifacts=[*outcome.artifacts, artifact],
        events=[*outcome.events, artifact_made_event(output_artifact_id(call), artifact)],
    )


def _output_artifact(spec: ToolSpec, call: ToolContext, text: str, *, media_type: str) -> NewArtifact:
    return NewArtifact(
        id=output_artifact_id(call),
        type=ArtifactType.OTHER,
        title=f"output of {spec.name}",
        content=text[:MAX_ARTIFACT_CHARS],
        media_type=media_type,
        metadata={"tool_call_id": call.id},
    )


def _truncate_middle(text: str, artifact: NewArtifact, *, limit: int) -> str:
    """Return head and tail of `text` around a note, together at most `most` characters."""
    # The note about leaving everything out is the longest there can be, so that what is left over fits for certain.
    room = limit - len(_truncation_note(len(text), text, artifact))
    if room <= 0:
        return _truncation_note(len(text), text, artifact).strip()[:limit]
    head, tail = room - room // 2, room // 2
    return text[:head] + _truncation_note(len(text) - room, text, artifact) + text[len(text) - tail :]


def _truncation_note(cut: int, text: str, artifact: NewArtifact) -> str:
    kept = "all" if len(text) <= MAX_ARTIFACT_CHARS else f"the first {MAX_ARTIFACT_CHARS}"
    return f"\n[{cut} of {len(text)} characters are left out here: artifact `{artifact.id}` has {kept} of them]\n"


def with_provenance(tool: Tool) -> Tool:
    """Return `tool`, whose answers say whose words they are, if its spec says that they are not ours."""
    return wrap_tool(tool, _mark_untrusted) if tool.spec.untrusted else tool


async def _mark_untrusted(
    spec: ToolSpec, call: ToolContext, arguments: dict[str, Json], call_next: CallNext
) -> ToolResult:
    outcome = await call_next()
    return (
        outcome if outcome.untrusted is not None else replace(outcome, untrusted=taint_source_name("tool", spec.name))
    )
