"""What a phase of the loop may tell the loop, besides what it returns."""

from holdfast.domain.run import RunError


class RunFails(Exception):
    """The run cannot go on."""

    def __init__(self, error: RunError) -> None:
        super().__init__(error.message)
        self.error = error
