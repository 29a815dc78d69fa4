"""Context assembly: as many of the newest units as fit, and never half of an exchange."""

import pytest
from msgspec.structs import replace

from holdfast.agent.context.assembly import ContextInput, allocate_budget, assemble
from holdfast.agent.context.tokens import MessageSizer, measure_tools
from holdfast.domain.content import ImagePart, TextPart, UrlSource
from holdfast.domain.context import Compaction
from holdfast.domain.errors import Invalid
from holdfast.domain.message import Message, Role
from holdfast.ports.model import ToolDefinition
from tests.unit.agent.builders import TOKENS, Log, assemble_context, call, context_input, segment, texts

LONG = "many words " * 400
"""About 900 tokens."""


def test_a_short_conversation_is_sent_as_it_is() -> None:
    log = Log()
    log.user("hello")
    log.says("hello to you")
    goal = log.user("what is new?")
    context = assemble_context(context_input(log, goal=goal))
    assert context.messages == log.messages
    assert (context.first_sequence, context.last_sequence) == (0, 2)
    assert not context.needs_compaction


def test_the_system_text_joins_its_segments_and_their_tokens_are_reported() -> None:
    log = Log()
    inputs = context_input(log, goal=log.user("hello"))
    context = assemble_context(inputs)
    assert context.system == "You are an agent."
    assert context.tokens["core"] == segment().tokens
    assert context.total_tokens == sum(context.tokens.values())


def test_results_are_marked_untrusted_when_sent_but_not_when_stored() -> None:
    log = Log()
    goal = log.user("look")
    log.exchange(call("c1"), result="a cat")
    context = assemble_context(context_input(log, goal=goal))
    assert texts(context)[2].startswith("<untrusted-")
    assert 'source="tool:look"' in texts(context)[2]
    assert log.messages[2].content == "a cat"


def test_a_persons_response_through_a_tool_is_not_marked_untrusted() -> None:
    log = Log()
    goal = log.user("book it")
    log.exchange(call("c1", "ask_user", question="when?"), result="on Monday")
    assert texts(assemble_context(context_input(log, goal=goal)))[2] == "on Monday"


def test_a_message_of_another_agent_is_marked_untrusted() -> None:
    log = Log()
    goal = log.user("research it")
    log.add(Role.USER, "I found it", metadata={"source": "agent:researcher"})
    assert 'source="agent:researcher"' in texts(assemble_context(context_input(log, goal=goal)))[1]


def test_the_newest_units_are_sent_and_a_note_replaces_the_older_ones() -> None:
    log = Log()
    for number in range(10):
        log.user(f"{number} {LONG}")
        log.says("yes")
    goal = log.user("and now?")
    context = assemble_context(context_input(log, goal=goal, window=5_000))
    assert "Older messages" in texts(context)[0]
    assert context.messages[1:] == log.messages[-len(context.messages) + 1 :]
    assert context.tokens["conversation"] + context.tokens["earlier"] <= context.budget.conversation
    assert context.needs_compaction


def test_the_goal_of_a_turn_is_sent_however_old_it_is() -> None:
    log = Log()
    goal = log.user("the task")
    for number in range(20):
        log.exchange(call(f"c{number}", at=number), result=LONG)
    context = assemble_context(context_input(log, goal=goal, window=5_000))
    assert context.messages[1] == goal
    assert len(context.messages) < len(log.messages)


def test_a_conversation_that_just_fits_is_sent_whole() -> None:
    log = Log()
    log.user(LONG)
    goal = log.user(LONG)
    log.exchange(call("c1"), result=LONG)
    log.exchange(call("c2"), result=LONG)
    needed = assemble_context(context_input(log, goal=goal)).tokens["conversation"]
    window = next(size for size in range(needed, 2 * needed) if _room(log, goal, size) >= needed)
    context = assemble_context(context_input(log, goal=goal, window=window))
    assert [message.id for message in context.messages] == [message.id for message in log.messages]
    assert "Older messages" in texts(assemble_context(context_input(log, goal=goal, window=window - 2)))[0]


