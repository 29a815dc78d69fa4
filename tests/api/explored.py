"""What schemathesis has really done, read from its own report: a way that was not gone proves nothing."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec

from holdfast.domain.content import Json


class Explored:
    """What one or more explorations have done."""

    def __init__(self, *reports: Path) -> None:
        self.statuses: defaultdict[str, set[int | None]] = defaultdict(set)
        """How each operation was answered, by its method and path; nothing stands for no answer at all."""
        self.links: set[str] = set()
        """Links that were gone along."""
        self.negative = 0
        """How many requests were wrong on purpose."""
        for report in reports:
            for case, answer in _requests(report):
                self._note(case, answer)

    def _note(self, case: Json, answer: Json) -> None:
        value = case["value"]
        self.statuses[f"{value['method']} {value['path']}"].add(answer and answer["status_code"])
        self.negative += value["meta"]["generation"]["mode"] == "negative"
        if case["is_transition_applied"]:
            self.links.add(case["transition"]["id"])

    def never_done(self, operations: set[str]) -> set[str]:
        """Return those of `operations` that never succeeded."""
        return {each for each in operations if not any(status and status < 300 for status in self.statuses[each])}


def _requests(report: Path) -> Iterator[tuple[Json, Json]]:
    with report.open("rb") as lines:
        for line in lines:
            event = msgspec.json.decode(line)
            recorder = event.get("ScenarioFinished", {}).get("recorder", {})
            for name, case in recorder.get("cases", {}).items():
                yield case, recorder["interactions"].get(name, {}).get("response")
