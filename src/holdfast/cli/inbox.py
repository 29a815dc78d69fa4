"""`holdfast ask` and `holdfast approvals`: one answer from an agent, and the questions of agents to people."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.arguments import (
    AgentArgument,
    InputArgument,
    LimitOption,
    ModelOption,
    ThreadOption,
    read_input,
    read_json,
)
from holdfast.cli.command import connect, options, server_options
from holdfast.cli.output import print_json, print_message, strip_control_chars
from holdfast.cli.questions import answer_command, describe_question, edit_json, parse_answer
from holdfast.cli.runs import EXIT_CODES, EXIT_WAITING, explain
from holdfast.cli.tables import one_line, print_list, short_time
from holdfast.domain.errors import Conflict, Invalid, Unavailable
from holdfast.domain.interrupt import Interrupt
from holdfast.domain.run import RunStatus


def ask(
    agent: AgentArgument,
    input: InputArgument = None,
    thread: ThreadOption = None,
    model: ModelOption = None,
    schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", exists=True, dir_okay=False, help="A JSON Schema that the answer must match."),
    ] = None,
) -> None:
    """Ask AGENT, and print its answer and nothing else.

    Exit codes: 0 answered, 1 the run failed, 3 it was cancelled, 5 it waits for a person, 130 Ctrl-C. After 5 and 130
    the run continues.
    """
    output_schema = None if schema is None else read_json(schema, option="--schema")
    text = read_input(input)
    from holdfast.client.wire import DEFAULT_RETRY_SECONDS

    with connect() as hf:
        handle = hf.start(agent, text, thread=thread, model=model, output_schema=output_schema)
        hf.retry_seconds = DEFAULT_RETRY_SECONDS  # it was there: a restart takes a moment
        try:
            ended = handle.wait()
        except (KeyboardInterrupt, Unavailable):
            print_message(f"detached, the run continues: holdfast run follow {handle.id}{server_options()}")
            raise
        if ended.status is not RunStatus.COMPLETED:
            explain(ended, [] if ended.status.terminal else list(handle.interrupts()))
            raise typer.Exit(EXIT_CODES.get(ended.status, EXIT_WAITING))
    if options().as_json or not isinstance(ended.output, str):
        print_json(ended.output)
    else:
        typer.echo(ended.output)


def approvals(
    limit: LimitOption = 50,
    show: Annotated[bool, typer.Option("--list", help="Only list them, also on a terminal.")] = False,
) -> None:
    """Answer everything that waits for a person, one key each; in a pipe, list it with the commands that answer."""
    with connect() as hf:
        if show or options().as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
            print_list(
                hf.interrupts.list(limit=limit),
                [
                    ("run", lambda question: question.root_run_id),
                    ("agent", lambda question: question.agent_type),
                    ("kind", lambda question: question.kind),
                    ("question", lambda question: one_line(question.message)),
                    ("answer", lambda question: answer_command(question, server=server_options())),
                ],
                empty="nothing waits for a person",
            )
            return
        opened = list(hf.interrupts.list(limit=limit))
        if not opened:
            print_message("nothing waits for a person")
        for at, question in enumerate(opened, 1):
            about = f" on “{one_line(question.title, 40)}”" if question.title else ""
            asked = f"{question.agent_type}{about}, {short_time(question.created_at)}, run {question.root_run_id}"
            typer.echo(f"\n{at} of {len(opened)}: {strip_control_chars(asked)}")
            response = _ask_person(question)
            if response is _QUIT:
                return
            if response is not _SKIP:
                try:
                    hf.run(question.run_id).respond(response, interrupt_id=question.id, digest=question.digest)
                    print_message("answered")
                except (Conflict, Invalid) as error:
                    print_message(f"{error.message} [{error.code}]")


_SKIP = object()
_QUIT = object()


def _ask_person(question: Interrupt) -> object:
    """Return the response to a question that a person types, or one of the marks to skip it or to stop."""
    for line in describe_question(question):
        typer.echo(line)
    one_key = "decision" in ((question.response_schema or {}).get("properties") or {})
    while True:
        typed = _read_key("(s skip, q quit) › ") if one_key else _read_line("(s skip, q quit) › ")
        if typed in ("s", "q", "", None):
            return _SKIP if typed in ("s", "") else _QUIT
        try:
            if typed == "d" and one_key:
                typed = f"d {_read_line('reason (optional) › ') or ''}"
            return parse_answer(question, str(typed), edit=edit_json)
        except Invalid as error:
            print_message(error.message)


def _read_line(prompt: str) -> str | None:
    """Return a line that a person types; null at the end of the input."""
    try:
        return input(prompt).strip()
    except EOFError:
        return None


def _read_key(prompt: str) -> str | None:
    """Return the key that a person presses, without Return; null at the end of the input."""
    import termios
    import tty

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal)  # drops what was typed before the question was shown
        sys.stdout.write(prompt)
        sys.stdout.flush()
        key = os.read(terminal, 32).decode(errors="replace")
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
    typer.echo(key if key.isprintable() else "")
    return None if key in ("", "\x04") else key.strip()
