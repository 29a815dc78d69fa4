"""The source of untrusted text in the output of a command."""

from pathlib import Path

import pytest

from holdfast.tools.builtin.shell import untrusted_output_source

ROOT = Path("/srv/work/files")


@pytest.mark.parametrize(
    "command",
    [
        "ls",
        "cat notes.txt | sort > out.txt",
        "cat /etc/hostname /usr/share/dict/words 2>/dev/null",
        f"cat {ROOT}/notes.txt",
        "python -c 'print(1)' && cd src && make",
        "git log --format=%H",
        "cat ./a/../b",
        "grep -r curl .",
    ],
)
def test_output_from_the_workspace_or_the_system_is_trusted(command: str) -> None:
    assert untrusted_output_source(command, root=ROOT, network=True) is None


@pytest.mark.parametrize(
    ("command", "source"),
    [
        ("cat /srv/mail/inbox", "file:/srv/mail/inbox"),
        ("head -n 3 ../other/notes", "file:../other/notes"),
        ("sort < /opt/list", "file:/opt/list"),
        ("tool --input=/opt/list", "file:/opt/list"),
        ("echo $(cat /opt/list)", "file:/opt/list"),
        ("cat a/../../b", "file:a/../../b"),
    ],
)
def test_output_from_a_file_outside_the_workspace_is_untrusted(command: str, source: str) -> None:
    assert untrusted_output_source(command, root=ROOT, network=False) == source


@pytest.mark.parametrize("command", ["curl -s x.example", "cd a && /usr/bin/wget -qO- x", "env A=1 ssh host ls"])
def test_output_of_a_network_program_is_untrusted_if_there_is_a_network(command: str) -> None:
    assert str(untrusted_output_source(command, root=ROOT, network=True)).startswith("network:")
    assert untrusted_output_source(command, root=ROOT, network=False) is None
