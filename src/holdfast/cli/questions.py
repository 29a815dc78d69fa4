"""Questions of a waiting run in a terminal: the fields to fill in, and the command that answers."""

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import UNSET

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.events.messages import AgUiInterrupt
from holdfast.domain.interrupt import Interrupt, InterruptKind

_TEXT_PLACEHOLDER: Final = "YOUR ANSWER"
_JSON_PLACEHOLDER: Final = "JSON"


def question_lines(interrupt: AgUiInterrupt, *, command: str) -> Iterator[str]:
    """Yield the message of a question, what it is about, and the command that answers it.

    `command` is the command line up to the answer.
    """
    command = f"{command} --interrupt {shlex.quote(interrupt.id)}"
    yield interrupt.reason if interrupt.message is UNSET else interrupt.message
    schema = {} if interrupt.response_schema is UNSET else interrupt.response_schema
    metadata = {} if interrupt.metadata is UNSET else interrupt.metadata
    properties = schema.get("properties") or {}
    if "decision" in properties:
        yield _json(metadata.get("arguments"))
        for name in ("reason", "description"):
            if metadata.get(name):
                yield f"{name}: {metadata[name]}"
        yield f"→ {command} --approve"
        if "always" in properties["decision"].get("enum", ()):
            yield f"→ {command} --always"
        yield f"→ {command} --deny --reason 'YOUR REASON'"
    elif "action" in properties:
        fields = (properties.get("content") or {}).get("properties") or {}
        required = (properties.get("content") or {}).get("required") or []
        for name, field in fields.items():
            yield f"{name}: {_field_text(field, required=name in required)}"
        options = [f" --field {shlex.quote(_field_option(name, field))}" for name, field in fields.items()]
        yield f"→ {command} --accept{''.join(options)}"
        yield f"→ {command} --decline"
    elif "enum" in schema:
        for option in schema["enum"]:
            yield f"→ {command} {_answer(option)}"
    elif not schema or schema.get("type") == "string":
        yield (
            f"→ {command} {shlex.quote(_TEXT_PLACEHOLDER)}"
            if interrupt.reason == "input_required"
            else (f"→ {command} --data {_JSON_PLACEHOLDER}")
        )
    else:
        yield f"as JSON that fits {_json(schema)}"
        yield f"→ {command} --data {_JSON_PLACEHOLDER}"


def answer_lines(question: Interrupt, *, server: str = "") -> Iterator[str]:
    """Yield an open question and the commands that answer it; `server` are the options that name the server."""
    text, *more = question_lines(as_ag_ui(question), command=f"holdfast run respond {question.root_run_id}{server}")
    yield f"question: {text}"
    yield from more


def answer_command(question: Interrupt, *, server: str = "") -> str:
    """Return the first command that answers a question."""
    lines = [line for line in answer_lines(question, server=server) if line.startswith("→ ")]
    return lines[0].removeprefix("→ ")


def as_ag_ui(question: Interrupt) -> AgUiInterrupt:
    """Return a question in the form of the log, with what an approval is about."""
    metadata = {**question.metadata, **({} if question.arguments is None else {"arguments": question.arguments})}
    return AgUiInterrupt(
        id=question.id,
        reason="input_required" if question.kind is InterruptKind.INPUT else str(question.kind),
        message=question.message or UNSET,
        response_schema=question.response_schema or UNSET,
        metadata=metadata,
    )


def _answer(option: Json) -> str:
    """Return an option as the argument of the command."""
    if isinstance(option, str) and not option.startswith("-"):
        return shlex.quote(option)
    return f"--data {shlex.quote(_json(option))}"


def _field_text(field: Mapping[str, Json], *, required: bool) -> str:
    """Return the description of a field: its type, its choices, and its text."""
    kind = " or ".join(_choices(field)) or str(field.get("type", "any JSON"))
    items = field.get("items")
    if isinstance(items, dict) and (choices := _choices(items)):
        kind = f"{kind} of {', '.join(choices)}"
    default = f", default {_json(field['default'])}" if "default" in field else ""
    text = field.get("description") or field.get("title")
    return f"{kind}{'' if required else ', optional'}{default}{f' ({text})' if text else ''}"


def _choices(field: Mapping[str, Json]) -> list[str]:
    """Return the values that a field may have: its `enum`, or the constants of `oneOf` or `anyOf` with their titles."""
    if "enum" in field:
        return [str(value) for value in field["enum"]]
    variants = field.get("oneOf") or field.get("anyOf") or []
    constants = [each for each in variants if isinstance(each, dict) and "const" in each]
    return [f"{each['const']} ({each['title']})" if each.get("title") else str(each["const"]) for each in constants]


