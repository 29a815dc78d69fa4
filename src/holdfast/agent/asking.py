"""What children ask people: a run that waits for them asks it too, and so does whoever waits for that run.

What is asked below is kept in a value of the run, from the commit that ends its segment with it until the question is
closed or the run waits for that child no longer.
"""

from collections.abc import Collection, Mapping

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from holdfast.agent.mail import child_questions, closed_question
from holdfast.agent.work import Work
from holdfast.domain.events.messages import AgUiInterrupt
from holdfast.domain.ids import RunId
from holdfast.domain.inbox import InboxItem
from holdfast.domain.interrupt import CHILD_INTERRUPTS_VALUE, child_interrupts


def note_questions(work: Work, awaited: Collection[RunId]) -> None:
    """Take in what children ask and what was answered, and keep what those ask that the run waits for."""
    before = child_interrupts(work.values)
    asked = dict(before)
    items = work.mail.questions()
    for item in items:
        asked = _noted(asked, item)
    work.log.draft.add(consumed=[item.number for item in items])
    kept = {child: questions for child, questions in asked.items() if child in awaited and questions}
    if kept != before:
        work.set_values({CHILD_INTERRUPTS_VALUE: msgspec.to_builtins(kept) or None})


def _noted(asked: Mapping[RunId, list[AgUiInterrupt]], item: InboxItem) -> dict[RunId, list[AgUiInterrupt]]:
    closed = closed_question(item)
    if closed is not None:
        return {child: [each for each in questions if each.id != closed] for child, questions in asked.items()}
    child, questions = child_questions(item)
    # A call of the child means nothing in the stream of the run that shows its question.
    return {**asked, child: [replace(each, subagent_run_id=child, tool_call_id=UNSET) for each in questions]}
