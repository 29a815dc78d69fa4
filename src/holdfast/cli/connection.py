"""Which server a command uses: options, environment, the server of the workspace, profiles, or the default.

    --url · HOLDFAST_URL · --profile · HOLDFAST_PROFILE · server of this workspace · default profile · 127.0.0.1:5050

The first that is given counts. The key comes from `HOLDFAST_API_KEY` or the profile.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import typer

from holdfast.client.wire import API_KEY_VARIABLE, DEFAULT_URL, SPACE_VARIABLE, URL_VARIABLE, check_url
from holdfast.domain.errors import Invalid, NotFound, Unavailable
from holdfast.workspace.server_address import find_server_address

PROFILE_VARIABLE: Final = "HOLDFAST_PROFILE"
_OWNER_ONLY: Final = 0o600
"""Profiles hold keys, so only their owner may read them."""


class Profile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A named server: its URL, and optionally a key and a space."""

    url: str
    key: str | None = None
    space: str | None = None


class Profiles(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The profiles of a user; `default` names the one that is used where nothing else says otherwise."""

    default: str | None = None
    profiles: dict[str, Profile] = {}


class Target(NamedTuple):
    """A server, the key and the space that a command uses, and where they come from."""

    url: str
    key: str
    space: str | None
    source: str


def find_server(*, url: str | None = None, profile: str | None = None, space: str | None = None) -> Target:
    """Return the server that a command uses."""
    if url is not None and profile is not None:
        raise typer.BadParameter("`--url` and `--profile` name two servers: give one", param_hint="--url")
    profiles = read_profiles()
    explicit = profile or (None if url else os.environ.get(PROFILE_VARIABLE) or None)
    address, source = url, "--url"
    if address is None and profile is None:
        address, source = os.environ.get(URL_VARIABLE) or None, URL_VARIABLE
    chosen: Profile | None = None
    if address is not None:
        checked = check_url(address)
        chosen = next((each for each in profiles.profiles.values() if each.url == checked), None)
    elif explicit is not None:
        chosen, source = get_profile(profiles, explicit), f"profile `{explicit}`"
        address = chosen.url
    elif (found := find_server_address(Path.cwd())) is not None:
        address, source = found.address.url, str(found.file)
    elif profiles.default is not None:
        chosen, source = get_profile(profiles, profiles.default), f"profile `{profiles.default}`"
        address = chosen.url
    key = os.environ.get(API_KEY_VARIABLE) or ""
    if chosen is not None and chosen.key is not None and (profile is not None or not key):
        key = chosen.key
    chosen_space = space or os.environ.get(SPACE_VARIABLE) or (None if chosen is None else chosen.space)
    return Target(check_url(address or DEFAULT_URL), key, chosen_space, source if address else "default")


def profiles_file() -> Path:
    """Return the path of the file with the profiles."""
    from platformdirs import user_config_path

    return user_config_path("holdfast", appauthor=False) / "profiles.json"


def read_profiles() -> Profiles:
    """Return the profiles of the user."""
    file = profiles_file()
    try:
        return msgspec.json.decode(file.read_bytes(), type=Profiles)
    except FileNotFoundError:
        return Profiles()
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise Invalid(f"`{file}` cannot be read: {exc}: correct or delete it", file=str(file)) from exc


def write_profiles(profiles: Profiles) -> None:
    """Write the profiles of the user."""
    file = profiles_file()
    new = file.with_suffix(".new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            new.unlink()
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY), "wb") as written:
            written.write(msgspec.json.format(msgspec.json.encode(profiles), indent=2) + b"\n")
        new.replace(file)
    except OSError as exc:
        raise Unavailable(f"cannot write `{file}`: {exc.strerror or exc}") from exc


def get_profile(profiles: Profiles, name: str) -> Profile:
    """Return a profile; raise `NotFound` with the names that there are."""
    if name not in profiles.profiles:
        known = ", ".join(f"`{each}`" for each in profiles.profiles) or "none"
        raise NotFound(f"there is no profile `{name}`: there are {known}; `holdfast profile set` creates one", id=name)
    return profiles.profiles[name]