def test_the_goal_of_a_turn_is_sent_even_if_it_is_before_the_window() -> None:
    log = Log()
    goal = log.user("the task")
    log.exchange(call("c1"))
    log.exchange(call("c2"))
    inputs = context_input(log, goal=goal, whole=False)
    context = assemble(_with_window(inputs, log.messages[3:]), sizes=MessageSizer(TOKENS))
    assert context.messages[1] == goal
    assert context.first_sequence == 0


def test_an_exchange_that_the_window_cuts_is_omitted() -> None:
    log = Log()
    log.exchange(call("c1"), call("c2"))
    goal = log.user("go on")
    context = assemble(
        _with_window(context_input(log, goal=goal, whole=False), log.messages[2:]), sizes=MessageSizer(TOKENS)
    )
    assert context.messages[1:] == [goal]


def test_an_unanswered_call_is_omitted_and_the_text_of_its_message_is_kept() -> None:
    log = Log()
    log.add(Role.ASSISTANT, "I look", call("c1"), call("c2"))
    log.add(Role.TOOL, "a cat", call_id="c2")
    log.add(Role.ASSISTANT, "", call("c3"))
    goal = log.user("go on")
    context = assemble_context(context_input(log, goal=goal)).messages
    assert [message.role for message in context] == [Role.ASSISTANT, Role.TOOL, Role.USER]
    assert [called.id for called in context[0].tool_calls] == ["c2"]


def test_results_follow_their_calls_even_if_a_message_came_in_between() -> None:
    log = Log()
    goal = log.user("look")
    log.add(Role.ASSISTANT, "", call("c1"))
    log.user("quick!")
    log.add(Role.TOOL, "a cat", call_id="c1")
    roles = [message.role for message in assemble_context(context_input(log, goal=goal)).messages]
    assert roles == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.USER]


def test_results_that_do_not_fit_are_shortened_in_the_middle() -> None:
    log = Log()
    goal = log.user("look")
    log.exchange(call("c1"), call("c2"), result="first " + "x y " * 5_000 + " last")
    context = assemble_context(context_input(log, goal=goal, window=4_000))
    assert context.tokens["conversation"] <= context.budget.conversation
    for text in texts(context)[2:]:
        assert "first" in text and "characters are left out here" in text and "last\n</untrusted-" in text


def test_every_shortened_result_keeps_a_minimum_of_text() -> None:
    log = Log()
    goal = log.user("look")
    log.exchange(call("c1"), call("c2"), result="word " * 2_000)
    context = assemble_context(context_input(log, goal=goal, window=300))
    assert all(480 <= len(text) < 600 and text.startswith("<untrusted-") for text in texts(context)[2:])


def test_only_the_first_result_of_a_call_is_sent() -> None:
    log = Log()
    goal = log.user("look")
    log.exchange(call("c1"), result="a cat")
    log.add(Role.TOOL, "a dog", call_id="c1")
    context = texts(assemble_context(context_input(log, goal=goal)))
    assert len(context) == 3
    assert "a cat" in context[2]


def test_an_empty_assistant_message_is_not_sent() -> None:
    log = Log()
    goal = log.user("hello")
    log.says("")
    assert assemble_context(context_input(log, goal=goal)).messages == [goal]


def test_an_empty_conversation_is_sent_with_a_note() -> None:
    (message,) = assemble_context(context_input(Log())).messages
    assert message.role is Role.USER
    assert "Nobody has said anything yet" in str(message.content)


def test_reminders_are_the_last_system_messages() -> None:
    log = Log()
    goal = log.user("hello")
    context = assemble_context(context_input(log, goal=goal, reminders=("stay on course",)))
    assert (context.messages[-1].role, context.messages[-1].content) == (Role.SYSTEM, "stay on course")
    assert context.tokens["reminders"] > 0


def test_a_conversation_is_compacted_before_it_overflows() -> None:
    log = Log()
    for _ in range(8):
        log.user(LONG)
        log.says("yes")
    goal = log.user("and now?")
    room = assemble_context(context_input(log, goal=goal)).tokens["conversation"]
    window = next(size for size in range(room, 2 * room, 50) if _room(log, goal, size) >= room)
    context = assemble_context(context_input(log, goal=goal, window=window))
    assert len(context.messages) == len(log.messages)
    assert context.needs_compaction
    assert not assemble_context(context_input(log, goal=goal, window=2 * window)).needs_compaction


