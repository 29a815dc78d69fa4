"""The language in which a run sees its skills."""

import re
from collections.abc import Iterable
from typing import Final

from holdfast.domain.content import Json

DEFAULT_LOCALE: Final = "en"
JAPANESE: Final = "ja"
INPUT_LOCALE_KEYS: Final = ("skill_locale", "locale")
_JAPANESE_CHARACTER: Final = re.compile("[\u3041-\u30ff\u4e00-\u9fff]")


def resolve_locale(
    *,
    run_input: Json = None,
    thread: str | None = None,
    space: str | None = None,
    request: str | None = None,
    texts: Iterable[str] = (),
) -> str:
    """Return the language: of the run's input, the thread, the space, the request, or what the conversation is in."""
    given = run_input if isinstance(run_input, dict) else {}
    for locale in (*(given.get(key) for key in INPUT_LOCALE_KEYS), thread, space, request):
        if isinstance(locale, str) and (language := locale.replace("_", "-").partition("-")[0].strip().lower()):
            return language
    return JAPANESE if any(map(_JAPANESE_CHARACTER.search, texts)) else DEFAULT_LOCALE


def preferred_language(accept_language: str) -> str | None:
    """Return the language that a client prefers, from its header `Accept-Language`."""
    best, quality = None, 0.0
    for entry in accept_language.split(",")[:20]:
        tag, _, parameters = entry.strip().partition(";")
        try:
            weight = float(parameters.strip().removeprefix("q=") or 1.0)
        except ValueError:
            continue
        language = tag.strip().partition("-")[0].lower()
        if language.isalpha() and 2 <= len(language) <= 3 and weight > quality:
            best, quality = language, weight
    return best
