"""What the settings refuse, beside what the contract has a code for.

HoldfastError (domain)
└── Conflict
    └── SettingsChanged      somebody else changed them: read them again
"""

from holdfast.control.task_contract.errors import TaskInvalid
from holdfast.domain.errors import Conflict


class SettingsChanged(Conflict):
    """The settings are not those any more that the change was meant for."""

    code = "SETTINGS_CHANGED"


SETTINGS_ERRORS = (TaskInvalid, SettingsChanged)
