"""What may stand in a text that we store, and how others' messages are quoted."""

from holdfast.domain.errors import Invalid, TooLarge


def check_text(value: str, *, field: str, most: int) -> str:
    """Return `value` if both databases can keep it: no NUL, no half of a surrogate pair, not too long."""
    if len(value) > most:
        raise TooLarge(f"`{field}` may have at most {most} characters", field=field)
    if "\x00" in value:
        raise Invalid(f"`{field}` may not contain a NUL character", field=field)
    try:
        value.encode()
    except UnicodeEncodeError as exc:
        raise Invalid(f"`{field}` is not valid Unicode", field=field) from exc
    return value


def check_sought(value: str, *, field: str, most: int) -> str:
    """Return `value` if something may have it that is looked for; what nothing can have is wrong, and not too large."""
    if len(value) > most:
        raise Invalid(f"`{field}` may have at most {most} characters", field=field)
    return check_text(value, field=field, most=most)


def uncapitalised(message: str) -> str:
    """Return somebody else's message as the end of a sentence of ours; a word like `JSON` stays as it is."""
    return message if message[1:2].isupper() else message[:1].lower() + message[1:]
