"""People who come with tokens of their issuer, a real one in the hands of these tests."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from joserfc import jwk, jwt

from holdfast.api.asgi import AsgiScope, Receive, Send
from holdfast.api.auth.oidc import (
    CLOCK_LEEWAY_SECONDS,
    ISSUER_KEYS_TTL_SECONDS,
    MIN_REFRESH_INTERVAL_SECONDS,
    TOKEN_CACHE_SECONDS,
    AdmissionRule,
    Issuer,
    OidcAuthenticator,
    OidcSettings,
    principal_from_claims,
)
from holdfast.api.middleware import HostOriginMiddleware
from holdfast.bootstrap.server_options import read_oidc_authenticator
from holdfast.control.errors import Forbidden, Unauthenticated
from holdfast.control.principal import Principal
from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid, Unavailable
from holdfast.domain.ids import SpaceId
from holdfast.domain.space import Scope as KeyScope
from holdfast.testing.clock import HeldClock
from tests.api.auth.conftest import ACME, GLOBEX
from tests.api.conftest import write_agents
from tests.api.site import serve_app, serve_with_auth
from tests.scenario.agents.workshop import Workshop

AUDIENCE: Final = "holdfast"
ADMITTED: Final = [
    AdmissionRule(claim="groups", value="bakers", scope=KeyScope.RUN, spaces=[SpaceId(ACME)]),
    AdmissionRule(claim="realm.roles", value="operator", scope=KeyScope.ADMIN, every_space=True),
    AdmissionRule(claim="tenanted", value="yes", scope=KeyScope.READ, spaces_from="tenants"),
]


class Provider:
    """An issuer: its keys, what it signs, and how often it was asked."""

    def __init__(self) -> None:
        self.url = ""
        self.clock = HeldClock()
        self.asked = 0
        self.down = False
        self.changes: dict[str, Json] = {}
        self.rotate("first")

    def rotate(self, name: str) -> None:
        """Exchange the key."""
        self.key = jwk.ECKey.generate_key("P-256", {"kid": name, "use": "sig", "alg": "ES256"})

    def token(self, *, key: Any = None, alg: str = "ES256", kid: str | None = None, **claims: Json) -> str:
        """Sign something; what is null is left out."""
        now = self.clock.now() // 1000
        usual: dict[str, Json] = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "ann",
            "exp": now + 3600,
            "groups": ["bakers"],
        }
        said = {name: value for name, value in (usual | claims).items() if value is not None}
        header = {"alg": alg, "kid": kid or self.key.kid}
        return jwt.encode(header, said, key or self.key, algorithms=[alg])

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer like an issuer."""
        self.asked += 1
        configuration = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"} | self.changes
        keys = jwk.KeySet([self.key]).as_dict(private=False)
        body = json.dumps(configuration if "well-known" in scope["path"] else keys).encode()
        await send({"type": "http.response.start", "status": 503 if self.down else 200, "headers": []})
        await send({"type": "http.response.body", "body": body})


class Watch:
    """A clock that counts seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return how many there were."""
        return self.now


@asynccontextmanager
async def issuing() -> AsyncIterator[Provider]:
    """Yield an issuer that is up."""
    provider = Provider()
    async with serve_app(HostOriginMiddleware(provider)) as url:
        provider.url = url
        yield provider


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with issuing() as up:
        yield up


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def tokens(provider: Provider, watch: Watch) -> OidcAuthenticator:
    return tokens_of(provider, watch)


def tokens_of(provider: Provider, watch: Watch) -> OidcAuthenticator:
    settings = OidcSettings(issuer=provider.url, audience=AUDIENCE, admit=ADMITTED)
    return OidcAuthenticator(settings, Issuer(provider.url, monotonic=watch), provider.clock)


async def test_a_token_says_who_somebody_is_and_the_admissions_what_they_may(
    provider: Provider, tokens: OidcAuthenticator
) -> None:
    assert await tokens.authenticate(provider.token()) == Principal(
        name="oidc:ann", scope=KeyScope.RUN, space_ids=(SpaceId(ACME),)
    )
    operator = await tokens.authenticate(provider.token(sub="eve", groups=None, realm={"roles": ["x", "operator"]}))
    assert operator == Principal(name="oidc:eve", scope=KeyScope.ADMIN, space_ids=None)
    tenant = await tokens.authenticate(
        provider.token(groups="none", tenanted="yes", tenants=["b", "a", "not a space!", 7])
    )
    assert tenant == Principal(name="oidc:ann", scope=KeyScope.READ, space_ids=(SpaceId("b"), SpaceId("a")))


