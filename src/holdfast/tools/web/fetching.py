"""How a page is fetched: by GET, from one address to the next, each of which is decided about anew."""

import asyncio
from collections.abc import Callable
from typing import Final

from holdfast.domain.errors import Invalid, Unavailable
from holdfast.domain.permission import PermissionAction
from holdfast.domain.web_url import WebUrl, join_web_url
from holdfast.tools.web.http import Answer, Http, Request

MAX_BODY: Final = 5 * 1024 * 1024
"""Bytes, once they are unpacked."""
MAX_REDIRECTS: Final = 5
SECONDS: Final = 40.0
"""For all of it."""
HEADERS: Final = {
    "User-Agent": "Holdfast (an agent that reads the web for a person)",
    "Accept": "text/markdown, text/html;q=0.9, text/*;q=0.8, application/json;q=0.8, application/xml;q=0.7, */*;q=0.1",
}


async def fetch(http: Http, url: WebUrl, *, decide: Callable[[WebUrl], PermissionAction]) -> tuple[WebUrl, Answer]:
    """Return what is at an address, and where it was in the end; `decide` says what the rules make of a redirect."""
    try:
        async with asyncio.timeout(SECONDS):
            return await _follow(http, url, decide)
    except TimeoutError as exc:
        raise Unavailable(f"`{url.host}` did not answer within {SECONDS:g} seconds") from exc


async def _follow(http: Http, url: WebUrl, decide: Callable[[WebUrl], PermissionAction]) -> tuple[WebUrl, Answer]:
    for _ in range(MAX_REDIRECTS + 1):
        answer = await http.request(Request(url=url, headers=HEADERS, most=MAX_BODY))
        if not answer.redirects:
            return url, answer
        there = join_web_url(url, answer.headers["location"])
        _check_redirect(url, there, decide(there))
        url = there
    raise Invalid(f"it leads on and on: after {MAX_REDIRECTS} redirects there is another one", field="url")


def _check_redirect(here: WebUrl, there: WebUrl, verdict: PermissionAction) -> None:
    """Raise unless it may be followed: what a person allowed for one host is not allowed for another."""
    if verdict is PermissionAction.DENY:
        raise Invalid(f"it leads to `{there.host}`, which the rules deny", field="url")
    if here.scheme == "https" and there.scheme == "http":
        raise Invalid(f"it leads on without encryption, to `{there}`: fetch that if you want it", field="url")
    if verdict is PermissionAction.ASK and _site(here) != _site(there):
        raise Invalid(f"it leads to another host, to `{there}`: fetch that if you want it", field="url")


def _site(url: WebUrl) -> str:
    return url.host.removeprefix("www.")
