"""How the context of a model call differs from that of an earlier one, and why each memory and skill is in it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from holdfast.domain.content import Json
from holdfast.domain.context import ContextReason, InjectedItem, InjectionKind, ReadContext, ReadSegment
from holdfast.domain.run_skills import ActivationCause, ActiveSkill

_SEGMENT_OF_KIND = {InjectionKind.STANDING: ("standing", "memories"), InjectionKind.REQUEST: ("requests",)}
"""The segments that a kind of memory is in; every other kind is in `memories`."""


class SegmentChange(StrEnum):
    """What became of a segment of the system prompt."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


class ChangedSegment(msgspec.Struct, frozen=True, kw_only=True):
    """A segment that differs; `before` is its earlier text."""

    name: str
    change: SegmentChange
    digest: str | None
    before: str | None


class AddedRemoved(msgspec.Struct, frozen=True, kw_only=True):
    """What is new and what is gone: digests of messages, or ids of memories."""

    added: list[str]
    removed: list[str]


class ToolDifference(AddedRemoved, frozen=True, kw_only=True):
    """Names of tools; `changed` have another description or other parameters."""

    changed: list[str]


class ContextDifference(msgspec.Struct, frozen=True, kw_only=True):
    """What differs from the context of the step `since`; parts that are equal are left out."""

    since: int
    segments: list[ChangedSegment]
    messages: AddedRemoved
    tools: ToolDifference
    memory: AddedRemoved
    tokens: dict[str, int]
    """By how much the estimated tokens of each part grew."""


def context_changes(before: ReadContext, after: ReadContext) -> ContextDifference:
    """Return how `after` differs from `before`."""
    return ContextDifference(
        since=before.step,
        segments=_changed_segments(before.segments, after.segments),
        messages=_difference([each.digest for each in before.messages], [each.digest for each in after.messages]),
        tools=_tool_changes(_by_name(before.tools), _by_name(after.tools)),
        memory=_difference([each.id for each in before.memory], [each.id for each in after.memory]),
        tokens={
            part: grown
            for part in {**before.tokens, **after.tokens}
            if (grown := after.tokens.get(part, 0) - before.tokens.get(part, 0))
        },
    )


def with_reasons(context: ReadContext, skills: Sequence[ActiveSkill]) -> ReadContext:
    """Return the context with the reason for each memory, skill and standing instruction in its segments."""
    return replace(context, segments=tuple(_with_reasons(each, context.memory, skills) for each in context.segments))


def _with_reasons(segment: ReadSegment, memory: Iterable[InjectedItem], skills: Sequence[ActiveSkill]) -> ReadSegment:
    reasons = [
        ContextReason(kind=_reason_kind(item), name=item.id, reason=_memory_reason(item))
        for item in memory
        if segment.name in _SEGMENT_OF_KIND.get(item.kind, ("memories",)) and item.id in segment.text
    ]
    if segment.name == "skills":
        reasons += [
            ContextReason(kind="skill", name=skill.name, reason=_skill_reason(skill))
            for skill in skills
            if f"{skill.name}:\n" in segment.text
        ]
    return replace(segment, reasons=reasons) if reasons else segment


def _reason_kind(item: InjectedItem) -> str:
    return "rule" if item.kind is InjectionKind.STANDING else str(item.kind)


def _memory_reason(item: InjectedItem) -> str:
    match item.kind:
        case InjectionKind.STANDING:
            return "a standing instruction: it is in every prompt of its scope"
        case InjectionKind.REQUEST:
            return "this person asked for it: it is quoted until somebody accepts or retracts it"
        case InjectionKind.FILE:
            return "a memory file: its beginning is in every prompt of its scope"
        case InjectionKind.NEIGHBOUR:
            return "it stands before or after a message that was found"
        case InjectionKind.MEMORY | InjectionKind.MESSAGE:
            parts = {} if item.parts is None else msgspec.structs.asdict(item.parts)
            shares = [f"{name} {value:.2f}" for name, value in parts.items() if name != "cosine" and value]
            score = "" if item.score is None else f" with score {item.score:.2f}"
            return f"found for the user's message{score}" + (f": {', '.join(shares)}" if shares else "")


def _skill_reason(skill: ActiveSkill) -> str:
    match skill.cause:
        case ActivationCause.NAMED:
            return "the agent names it"
        case ActivationCause.ACTIVATED:
            return "the model activated it"
        case ActivationCause.RELEVANT:
            score = "" if skill.score is None else f" (score {skill.score:.2f})"
            return f"it fits the request{score}" + (f": {', '.join(skill.reasons)}" if skill.reasons else "")


def _changed_segments(before: Sequence[ReadSegment], after: Sequence[ReadSegment]) -> list[ChangedSegment]:
    earlier = {segment.name: segment for segment in before}
    later = {segment.name: segment for segment in after}
    changed = []
    for name in {**earlier, **later}:
        one, other = earlier.get(name), later.get(name)
        if one is None and other is not None:
            change = ChangedSegment(name=name, change=SegmentChange.ADDED, digest=other.digest, before=None)
        elif one is not None and other is None:
            change = ChangedSegment(name=name, change=SegmentChange.REMOVED, digest=None, before=one.text)
        elif one is not None and other is not None and one.digest != other.digest:
            change = ChangedSegment(name=name, change=SegmentChange.CHANGED, digest=other.digest, before=one.text)
        else:
            continue
        changed.append(change)
    return changed


def _difference(before: Sequence[str], after: Sequence[str]) -> AddedRemoved:
    """Return what was added and removed, in order; what occurs twice counts twice."""
    added, removed = Counter(after) - Counter(before), Counter(before) - Counter(after)
    return AddedRemoved(added=_in_order(after, added), removed=_in_order(before, removed))


def _in_order(names: Sequence[str], wanted: Counter[str]) -> list[str]:
    """Return the last of `names` that are wanted, as often as they are."""
    found = []
    for name in reversed(names):
        if wanted[name] > 0:
            wanted[name] -= 1
            found.append(name)
    return found[::-1]


def _tool_changes(before: Mapping[str, Json], after: Mapping[str, Json]) -> ToolDifference:
    names = _difference(list(before), list(after))
    changed = [name for name, tool in after.items() if name in before and before[name] != tool]
    return ToolDifference(added=names.added, removed=names.removed, changed=changed)


def _by_name(tools: Json) -> dict[str, Json]:
    return {tool["name"]: tool for tool in tools} if isinstance(tools, list) else {}