async def test_the_first_admission_that_fits_counts(provider: Provider, tokens: OidcAuthenticator) -> None:
    both = provider.token(groups=["bakers"], realm={"roles": ["operator"]})
    assert (await tokens.authenticate(both)).scope is KeyScope.RUN


@pytest.mark.parametrize(
    "claims",
    [
        {"groups": ["butchers"]},
        {"groups": None},
        {"groups": {"bakers": True}},
        {"groups": None, "realm": "operator"},
        {"groups": None, "tenanted": "yes"},
        {"groups": None, "tenanted": "yes", "tenants": []},
        {"sub": "x" * 201},
        {"sub": "a\nb"},
    ],
)
async def test_who_is_not_admitted_is_told_so(
    provider: Provider, tokens: OidcAuthenticator, claims: dict[str, Json]
) -> None:
    with pytest.raises(Forbidden, match="no rule admits you"):
        await tokens.authenticate(provider.token(**claims))


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://elsewhere.example"},
        {"iss": None},
        {"aud": "another"},
        {"aud": ["another"]},
        {"aud": None},
        {"exp": None},
        {"exp": "never"},
        {"exp": 1},
        {"sub": None},
        {"nbf": 9_999_999_999},
    ],
)
async def test_a_token_that_is_for_something_else_opens_nothing(
    provider: Provider, tokens: OidcAuthenticator, claims: dict[str, Json]
) -> None:
    with pytest.raises(Unauthenticated):
        await tokens.authenticate(provider.token(**claims))


async def test_a_token_that_the_issuer_did_not_sign_opens_nothing(
    provider: Provider, tokens: OidcAuthenticator
) -> None:
    good = provider.token()
    stranger = jwk.ECKey.generate_key("P-256", {"kid": "first"})
    shared = jwk.OctKey.import_key("a secret that the server might share with its issuer")
    head, body, signature = good.split(".")
    for forged in (
        provider.token(key=stranger),
        provider.token(key=shared, alg="HS256"),
        f"{head}.{body}.",
        f"{head}.{body}.{signature[:-4]}AAAA",
        f"{head}.{body}",
        "eyJhbGciOiJub25lIn0.e30.",
        "a.b.c",
        "..",
        "é.é.é",
        good + "x" * 20_000,
    ):
        with pytest.raises(Unauthenticated):
            await tokens.authenticate(forged)
    assert (await tokens.authenticate(good)).name == "oidc:ann"


async def test_the_keys_are_asked_for_once_in_a_while(
    provider: Provider, tokens: OidcAuthenticator, watch: Watch
) -> None:
    await asyncio.gather(*(tokens.authenticate(provider.token(sub=str(number))) for number in range(20)))
    assert provider.asked == 2  # where they are, and what they are
    watch.now += ISSUER_KEYS_TTL_SECONDS
    await tokens.authenticate(provider.token(sub="later"))
    assert provider.asked == 4


async def test_a_new_key_of_the_issuer_is_found_and_an_old_one_forgotten(
    provider: Provider, tokens: OidcAuthenticator, watch: Watch
) -> None:
    old, stale = provider.token(sub="old"), provider.token(sub="stale")
    await tokens.authenticate(old)
    provider.rotate("second")
    watch.now += MIN_REFRESH_INTERVAL_SECONDS
    assert (await tokens.authenticate(provider.token(sub="new"))).name == "oidc:new"
    with pytest.raises(Unauthenticated, match="a key that its issuer does not have"):
        await tokens.authenticate(stale)


async def test_a_stranger_cannot_make_the_server_ask_again_and_again(
    provider: Provider, tokens: OidcAuthenticator, watch: Watch
) -> None:
    await tokens.authenticate(provider.token())
    for number in range(10):
        with pytest.raises(Unauthenticated):
            await tokens.authenticate(provider.token(kid=f"made-up-{number}"))
    assert provider.asked == 2


