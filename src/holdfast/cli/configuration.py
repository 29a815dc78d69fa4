"""`holdfast config …` and `holdfast profile …`: the settings of a server, and the servers of a user."""

import sys
from typing import Annotated, Any, Final

import msgspec
import typer

from holdfast.cli.arguments import read_stdin
from holdfast.cli.command import command, connect, new_group, options
from holdfast.cli.output import print_json, print_message
from holdfast.cli.tables import print_done, print_list, print_object
from holdfast.domain.content import Json
from holdfast.domain.errors import NotFound

config: Final = new_group("Read and change the settings of the workspace on a server.")
profile: Final = new_group("Name servers, with their key and space.")


@command(config, "get")
def get_setting(
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="A key, such as `limits.max_iterations`; by default all.")
    ] = None,
) -> None:
    """Print the settings, or one of them, as JSON."""
    with connect() as hf:
        view = msgspec.json.decode(hf.request("GET", "/settings"))
    value: Any = view["settings"]
    for part in [] if key is None else key.split("."):
        if not isinstance(value, dict) or part not in value:
            raise NotFound(f"there is no setting `{key}`: `holdfast config get` shows all of them")
        value = value[part]
    if options().as_json:
        print_json(value)
    else:
        typer.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))
    if view["restart"]:
        print_message(f"these take effect after a restart: {', '.join(view['restart'])}")


@command(config, "set")
def set_setting(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key, such as `limits.max_iterations`.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="JSON, or a text; `null` removes the key.")],
) -> None:
    """Change one setting, in `settings.json` of the workspace; an invalid one is refused."""
    patch: Json = _value(value)
    for part in reversed(key.split(".")):
        patch = {part: patch}
    with connect() as hf:
        view = msgspec.json.decode(hf.request("PATCH", "/settings", body=patch))
    print_done(view, f"set {key}")
    if view["restart"]:
        print_message(f"these take effect after a restart: {', '.join(view['restart'])}")


def _value(text: str) -> Json:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


@command(profile, "list", server=False)
def list_profiles() -> None:
    """List the profiles of this user; the keys are not shown."""
    from holdfast.cli.connection import read_profiles

    profiles = read_profiles()
    print_list(
        [
            {
                "name": name,
                "url": each.url,
                "space": each.space,
                "key": each.key is not None,
                "default": name == profiles.default,
            }
            for name, each in profiles.profiles.items()
        ],
        [
            ("profile", lambda each: f"{each['name']}{' (default)' if each['default'] else ''}"),
            ("url", lambda each: each["url"]),
            ("space", lambda each: each["space"]),
            ("key", lambda each: "yes" if each["key"] else "no"),
        ],
        empty="no profiles",
    )


@command(profile, "set", server=False)
def set_profile(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the profile.")],
    url: Annotated[str, typer.Argument(metavar="URL", help="The URL of its server.")],
    key: Annotated[
        bool, typer.Option("--key", help="Read the API key from stdin: a command line is visible to others.")
    ] = False,
    space: Annotated[str | None, typer.Option(metavar="ID", help="Its space.")] = None,
    default: Annotated[bool, typer.Option("--default", help="Use it where nothing else says otherwise.")] = False,
) -> None:
    """Create or replace a profile."""
    from holdfast.cli.connection import Profile, Profiles, profiles_file, read_profiles, write_profiles
    from holdfast.client.wire import check_url

    secret = _read_key() if key else None
    profiles = read_profiles()
    known = {**profiles.profiles, name: Profile(url=check_url(url), key=secret, space=space)}
    write_profiles(Profiles(default=name if default else profiles.default, profiles=known))
    print_done({"profile": name, "file": str(profiles_file())}, f"wrote profile `{name}` to {profiles_file()}")


def _read_key() -> str:
    """Return the key that a person types, or that is in a pipe."""
    from holdfast.client.wire import check_key

    if sys.stdin.isatty():
        return check_key(typer.prompt("API key", hide_input=True, err=True), source="your input")
    return check_key(read_stdin().strip(), source="stdin")


@command(profile, "show", server=False)
def show_profile(name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the profile.")]) -> None:
    """Show a profile without its key."""
    from holdfast.cli.connection import get_profile, read_profiles

    found = get_profile(read_profiles(), name)
    fields = {"url": found.url, "space": found.space, "key": "set" if found.key else None}
    print_object(fields, list(fields.items()))


@command(profile, "delete", server=False)
def delete_profile(name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the profile.")]) -> None:
    """Delete a profile."""
    from holdfast.cli.connection import Profiles, get_profile, read_profiles, write_profiles

    profiles = read_profiles()
    get_profile(profiles, name)
    known = {each: found for each, found in profiles.profiles.items() if each != name}
    write_profiles(Profiles(default=None if profiles.default == name else profiles.default, profiles=known))
    print_done({"deleted": name}, f"deleted {name}")