def _field_option(name: str, field: Mapping[str, Json]) -> str:
    """Return a field of the command, with a placeholder for its value: `name=TEXT`, or `name:=JSON`."""
    if field.get("type", "string") == "string":
        return f"{name}=TEXT"
    return f"{name}:={str(field['type']).upper()}"


def _json(value: Json) -> str:
    return msgspec.json.encode(value).decode()


def describe_question(question: Interrupt) -> Iterator[str]:
    """Yield a question and the keys that answer it where a person types."""
    text, *more = question_lines(as_ag_ui(question), command="")
    yield text
    yield from (line for line in more if not line.startswith("→ "))
    schema = question.response_schema or {}
    properties = schema.get("properties") or {}
    if "decision" in properties:
        always = " · A always" if "always" in properties["decision"].get("enum", ()) else ""
        yield f"a approve · d deny [reason] · e edit{always}"
    elif "action" in properties:
        yield "NAME=TEXT NAME:=JSON … to accept · d decline"
    elif "enum" in schema:
        yield " · ".join(f"{number} {option}" for number, option in enumerate(schema["enum"], 1))
    elif schema and schema.get("type") != "string":
        yield "answer as JSON"


def parse_answer(question: Interrupt, typed: str, *, edit: Callable[[Json], Json] | None = None) -> Json:
    """Return the response that a person typed; raise `Invalid` with what is expected.

    `edit` lets the person change the arguments of a call, where `e` is typed without them.
    """
    schema = question.response_schema or {}
    properties = schema.get("properties") or {}
    word, _, rest = typed.partition(" ")
    if "decision" in properties:
        return _decision(question, word, rest.strip(), edit)
    if "action" in properties:
        if word in ("d", "decline", "n"):
            return {"action": "decline"}
        return {"action": "accept", "content": form_content(shlex.split(typed))}
    if "enum" in schema:
        choices = [*schema["enum"]]
        if typed.isdecimal() and 0 < int(typed) <= len(choices):
            return choices[int(typed) - 1]
        if typed in map(str, choices):
            return choices[[*map(str, choices)].index(typed)]
        raise Invalid(f"choose one of {', '.join(map(str, choices))}, or its number")
    if not schema or schema.get("type") == "string":
        return typed
    return _parse_json(typed)


def form_content(fields: Sequence[str]) -> dict[str, Json]:
    """Return the values of `NAME=TEXT` and `NAME:=JSON`."""
    content: dict[str, Json] = {}
    for field in fields:
        name, equals, value = field.partition("=")
        if not equals or not name.removesuffix(":"):
            raise Invalid(f"`{field}` is not a value: write `NAME=TEXT` or `NAME:=JSON`", field="field")
        content[name.removesuffix(":")] = _parse_json(value) if name.endswith(":") else value
    return content


def edit_json(value: Json) -> Json:
    """Return a value that the person changed in an editor; raise `Invalid` if nothing was changed."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or next(filter(shutil.which, ("nano", "vi")), None)
    if editor is None:
        raise Invalid(f"there is no editor: set EDITOR, or write the changed arguments after `e`: e {_json(value)}")
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        file = Path(folder, "arguments.json")
        file.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
        try:
            ended = subprocess.run([*shlex.split(editor), str(file)], check=False)
        except OSError as exc:
            raise Invalid(f"`{editor}` cannot be started: {exc.strerror}; set EDITOR") from exc
        if ended.returncode != 0:
            raise Invalid(f"`{editor}` ended with code {ended.returncode}: nothing was sent")
        changed = _parse_json(file.read_bytes().decode(errors="replace"))
    if changed == value:
        raise Invalid("nothing was changed: type `a` to approve the call as it is")
    return changed


def _decision(question: Interrupt, word: str, rest: str, edit: Callable[[Json], Json] | None) -> Json:
    match word:
        case "a" | "y" | "yes" | "approve":
            return {"decision": "approve"}
        case "A" | "always":
            return {"decision": "always"}
        case "d" | "n" | "no" | "deny":
            return {"decision": "deny", **({"reason": rest} if rest else {})}
        case "e" | "edit" if rest:
            return {"decision": "approve", "arguments": _parse_json(rest)}
        case "e" | "edit" if edit is not None:
            return {"decision": "approve", "arguments": edit(question.arguments)}
        case "e" | "edit":
            raise Invalid(f"write the changed arguments after `e`, such as: e {_json(question.arguments)}")
        case _:
            raise Invalid("type `a` to approve, `d` to deny, `e` to approve changed arguments, or `A` for always")


def _parse_json(text: str) -> Json:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as exc:
        raise Invalid(f"`{text}` is not JSON: {exc}") from exc
