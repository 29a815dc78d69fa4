"""The token of a request: from its `Authorization` header, or from the session cookie of a browser.

A browser sends the cookie with every request to this server, whoever caused it. So it counts only if the request comes
from a page of this server itself: another site can then neither read nor act, even one that CORS allows.
"""

from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import quote, unquote

from holdfast.api.asgi import AsgiScope

SESSION_COOKIE: Final = "holdfast_session"
_ATTRIBUTES: Final = "Path=/; HttpOnly; SameSite=Strict"
END_SESSION: Final = f"{SESSION_COOKIE}=; {_ATTRIBUTES}; Max-Age=0"
"""The `Set-Cookie` header that removes the cookie."""
_SAFE_METHODS: Final = frozenset({"GET", "HEAD"})


def bearer_token(scope: AsgiScope) -> str:
    """Return the token of the `Authorization` header, or an empty string."""
    scheme, _, token = _header(scope, b"authorization").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def session_token(scope: AsgiScope) -> str:
    """Return the token of the session cookie if the request comes from a page of this server, or an empty string."""
    header = _header(scope, b"cookie")
    if SESSION_COOKIE not in header or not _is_same_origin(scope):
        return ""
    try:
        found = SimpleCookie(header).get(SESSION_COOKIE)
    except CookieError:
        return ""
    return "" if found is None else unquote(found.value)


def session_cookie(scope: AsgiScope, token: str) -> str:
    """Return the `Set-Cookie` header of a session."""
    # A proxy that ends TLS forwards plain HTTP, but the browser names the scheme of its page.
    is_secure = scope["scheme"] == "https" or _header(scope, b"origin").startswith("https://")
    cookie = f"{SESSION_COOKIE}={quote(token, safe='')}; {_ATTRIBUTES}"
    return f"{cookie}; Secure" if is_secure else cookie


def _is_same_origin(scope: AsgiScope) -> bool:
    """Return whether a page of this server made the request. Pages cannot set the headers that tell."""
    origin, site = _header(scope, b"origin"), _header(scope, b"sec-fetch-site")
    if origin:
        host = _header(scope, b"host")
        return site in ("", "same-origin") and origin in (f"http://{host}", f"https://{host}")
    # Browsers omit `Origin` from plain reads of the same origin, and from nothing else that matters.
    return scope["type"] == "http" and scope["method"] in _SAFE_METHODS and site == "same-origin"


def _header(scope: AsgiScope, name: bytes) -> str:
    return next((value.decode("latin-1") for each, value in scope["headers"] if each == name), "")
