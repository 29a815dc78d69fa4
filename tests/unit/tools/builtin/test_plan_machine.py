"""Any sequence of plan tool calls gives the same plan as the functions of `domain.plan`."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from holdfast.domain import plan
from holdfast.domain.agent_task import agent_tasks
from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError
from holdfast.domain.events.custom import PlanChanged
from holdfast.domain.ids import RunId
from holdfast.domain.plan import Boundary, Plan, PlanPriority, PlanStatus, Subtask
from tests.support.calls import HERE, NOW
from tests.unit.tools.builtin.plan_tools import Planner

IDS: Final = st.integers(1, 5)
TEXTS: Final = st.sampled_from(["read", "write", " think ", " "])
SEEN: Final = {"planned": "pending", "blocked": "pending", "cancelled": "completed"}


class PlanTools(RuleBasedStateMachine):
    """Each rule calls a tool and the corresponding function of `domain.plan`."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.planner = Planner()
        self.expected = Plan()
        self.numbers = 0
        self.messages = 0

    def teardown(self) -> None:
        self.runner.close()

    @rule(
        title=TEXTS,
        priority=st.sampled_from(PlanPriority),
        subtasks=st.lists(TEXTS, max_size=2),
        position=st.none() | st.integers(0, 3),
    )
    def create(self, title: str, priority: PlanPriority, subtasks: list[str], position: int | None) -> None:
        self.numbers += 1
        self._both(
            "create",
            self.numbers,
            {"title": title, "priority": str(priority), "subtasks": subtasks, "position": position},
            lambda before: plan.create(
                before,
                task_id=self.numbers,
                title=title,
                priority=priority,
                subtasks=[Subtask(title=one) for one in subtasks],
                position=position,
                run_id=RunId("run_1"),
                agent_type="writer",
            ),
        )

    @rule(task_id=IDS, title=TEXTS, position=st.integers(0, 3))
    def update(self, task_id: int, title: str, position: int) -> None:
        changes: dict[str, Any] = {"title": title, "position": position}
        self._both(
            "update", task_id, {"task_id": task_id, **changes}, lambda before: plan.update(before, task_id, **changes)
        )

    @rule(task_id=IDS)
    def start(self, task_id: int) -> None:
        at = self._next()
        self._both(
            "start", task_id, {"task_id": task_id}, lambda before: plan.start(before, task_id, at=at, now=NOW), at=at
        )

    @rule(task_id=IDS, subtask=st.integers(-1, 2) | TEXTS)
    def check(self, task_id: int, subtask: int | str) -> None:
        self._both(
            "check",
            task_id,
            {"task_id": task_id, "subtask": subtask},
            lambda before: plan.check(before, task_id, subtask=subtask),
        )

    @rule(task_id=IDS, conclusion=TEXTS)
    def complete(self, task_id: int, conclusion: str) -> None:
        at = self._next()
        self._both(
            "complete",
            task_id,
            {"task_id": task_id, "conclusion": conclusion},
            lambda before: plan.complete(before, task_id, conclusion=conclusion, at=at, now=NOW),
            at=at,
        )

    @rule(task_id=IDS, reason=TEXTS)
    def block(self, task_id: int, reason: str) -> None:
        self._both(
            "block",
            task_id,
            {"task_id": task_id, "reason": reason},
            lambda before: plan.block(before, task_id, reason=reason),
        )

    @rule(task_id=IDS, reason=TEXTS)
    def cancel(self, task_id: int, reason: str) -> None:
        self._both(
            "cancel",
            task_id,
            {"task_id": task_id, "reason": reason},
            lambda before: plan.cancel(before, task_id, reason=reason, now=NOW),
        )

    @invariant()
    def the_plan_is_that_of_the_domain_functions(self) -> None:
        assert self.planner.plan == self.expected

    @invariant()
    def at_most_one_task_is_in_progress(self) -> None:
        assert sum(item.status is PlanStatus.IN_PROGRESS for item in self.planner.plan.items) <= 1

    @invariant()
    def the_value_is_json(self) -> None:
        assert msgspec.json.decode(msgspec.json.encode(self.planner.values)) == self.planner.values
        assert len(agent_tasks(self.planner.plan)) <= len(self.planner.plan.items)

    def _next(self) -> Boundary:
        self.messages += 2
        return Boundary(message_sequence_num=self.messages, content_sequence_num=0)

    def _both(
        self,
        name: str,
        task_id: int,
        arguments: dict[str, Json],
        change: Callable[[Plan], Plan],
        *,
        at: Boundary = HERE,
    ) -> None:
        outcome = self.runner.run(self.planner.call(name, at=at, **arguments))
        try:
            after = change(self.expected)
        except HoldfastError as error:
            assert outcome.failed
            assert outcome.content == f"{error.code}: {error.message}"
            assert (outcome.values, outcome.events) == ({}, ())
            return
        status = str(plan.find(after, task_id).status)
        assert outcome.content == {"task_id": task_id, "status": SEEN.get(status, status)}
        assert outcome.events == ([PlanChanged(items=after.items)] if after != self.expected else ())
        self.expected = after


TestPlanTools = PlanTools.TestCase
TestPlanTools.settings = settings(max_examples=50, stateful_step_count=25)
