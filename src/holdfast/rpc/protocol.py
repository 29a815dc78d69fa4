"""The wire format of the control RPC, which both sides share.

    POST /rpc/leases/claim       needs a worker key; each lease comes with a token
    POST /rpc/leases/<method>    renew, release and end leases, named by their tokens; announce the worker
    POST /rpc/<port>/<method>    a call of a runtime port under the lease whose token is in `Holdfast-Lease`
    GET  /rpc/hints              wake-up hints as lines of JSON

Bodies and results are JSON, decoded by the types of the ports. A body never names a lease, a key or the space: the
server finds them by the token.
"""

import hmac
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, get_type_hints

import msgspec

from holdfast.domain.agent import Agent
from holdfast.domain.commit import Commit, Lease, LeaseRef
from holdfast.domain.content import Json
from holdfast.domain.errors import HoldfastError, Invalid, error_class_of
from holdfast.domain.ids import OwnerId, RunId, SpaceId
from holdfast.domain.instant import Instant
from holdfast.domain.run import RunError
from holdfast.domain.worker import DEFAULT_POOL
from holdfast.ports.runtime import RuntimePorts

PROTOCOL_VERSION: Final = "2"
RPC_PATH: Final = "/rpc/"
MAX_LEASE_SECONDS: Final = 3600
"""A worker that dies holds its runs for so long at most."""
MAX_RELEASE_DELAY_SECONDS: Final = 3600
VERSION_HEADER: Final = "Holdfast-Rpc-Version"
LEASE_HEADER: Final = "Holdfast-Lease"
COMMIT_HEADER: Final = "Holdfast-Commit"
"""The number of a commit among those of its lease."""
CALL_HEADER: Final = "Holdfast-Call"
"""A name of a call that must not be executed twice: if it arrives again, it gets the result of the first one."""
WORKER_HEADER: Final = "Holdfast-Worker"
"""The worker that reads a hint stream: while the stream is open, it lives."""
RECONNECT_GRACE_SECONDS: Final = 3.0
"""A worker whose hint stream has ended, and that renews no lease for so long, is dead: others take over its runs.

So a worker that could not renew its leases for so long must have stopped its runs, although they are not expired.
"""
MAX_BODY_BYTES: Final = 64 * 1024 * 1024

PORTS: Final[Mapping[str, type]] = get_type_hints(RuntimePorts)
"""The ports whose methods are called under a lease, by their name in a path."""


class Method(NamedTuple):
    """A method of a port: the struct of its arguments without the lease, and the type of its result."""

    arguments: type[msgspec.Struct]
    result: Any
    signature: inspect.Signature


def _to_method(port: str, name: str, function: Callable[..., Any]) -> Method:
    hints, signature = get_type_hints(function), inspect.signature(function)
    fields = [
        (parameter.name, hints[parameter.name])
        if parameter.default is parameter.empty
        else (parameter.name, hints[parameter.name], parameter.default)
        for parameter in signature.parameters.values()
        if parameter.name not in ("self", "lease", "commit")
    ]
    arguments = msgspec.defstruct(f"{port}_{name}", fields, kw_only=True, forbid_unknown_fields=True)
    return Method(arguments, hints["return"], signature)


METHODS: Final[Mapping[tuple[str, str], Method]] = {
    (port, name): _to_method(port, name, function)
    for port, protocol in PORTS.items()
    for name, function in vars(protocol).items()
    if inspect.iscoroutinefunction(function)
}


def _default_of(field: msgspec.structs.FieldInfo) -> Any:
    made = field.default_factory is not msgspec.NODEFAULT
    return msgspec.field(default_factory=field.default_factory) if made else field.default


CommitBody: Final = msgspec.defstruct(
    "CommitBody",
    [
        (field.name, field.type, _default_of(field))
        for field in msgspec.structs.fields(Commit)
        if field.name not in ("lease", "number")
    ],
    kw_only=True,
    forbid_unknown_fields=True,
)
"""A commit without its lease and number."""


LeaseSeconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=MAX_LEASE_SECONDS)]


class ClaimBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A claim; `owner` names the process of the worker."""

    owner: OwnerId
    lease_seconds: LeaseSeconds
    limit: int
    pools: Sequence[str] = (DEFAULT_POOL,)


class PoolsBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The pools that a worker is about to claim from."""

    pools: Sequence[str]


class ClaimedLease(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A lease and the token that its calls need."""

    lease: Lease
    token: str
    agent: Agent | None = None
    """The agent of the run, if the claim read it."""


class RenewBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The leases that a worker still needs."""

    owner: OwnerId
    tokens: Sequence[str]
    lease_seconds: LeaseSeconds


class RenewedLease(msgspec.Struct, frozen=True, kw_only=True):
    """A lease that is still held."""

    token: str
    expires_at: Instant


class TokensBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Leases of a worker."""

    tokens: Sequence[str]


class ReleaseBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A lease to release, claimable again after a delay."""

    delay_seconds: Annotated[float, msgspec.Meta(ge=0, le=MAX_RELEASE_DELAY_SECONDS)] = 0.0


class LeaveBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A worker that stops."""

    owner: OwnerId


class FailBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The error of a run that its executor could not handle."""

    error: RunError


class HintLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A hint for workers: runs to claim, and runs that were ended from outside."""

    queue: bool = False
    delayed: bool = False
    ended: Sequence[tuple[SpaceId, RunId]] = ()
    everything: bool = False


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """An error of the control plane."""

    code: str
    message: str
    details: dict[str, Json] = {}


def to_error(body: ErrorBody) -> HoldfastError:
    """Return the error that a response names."""
    error = (error_class_of(body.code) or HoldfastError)(body.message, **body.details)
    error.code = body.code  # type: ignore[misc]  # a server may have codes that this worker has no class for
    return error


def make_lease_token(ref: LeaseRef, secret: str) -> str:
    """Return the token of a lease; with the secret of a claim, each of its leases has another one."""
    name = f"{ref.space_id}/{ref.run_id}/{ref.number}"
    return f"{name}/{hmac.digest(secret.encode(), name.encode(), 'sha256').hex()}"


def parse_lease_token(token: str) -> LeaseRef:
    """Return the lease that a token names; whether the token is right must still be checked."""
    parts = token.split("/")
    if len(parts) != 4 or not (parts[2].isascii() and parts[2].isdigit()) or len(parts[2]) > 18:
        raise Invalid(f"the header `{LEASE_HEADER}` needs the token of a lease, as a claim returned it")
    return LeaseRef(space_id=SpaceId(parts[0]), run_id=RunId(parts[1]), number=int(parts[2]))


def lease_ref(lease: Lease) -> LeaseRef:
    """Return the public name of a lease."""
    return LeaseRef(space_id=lease.space_id, run_id=lease.run_id, number=lease.number)
