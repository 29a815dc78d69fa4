"""The values of a run: what it holds beside its messages. It starts with those of its base."""

from collections.abc import Iterable
from typing import Final

from holdfast.domain.errors import Invalid

VALUE_NAMES: Final = frozenset(
    {
        "approvals",
        "asking",
        "client_tools",
        "compaction",
        "files",
        "mail",
        "plan",
        "questions",
        "rights",
        "shell",
        "spawned",
        "state",
        "taint",
        "todo",
        "tools",
    }
)


def check_value_names(names: Iterable[str]) -> None:
    """Raise unless a run may have values of these names."""
    if not VALUE_NAMES.issuperset(names):
        raise Invalid(f"a run has the values {', '.join(sorted(VALUE_NAMES))}", field="values")