def test_messages_before_the_window_without_a_summary_need_a_compaction() -> None:
    log = Log(first=10)
    log.user("hello")
    log.says("hello")
    goal = log.user("go on")
    untold = assemble_context(context_input(log, goal=goal, whole=False))
    assert untold.needs_compaction and not untold.covered
    context_with_summary = assemble_context(
        context_input(log, goal=goal, whole=False, compaction=Compaction(through=10, summary="they said hello"))
    )
    assert context_with_summary.covered and not context_with_summary.needs_compaction


def test_an_exhausted_compaction_is_not_repeated_until_the_conversation_grows() -> None:
    log = Log()
    for _ in range(6):
        log.user(LONG)
        log.says("yes")
    goal = log.user("and now?")
    tokens = assemble_context(context_input(log, goal=goal)).tokens["conversation"]
    for tries, before, needed in [(1, tokens, True), (2, tokens, False), (2, tokens // 2, True)]:
        compaction = Compaction(failed_tries=tries, tokens_before=before, tokens_after=before)
        assert (
            assemble_context(context_input(log, goal=goal, window=3_000, compaction=compaction)).needs_compaction
            is needed
        )


def test_messages_that_a_summary_covers_are_not_sent() -> None:
    log = Log()
    log.user("my name is Ada")
    log.says("hello Ada")
    goal = log.user("who am I?")
    context = assemble_context(
        context_input(log, goal=goal, compaction=Compaction(through=1, summary="the user is Ada"))
    )
    assert "the user is Ada" in texts(context)[0]
    assert context.messages[0].role is Role.USER
    assert context.messages[1:] == [goal]


@pytest.mark.parametrize("through", [1, 3, 99])
def test_a_summary_of_another_branch_is_not_used(through: int) -> None:
    log = Log()
    log.user("one")
    log.skip(1)
    log.says("two")
    log.skip(1)
    goal = log.user("three")
    context = assemble_context(
        context_input(log, goal=goal, compaction=Compaction(through=through, summary="other things"))
    )
    assert context.messages == log.messages
    assert context.compaction.through is None


def test_attachments_and_tools_count_as_tokens() -> None:
    log = Log()
    picture = ImagePart(source=UrlSource(value="https://example.org/cat.png"))
    goal = log.add(Role.USER, [TextPart(text="what is this?"), picture])
    context = assemble_context(context_input(log, goal=goal))
    assert context.tokens["conversation"] > 1_000
    tools = measure_tools(
        [ToolDefinition(name="look", description="look at it", parameters={"type": "object"})], tokens=TOKENS
    )
    assert tools.tokens > 10


def test_provider_data_counts_as_tokens() -> None:
    log = Log()
    goal = log.user("think")
    log.add(Role.ASSISTANT, "done", metadata={"provider": {"parts": [{"content": LONG}]}})
    assert assemble_context(context_input(log, goal=goal)).tokens["conversation"] > 500


def test_the_window_is_divided_into_budgets() -> None:
    budget = allocate_budget(100_000, system=1_000, tools=500, reminders=100)
    assert budget.usable == 90_000
    assert budget.output == 11_250
    assert budget.conversation == 90_000 - 11_250 - 1_600


def test_an_output_limit_is_reserved_up_to_half_of_the_window() -> None:
    assert allocate_budget(100_000, system=0, tools=0, output=30_000).output == 30_000
    assert allocate_budget(100_000, system=0, tools=0, output=90_000).output == 45_000


def test_a_model_without_a_window_is_refused() -> None:
    with pytest.raises(Invalid, match="more than 0 tokens"):
        allocate_budget(0, system=0, tools=0)


def _room(log: Log, goal: Message, window: int) -> int:
    return assemble_context(context_input(log, goal=goal, window=window)).budget.conversation


def _with_window(inputs: ContextInput, messages: list[Message]) -> ContextInput:
    return replace(inputs, messages=messages)
