"""What a call is told that waited for the end of another run."""

from holdfast.domain.run import Run, RunStatus
from holdfast.domain.tool import ToolSpec
from holdfast.tools.tool import Arrival, ChildEnded, Disturbed, Outcome
from holdfast.tools.typed import unexpected


def reply(spec: ToolSpec, who: str, arrival: Arrival, *, goes_on: dict[str, str]) -> Outcome:
    """Return the output of a run, or why it has none; where the run goes on without the call, say so with `goes_on`."""
    match arrival:
        case ChildEnded(status=RunStatus.COMPLETED, output=output):
            return Outcome(content=output)
        case ChildEnded(status=status, error=error):
            why = "" if error is None else f": {error.code}: {error.message}"
            end = "was cancelled" if status is RunStatus.CANCELLED else "failed"
            return Outcome(content=f"{who} {end}{why}", failed=True)
        case Disturbed(because=because):
            return Outcome(content={**goes_on, "note": f"it goes on in the background: {because} meanwhile"})
        case _:
            raise unexpected(spec, arrival)


def ended(run: Run) -> ChildEnded:
    """Return how a run ended that has ended already."""
    return ChildEnded(run_id=run.id, status=run.status, output=run.output, error=run.error)
