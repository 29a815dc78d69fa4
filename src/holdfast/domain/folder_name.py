"""How a folder of the workspace is named that agents and what works for them may write to."""

from typing import Annotated, Final, TypeAlias

from msgspec import Meta

# No part begins with a dot, so none leads out or is `.holdfast`. The names of the workspace itself are refused however
# they are written, because some disks do not tell small letters from capitals.
_OWN: Final = "|".join(
    "".join(f"[{letter.upper()}{letter}]" if letter.isalpha() else rf"\{letter}" for letter in name)
    for name in ("agents", "tools", "skills", "settings.json")
)
_PART: Final = "[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}"
FolderName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=rf"^(?!({_OWN})(/|\Z)){_PART}(/{_PART}){{0,7}}\Z",
        extra={
            "expected": "a folder of the workspace such as `files` or `projects/site`: relative, of letters, digits, "
            "`.`, `_` and `-`, no part beginning with `.`, and not in `agents`, `tools` or `skills`"
        },
    ),
]
