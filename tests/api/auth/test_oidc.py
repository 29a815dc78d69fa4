"""OpenID Connect tokens, signed by an issuer that the tests run."""

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
from holdfast.domain.instant import Millis
from holdfast.domain.space import Scope as KeyScope
from holdfast.testing.clock import HeldClock
from tests.api.auth.conftest import ACME, GLOBEX
from tests.api.conftest import write_agents
from tests.api.site import serve_app, serve_with_auth
from tests.scenario.agents.agent_workspace import AgentWorkspace

AUDIENCE: Final = "holdfast"
ADMISSION_RULES: Final = [
    AdmissionRule(claim="groups", value="bakers", scope=KeyScope.RUN, spaces=[SpaceId(ACME)]),
    AdmissionRule(claim="realm.roles", value="operator", scope=KeyScope.ADMIN, every_space=True),
    AdmissionRule(claim="tenanted", value="yes", scope=KeyScope.READ, spaces_from="tenants"),
]


class StubIssuer:
    """An OpenID Connect issuer: it has a signing key and counts requests."""

    def __init__(self) -> None:
        self.url = ""
        self.clock = HeldClock()
        self.request_count = 0
        self.down = False
        self.changes: dict[str, Json] = {}
        self.rotate("first")

    def rotate(self, name: str) -> None:
        """Replace the signing key."""
        self.key = jwk.ECKey.generate_key("P-256", {"kid": name, "use": "sig", "alg": "ES256"})

    def token(self, *, key: Any = None, alg: str = "ES256", kid: str | None = None, **claims: Json) -> str:
        """Sign a token; claims that are `None` are left out."""
        now = self.clock.now() // 1000
        defaults: dict[str, Json] = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "ann",
            "exp": now + 3600,
            "groups": ["bakers"],
        }
        payload = {name: value for name, value in (defaults | claims).items() if value is not None}
        header = {"alg": alg, "kid": kid or self.key.kid}
        return jwt.encode(header, payload, key or self.key, algorithms=[alg])

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Serve the configuration and the keys."""
        self.request_count += 1
        configuration = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"} | self.changes
        keys = jwk.KeySet([self.key]).as_dict(private=False)
        body = json.dumps(configuration if "well-known" in scope["path"] else keys).encode()
        await send({"type": "http.response.start", "status": 503 if self.down else 200, "headers": []})
        await send({"type": "http.response.body", "body": body})


class FakeMonotonic:
    """A monotonic clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return the current time in seconds."""
        return self.now


@asynccontextmanager
async def run_issuer() -> AsyncIterator[StubIssuer]:
    """Run an issuer while the block runs."""
    issuer = StubIssuer()
    async with serve_app(HostOriginMiddleware(issuer)) as url:
        issuer.url = url
        yield issuer


@pytest.fixture
async def issuer() -> AsyncIterator[StubIssuer]:
    async with run_issuer() as issuer:
        yield issuer


@pytest.fixture
def monotonic() -> FakeMonotonic:
    return FakeMonotonic()


@pytest.fixture
def authenticator(issuer: StubIssuer, monotonic: FakeMonotonic) -> OidcAuthenticator:
    return make_authenticator(issuer, monotonic)


def make_authenticator(issuer: StubIssuer, monotonic: FakeMonotonic) -> OidcAuthenticator:
    settings = OidcSettings(issuer=issuer.url, audience=AUDIENCE, admit=ADMISSION_RULES)
    return OidcAuthenticator(settings, Issuer(issuer.url, monotonic=monotonic), issuer.clock)


async def test_a_token_names_the_principal_and_the_rules_its_scope_and_spaces(
    issuer: StubIssuer, authenticator: OidcAuthenticator
) -> None:
    end = Millis(issuer.clock.now() + (3600 + CLOCK_LEEWAY_SECONDS) * 1000)
    assert await authenticator.authenticate(issuer.token()) == Principal(
        name="oidc:ann", scope=KeyScope.RUN, space_ids=(SpaceId(ACME),), expires_at=end
    )
    operator = await authenticator.authenticate(
        issuer.token(sub="eve", groups=None, realm={"roles": ["x", "operator"]})
    )
    assert operator == Principal(name="oidc:eve", scope=KeyScope.ADMIN, space_ids=None, expires_at=end)
    tenant = await authenticator.authenticate(
        issuer.token(groups="none", tenanted="yes", tenants=["b", "a", "not a space!", 7])
    )
    assert (tenant.scope, tenant.space_ids) == (KeyScope.READ, (SpaceId("b"), SpaceId("a")))


async def test_the_first_matching_admission_rule_applies(issuer: StubIssuer, authenticator: OidcAuthenticator) -> None:
    both = issuer.token(groups=["bakers"], realm={"roles": ["operator"]})
    assert (await authenticator.authenticate(both)).scope is KeyScope.RUN


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
async def test_a_token_that_no_rule_admits_is_forbidden(
    issuer: StubIssuer, authenticator: OidcAuthenticator, claims: dict[str, Json]
) -> None:
    with pytest.raises(Forbidden, match="your token is valid, but no rule admits you"):
        await authenticator.authenticate(issuer.token(**claims))


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
async def test_a_token_with_invalid_claims_is_refused(
    issuer: StubIssuer, authenticator: OidcAuthenticator, claims: dict[str, Json]
) -> None:
    with pytest.raises(Unauthenticated):
        await authenticator.authenticate(issuer.token(**claims))


async def test_a_token_that_the_issuer_did_not_sign_is_refused(
    issuer: StubIssuer, authenticator: OidcAuthenticator
) -> None:
    good = issuer.token()
    stranger = jwk.ECKey.generate_key("P-256", {"kid": "first"})
    shared = jwk.OctKey.import_key("a secret that the server might share with its issuer")
    head, body, signature = good.split(".")
    for token in (
        issuer.token(key=stranger),
        issuer.token(key=shared, alg="HS256"),
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
            await authenticator.authenticate(token)
    assert (await authenticator.authenticate(good)).name == "oidc:ann"


async def test_the_keys_of_the_issuer_are_cached(
    issuer: StubIssuer, authenticator: OidcAuthenticator, monotonic: FakeMonotonic
) -> None:
    await asyncio.gather(*(authenticator.authenticate(issuer.token(sub=str(number))) for number in range(20)))
    assert issuer.request_count == 2  # one for the configuration, one for the keys
    monotonic.now += ISSUER_KEYS_TTL_SECONDS
    await authenticator.authenticate(issuer.token(sub="later"))
    assert issuer.request_count == 4


async def test_a_rotated_key_of_the_issuer_replaces_the_old_one(
    issuer: StubIssuer, authenticator: OidcAuthenticator, monotonic: FakeMonotonic
) -> None:
    old, stale = issuer.token(sub="old"), issuer.token(sub="stale")
    await authenticator.authenticate(old)
    issuer.rotate("second")
    monotonic.now += MIN_REFRESH_INTERVAL_SECONDS
    assert (await authenticator.authenticate(issuer.token(sub="new"))).name == "oidc:new"
    with pytest.raises(Unauthenticated, match="a key that its issuer does not have"):
        await authenticator.authenticate(stale)


async def test_unknown_key_ids_do_not_cause_repeated_requests_to_the_issuer(
    issuer: StubIssuer, authenticator: OidcAuthenticator, monotonic: FakeMonotonic
) -> None:
    await authenticator.authenticate(issuer.token())
    for number in range(10):
        with pytest.raises(Unauthenticated):
            await authenticator.authenticate(issuer.token(kid=f"made-up-{number}"))
    assert issuer.request_count == 2


async def test_a_token_is_valid_until_it_expires(issuer: StubIssuer, authenticator: OidcAuthenticator) -> None:
    token = issuer.token(exp=issuer.clock.now() // 1000 + 10)
    await authenticator.authenticate(token)
    issuer.clock.tick(timedelta(seconds=10 + CLOCK_LEEWAY_SECONDS))
    with pytest.raises(Unauthenticated, match="it has expired"):
        await authenticator.authenticate(token)


async def test_a_cached_token_is_checked_again_after_a_while(
    issuer: StubIssuer, authenticator: OidcAuthenticator, monotonic: FakeMonotonic
) -> None:
    token = issuer.token()
    await authenticator.authenticate(token)
    issuer.rotate("second")
    monotonic.now += ISSUER_KEYS_TTL_SECONDS
    await authenticator.authenticate(token)
    issuer.clock.tick(timedelta(seconds=TOKEN_CACHE_SECONDS))
    with pytest.raises(Unauthenticated):
        await authenticator.authenticate(token)


async def test_cached_keys_are_used_while_the_issuer_is_down(
    issuer: StubIssuer, authenticator: OidcAuthenticator, monotonic: FakeMonotonic
) -> None:
    await authenticator.authenticate(issuer.token())
    issuer.down = True
    monotonic.now += ISSUER_KEYS_TTL_SECONDS
    assert (await authenticator.authenticate(issuer.token(sub="bob"))).name == "oidc:bob"


async def test_an_issuer_that_fails_is_reported_as_unavailable(issuer: StubIssuer, monotonic: FakeMonotonic) -> None:
    issuer.down = True
    with pytest.raises(Unavailable, match="responds with 503"):
        await make_authenticator(issuer, monotonic).authenticate(issuer.token())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"issuer": "https://other.example"}, "is named"),
        ({"jwks_uri": "http://other.example/keys"}, "does not begin with `https://`"),
        ({"jwks_uri": 7}, "sent an invalid configuration"),
    ],
)
async def test_an_invalid_configuration_of_the_issuer_is_refused(
    issuer: StubIssuer, monotonic: FakeMonotonic, changes: dict[str, Json], message: str
) -> None:
    issuer.changes = changes
    with pytest.raises(Unavailable, match=message):
        await make_authenticator(issuer, monotonic).authenticate(issuer.token())


@pytest.mark.parametrize("url", ["", "http://issuer.example", "ftp://localhost", "issuer", "http://[", "https://"])
def test_an_invalid_issuer_url_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match="is not a valid issuer"):
        Issuer(url)


def test_a_rule_without_a_claim_admits_every_token() -> None:
    settings = OidcSettings(
        issuer="https://x", audience="x", admit=[AdmissionRule(scope=KeyScope.READ, spaces=[SpaceId("a")])]
    )
    assert principal_from_claims(settings, {"sub": "x"}) == Principal(
        name="oidc:x", scope=KeyScope.READ, space_ids=(SpaceId("a"),)
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("{}", "issuer"),
        ('{"issuer": "https://x", "audience": "x", "admit": []}', "admit"),
        ('{"issuer": "http://x", "audience": "x", "admit": [{"scope": "run"}]}', "is not a valid issuer"),
        ('{"issuer": "https://x", "audience": "x", "admit": [{"scope": "run", "clam": "x"}]}', "clam"),
    ],
)
def test_an_invalid_settings_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "oidc.json").write_text(text)
    with pytest.raises(Invalid, match=message):
        read_oidc_authenticator(tmp_path / "oidc.json")
    with pytest.raises(Invalid, match="cannot be read"):
        read_oidc_authenticator(tmp_path / "missing.json")


async def test_a_token_is_accepted_like_a_key(tmp_path: Path) -> None:
    async with run_issuer() as issuer:
        workshop = write_agents(AgentWorkspace(tmp_path / "workspace", tmp_path / "holdfast.db"))
        authenticator = make_authenticator(issuer, FakeMonotonic())
        async with serve_with_auth(workshop, oidc=authenticator) as site:
            await site.get("/api/threads", expect=401)
            operator = issuer.token(sub="eve", groups=None, realm={"roles": ["operator"]})
            headers = {"Authorization": f"Bearer {operator}"}
            key = await site.post("/api/keys", {"name": "root", "scope": "admin", "every_space": True}, headers=headers)
            assert key["created_by"] == "oidc:eve"
            for space in (ACME, GLOBEX):
                await site.post("/api/spaces", {"id": space}, headers=headers)
            ann_headers = {"Authorization": f"Bearer {issuer.token()}"}
            thread = await site.post("/api/threads", {"agent_type": "bot"}, headers=ann_headers)
            assert (thread["space_id"], thread["created_by"]) == (ACME, "oidc:ann")
            assert (await site.request("GET", f"/api/spaces/{GLOBEX}/threads", headers=ann_headers)).status_code == 404
            refused = await site.request("GET", "/api/threads", headers={"Authorization": "Bearer a.b.c"})
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
            key_headers = {"Authorization": f"Bearer {key['secret']}"}
            assert (await site.request("GET", "/api/threads", headers=key_headers)).status_code == 200
