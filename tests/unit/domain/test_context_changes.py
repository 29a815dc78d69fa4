"""How two contexts differ, and why something is in one."""

from typing import Any

import msgspec

from holdfast.domain.content import Json
from holdfast.domain.context import (
    RECALL_VALUE,
    InjectedItem,
    InjectionKind,
    ReadContext,
    ReadSegment,
    RecalledMemory,
    recalled_memory_ids,
    text_digest,
    to_read_message,
)
from holdfast.domain.context_changes import AddedRemoved, SegmentChange, ToolDifference, context_changes, with_reasons
from holdfast.domain.ids import SkillId
from holdfast.domain.message import NewMessage, Role
from holdfast.domain.recall import ScoreParts
from holdfast.domain.run_skills import ActivationCause, ActiveSkill
from holdfast.domain.skill import SkillSource


def context(step: int, segments: dict[str, str], said: list[str], tools: Json = (), **options: Any) -> ReadContext:
    """Return a context with these segments and messages."""
    messages = [to_read_message(NewMessage(role=Role.USER, content=text)) for text in said]
    parts: dict[str, Any] = {
        "model": "m",
        "system": "",
        "segments": tuple(
            ReadSegment(name=name, text=text, tokens=1, digest=text_digest(text)) for name, text in segments.items()
        ),
        "messages": tuple(messages),
        "tools": list(tools),
        "tools_digest": "d",
        "tokens": {"system": len(segments)},
        **dict.fromkeys(("first_sequence", "last_sequence", "compaction_through")),
        "complete": True,
    }
    return ReadContext(step=step, **{**parts, **options})


def test_only_what_differs_is_a_change() -> None:
    before = context(1, {"core": "be good", "plan": "a", "todo": "x"}, ["hi"], [{"name": "old"}, {"name": "same"}])
    after = context(
        3, {"core": "be good", "plan": "b", "skills": "y", "time": "t"}, ["hi", "hi", "so"], [{"name": "same", "p": 1}]
    )
    changes = context_changes(before, after)
    assert [(each.name, each.change, each.before) for each in changes.segments] == [
        ("plan", SegmentChange.CHANGED, "a"),
        ("todo", SegmentChange.REMOVED, "x"),
        ("skills", SegmentChange.ADDED, None),
        ("time", SegmentChange.ADDED, None),
    ]
    assert changes.messages == AddedRemoved(added=[each.digest for each in after.messages[1:]], removed=[])
    assert changes.tools == ToolDifference(added=[], removed=["old"], changed=["same"])
    assert (changes.since, changes.tokens) == (1, {"system": 1})
    nothing = context_changes(after, after)
    assert (nothing.segments, nothing.tokens, nothing.messages.added) == ([], {}, [])


def test_each_memory_skill_and_standing_instruction_has_a_reason() -> None:
    items = [
        InjectedItem(kind=InjectionKind.STANDING, id="mem_1"),
        InjectedItem(kind=InjectionKind.MEMORY, id="mem_2", score=0.71, parts=ScoreParts(lexical=0.4, vector=0.31)),
        InjectedItem(kind=InjectionKind.REQUEST, id="msg_1"),
        InjectedItem(kind=InjectionKind.FILE, id="MEMORY.md"),
        InjectedItem(kind=InjectionKind.MEMORY, id="mem_gone"),
    ]
    texts = {
        "standing": "- (mem_1)",
        "requests": "- (msg_1)",
        "memories": "- [mem_2]\nMEMORY.md:",
        "skills": "tidy:\nclean up",
    }
    plain: dict[str, Any] = {"source": SkillSource.SPACE, "version": 1, "digest": "d", "score": 2.0}
    skills = [
        ActiveSkill(id=SkillId(name), name=name, cause=cause, **plain)
        for name, cause in (("tidy", ActivationCause.RELEVANT), ("absent", ActivationCause.NAMED))
    ]
    shown = with_reasons(context(1, {"core": "mem_2", **texts}, [], memory=items), skills)
    found = {segment.name: [(each.kind, each.name) for each in segment.reasons] for segment in shown.segments}
    assert found == {
        "core": [],
        "standing": [("rule", "mem_1")],
        "requests": [("request", "msg_1")],
        "memories": [("memory", "mem_2"), ("file", "MEMORY.md")],
        "skills": [("skill", "tidy")],
    }
    reasons = [each.reason for segment in shown.segments for each in segment.reasons]
    assert "score 0.71: lexical 0.40, vector 0.31" in reasons[2]
    assert reasons[4] == "it fits the request (score 2.00)"


def test_the_memories_that_were_recalled_are_read_from_the_value_as_it_is_stored() -> None:
    kinds = list(InjectionKind)
    recalled = RecalledMemory(items=[InjectedItem(kind=kind, id=f"{kind}_1", tokens=3) for kind in kinds])
    assert recalled_memory_ids({RECALL_VALUE: msgspec.to_builtins(recalled)}) == ["standing_1", "memory_1"]
    assert recalled_memory_ids({}) == recalled_memory_ids({RECALL_VALUE: None}) == []
