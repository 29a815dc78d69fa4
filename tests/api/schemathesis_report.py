"""The report of a schemathesis run: which operations it called, with which statuses, and which links it followed."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec

from holdfast.domain.content import Json


class SchemathesisReport:
    """The requests of one or more schemathesis runs."""

    def __init__(self, *reports: Path) -> None:
        self.statuses: defaultdict[str, set[int | None]] = defaultdict(set)
        """Statuses by method and path; `None` stands for a request without a response."""
        self.links: set[str] = set()
        """Links that were followed."""
        self.negative = 0
        """Number of requests that were invalid on purpose."""
        for report in reports:
            for case, response in _requests(report):
                self._add(case, response)

    def _add(self, case: Json, response: Json) -> None:
        value = case["value"]
        self.statuses[f"{value['method']} {value['path']}"].add(response and response["status_code"])
        self.negative += value["meta"]["generation"]["mode"] == "negative"
        if case["is_transition_applied"]:
            self.links.add(case["transition"]["id"])

    def never_succeeded(self, operations: set[str]) -> set[str]:
        """Return the operations that never succeeded."""
        return {each for each in operations if not any(status and status < 300 for status in self.statuses[each])}


def _requests(report: Path) -> Iterator[tuple[Json, Json]]:
    with report.open("rb") as lines:
        for line in lines:
            event = msgspec.json.decode(line)
            recorder = event.get("ScenarioFinished", {}).get("recorder", {})
            for name, case in recorder.get("cases", {}).items():
                yield case, recorder["interactions"].get(name, {}).get("response")
