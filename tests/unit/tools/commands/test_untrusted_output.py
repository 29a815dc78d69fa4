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
        "cat ./a/../b",
        "grep -r curl . && cd src",
        "/usr/bin/env nice /bin/ls -l; find . -name '*.py' | xargs wc -l",
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


@pytest.mark.parametrize(
    ("command", "source"),
    [
        ("curl -s x.example", "network:curl"),
        ("cd a && /usr/bin/wget -qO- x", "network:wget"),
        ("env nice ssh host ls", "network:ssh"),
        ("env A=1 ssh host ls", "network:bash"),
        ("git clone https://x.example/y && ls", "network:git"),
        ("git pull", "network:git"),
        ("pip download requests", "network:pip"),
        ("npm view left-pad", "network:npm"),
        ("python -c 'print(1)'", "network:python"),
        ("make test", "network:make"),
        ("sh ./fetch.sh", "network:sh"),
        ("./ls", "network:ls"),
        ("/tmp/bin/ls", "network:ls"),
        ("awk 1 notes", "network:awk"),
        ("find . -exec curl {} ';'", "network:curl"),
        ("ls | xargs -n 1 wget", "network:wget"),
        ("cat < /dev/tcp/x.example/80", "network:bash"),
        ("(exec 3<>/dev/tcp/x.example/80; cat <&3)", "network:bash"),
        ("echo $(curl x)", "network:bash"),
        ("$X y", "network:bash"),
        ("ls() { curl x; }; ls", "network:bash"),
    ],
)
def test_output_of_a_command_that_may_use_the_network_is_untrusted(command: str, source: str) -> None:
    assert untrusted_output_source(command, root=ROOT, network=True) == source
    assert untrusted_output_source(command, root=ROOT, network=False) in {None, "file:/tmp/bin/ls"}