async def test_a_token_is_believed_until_it_expires(provider: Provider, tokens: OidcAuthenticator) -> None:
    token = provider.token(exp=provider.clock.now() // 1000 + 10)
    await tokens.authenticate(token)
    provider.clock.tick(timedelta(seconds=10 + CLOCK_LEEWAY_SECONDS))
    with pytest.raises(Unauthenticated, match="it has expired"):
        await tokens.authenticate(token)


async def test_a_token_that_was_checked_is_checked_again_after_a_while(
    provider: Provider, tokens: OidcAuthenticator, watch: Watch
) -> None:
    token = provider.token()
    await tokens.authenticate(token)
    provider.rotate("second")
    watch.now += ISSUER_KEYS_TTL_SECONDS
    await tokens.authenticate(token)
    provider.clock.tick(timedelta(seconds=TOKEN_CACHE_SECONDS))
    with pytest.raises(Unauthenticated):
        await tokens.authenticate(token)


async def test_an_issuer_that_is_down_is_no_reason_to_refuse_what_is_known(
    provider: Provider, tokens: OidcAuthenticator, watch: Watch
) -> None:
    await tokens.authenticate(provider.token())
    provider.down = True
    watch.now += ISSUER_KEYS_TTL_SECONDS
    assert (await tokens.authenticate(provider.token(sub="bob"))).name == "oidc:bob"


async def test_an_issuer_that_was_never_there_is_said_to_be_unavailable(provider: Provider, watch: Watch) -> None:
    provider.down = True
    with pytest.raises(Unavailable, match="responds with 503"):
        await tokens_of(provider, watch).authenticate(provider.token())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"issuer": "https://other.example"}, "is named"),
        ({"jwks_uri": "http://other.example/keys"}, "does not begin with `https://`"),
        ({"jwks_uri": 7}, "an invalid configuration"),
    ],
)
async def test_an_issuer_that_says_strange_things_is_not_believed(
    provider: Provider, watch: Watch, changes: dict[str, Json], said: str
) -> None:
    provider.changes = changes
    with pytest.raises(Unavailable, match=said):
        await tokens_of(provider, watch).authenticate(provider.token())


@pytest.mark.parametrize("url", ["", "http://issuer.example", "ftp://localhost", "issuer", "http://[", "https://"])
def test_what_can_be_no_issuer_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match="is not a valid issuer"):
        Issuer(url)


def test_an_admission_without_a_claim_is_for_everybody() -> None:
    settings = OidcSettings(
        issuer="https://x", audience="x", admit=[AdmissionRule(scope=KeyScope.READ, spaces=[SpaceId("a")])]
    )
    assert principal_from_claims(settings, {"sub": "x"}) == Principal(
        name="oidc:x", scope=KeyScope.READ, space_ids=(SpaceId("a"),)
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("{}", "issuer"),
        ('{"issuer": "https://x", "audience": "x", "admit": []}', "admit"),
        ('{"issuer": "http://x", "audience": "x", "admit": [{"scope": "run"}]}', "is not a valid issuer"),
        ('{"issuer": "https://x", "audience": "x", "admit": [{"scope": "run", "clam": "x"}]}', "clam"),
    ],
)
def test_a_file_that_says_no_such_thing_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "oidc.json").write_text(text)
    with pytest.raises(Invalid, match=said):
        read_oidc_authenticator(tmp_path / "oidc.json")
    with pytest.raises(Invalid, match="cannot be read"):
        read_oidc_authenticator(tmp_path / "missing.json")


async def test_somebody_with_a_token_is_let_in_like_somebody_with_a_key(tmp_path: Path) -> None:
    async with issuing() as provider:
        workshop = write_agents(Workshop(tmp_path / "workspace", tmp_path / "holdfast.db"))
        authenticator = tokens_of(provider, Watch())
        async with serve_with_auth(workshop, oidc=authenticator) as site:
            await site.get("/api/threads", expect=401)
            operator = provider.token(sub="eve", groups=None, realm={"roles": ["operator"]})
            headers = {"Authorization": f"Bearer {operator}"}
            key = await site.post("/api/keys", {"name": "root", "scope": "admin", "every_space": True}, headers=headers)
            assert key["created_by"] == "oidc:eve"
            for space in (ACME, GLOBEX):
                await site.post("/api/spaces", {"id": space}, headers=headers)
            ann = {"Authorization": f"Bearer {provider.token()}"}
            thread = await site.post("/api/threads", {"agent_type": "bot"}, headers=ann)
            assert (thread["space_id"], thread["created_by"]) == (ACME, "oidc:ann")
            assert (await site.request("GET", f"/api/spaces/{GLOBEX}/threads", headers=ann)).status_code == 404
            refused = await site.request("GET", "/api/threads", headers={"Authorization": "Bearer a.b.c"})
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
            by_key = {"Authorization": f"Bearer {key['secret']}"}
            assert (await site.request("GET", "/api/threads", headers=by_key)).status_code == 200
