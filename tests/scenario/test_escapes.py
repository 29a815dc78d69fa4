"""Sandbox escapes, one test each. None of them works.

What leads out of the file tools, links that are swapped during a call among them, is in `test_symlink_races.py`.
"""

import errno
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from holdfast.domain.errors import FolderChanged
from holdfast.ports.sandbox import ResourceLimits
from holdfast.sandbox.processes import open_processes
from tests.unit.sandbox.commands import died_out, marked, new_mark
from tests.unit.sandbox.confined import SandboxedFolder, real_sandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no sandbox but on Linux")


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[SandboxedFolder]:
    folder = tmp_path / "workspace" / "files"
    folder.mkdir(parents=True)
    async with open_processes() as processes:
        yield SandboxedFolder(await real_sandbox(processes), folder)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Return a file beside the working folder, like the settings of a workspace."""
    path = tmp_path / "workspace" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text("SECRET")
    return path


@pytest.fixture
def bystander() -> Iterator[int]:
    """Return a process outside the sandbox."""
    with subprocess.Popen(["sleep", new_mark()]) as process:
        yield process.pid
        process.kill()


async def test_reading_outside(sandbox: SandboxedFolder, secret: Path) -> None:
    ended = await sandbox.run(f"cat {secret}; cat /etc/shadow; ls /root /home /var /srv /run; ls {secret.parent}")
    assert ended.output == b"files\n"


async def test_a_home_folder_is_kept_and_the_folders_beside_it_stay_hidden(sandbox: SandboxedFolder) -> None:
    home = sandbox.folder.parent / "homes" / "one"
    home.mkdir(parents=True)
    (home.parent / "two").mkdir()
    for _ in range(2):
        result = await sandbox.run('echo again >> ~/kept; ls "$HOME/.."', home=home)
        assert result.output == b"one\n"
    assert (home / "kept").read_text() == "again\nagain\n"


async def test_writing_outside(sandbox: SandboxedFolder, secret: Path) -> None:
    ended = await sandbox.run(
        f"echo x >{secret.parent}/new; echo x >/usr/new; echo x >/etc/new; echo x >here && cat here"
    )
    assert ended.output == b"x\n"
    assert sorted(os.listdir(secret.parent)) == ["files", "settings.json"]
    assert "new" not in {*os.listdir("/usr"), *os.listdir("/etc")}


async def test_a_link_that_leads_out(sandbox: SandboxedFolder, secret: Path) -> None:
    (sandbox.folder / "link").symlink_to(secret)
    (sandbox.folder / "up").symlink_to("..")
    ended = await sandbox.run("cat link; cat up/settings.json; echo x >link")
    assert ended.output == b""
    assert _text(secret) == "SECRET"


async def test_a_dangling_link(sandbox: SandboxedFolder, tmp_path: Path) -> None:
    (sandbox.folder / "link").symlink_to(tmp_path / "made")
    await sandbox.run("echo x >link")
    assert not (tmp_path / "made").exists()


async def test_dots(sandbox: SandboxedFolder, secret: Path) -> None:
    ended = await sandbox.run("cat ../settings.json; cd ..; cat settings.json; echo x >../../x")
    assert ended.output == b""
    assert not (secret.parent.parent / "x").exists()


async def test_an_absolute_path(sandbox: SandboxedFolder, tmp_path: Path) -> None:
    await sandbox.run(f"mkdir -p {tmp_path}/a && echo x >{tmp_path}/a/b; touch {tmp_path}/c")
    assert sorted(os.listdir(tmp_path)) == ["workspace"]


async def test_proc(sandbox: SandboxedFolder, secret: Path) -> None:
    ended = await sandbox.run(
        f"cat /proc/[0-9]*/root{secret}; ls -d /proc/[0-9]* | wc -l; cat /proc/*/environ | tr '\\0' '\\n'\n"
        "for switch in sysrq-trigger sys/kernel/sysrq sys/kernel/core_pattern; do\n"
        "    [ -w /proc/$switch ] && echo OPEN\n"
        "done"
    )
    assert b"SECRET" not in ended.output
    assert b"OPEN" not in ended.output
    assert int(ended.output.split()[0]) < 10  # its own processes and no others


async def test_the_environment(sandbox: SandboxedFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "SECRET")
    ended = await sandbox.run("env; cat /proc/*/environ", environment={"GIVEN": "1"})
    assert b"GIVEN=1" in ended.output
    assert b"SECRET" not in ended.output


async def test_unix_sockets(sandbox: SandboxedFolder, tmp_path: Path) -> None:
    places = [str(tmp_path / "socket"), f"\0{tmp_path}"]
    with socket.socket(socket.AF_UNIX) as named, socket.socket(socket.AF_UNIX) as abstract:
        for server, place in zip((named, abstract), places, strict=True):
            server.bind(place)
            server.listen()
        ended = await sandbox.python(
            "import socket\n"
            f"for place in {places!r}:\n"
            "    try:\n"
            "        socket.socket(socket.AF_UNIX).connect(place)\n"
            "        print('out')\n"
            "    except OSError as exc:\n"
            "        print(type(exc).__name__)"
        )
    assert ended.output.split() == [b"FileNotFoundError", b"ConnectionRefusedError"]


async def test_ptrace(sandbox: SandboxedFolder) -> None:
    code = (
        "import ctypes\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        f"print(libc.ptrace(16, {os.getpid()}, 0, 0), ctypes.get_errno())"
    )
    # It may trace its own processes; those outside have no pid inside.
    assert (await sandbox.python(code)).output.split() == [b"-1", str(errno.ESRCH).encode()]


async def test_mount(sandbox: SandboxedFolder) -> None:
    code = (
        "import ctypes\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "print(libc.mount(b'none', b'/tmp', b'tmpfs', 0, None), libc.umount2(b'/usr', 2),\n"
        "      libc.mount(None, b'/usr', None, 32 | 4096, None), libc.unshare(0x10000000), libc.chroot(b'/'))"
    )
    assert (await sandbox.python(code)).output.split() == [b"-1"] * 5


async def test_network(sandbox: SandboxedFolder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = (
            "import socket\n"
            "try:\n"
            f"    socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), timeout=30)\n"
            "    print('out')\n"
            "except OSError as exc:\n"
            "    print('closed')"
        )
        assert (await sandbox.python(code)).output == b"closed\n"
        assert (await sandbox.python(code, network=True)).output == b"out\n"


async def test_fork_bomb(sandbox: SandboxedFolder) -> None:
    mark = new_mark()
    ended = await sandbox.run(
        f"while :; do (setsid sleep {mark} &); done", limits=ResourceLimits(processes=64), timeout=300.0
    )
    assert ended.too_many_processes or ended.exit_code != 0  # killed for it, or refused another process by the system
    assert not ended.timed_out
    assert await died_out(mark)


async def test_endless_output(sandbox: SandboxedFolder) -> None:
    seen = 0

    def count(piece: bytes) -> None:
        nonlocal seen
        seen += len(piece)

    ended = await sandbox.run("yes | head -c 50000000", output_limit=1000, on_output=count)
    assert len(ended.output) == 1000
    assert seen == 50_000_000
    assert ended.dropped_bytes == 50_000_000 - 1000


async def test_a_file_that_fills_the_disk(sandbox: SandboxedFolder) -> None:
    ended = await sandbox.run("yes >big; ls -l big | cut -d' ' -f5", limits=ResourceLimits(file_size=100_000))
    assert ended.output == b"100000\n"


async def test_memory(sandbox: SandboxedFolder) -> None:
    ended = await sandbox.python("bytearray(1 << 30)", limits=ResourceLimits(memory=256 * 1024 * 1024))
    assert b"MemoryError" in ended.errors


async def test_setuid(sandbox: SandboxedFolder) -> None:
    code = (
        "import os\n"
        "for call, number in ((os.setuid, 0), (os.setgid, 0), (os.setuid, 1)):\n"
        "    try:\n"
        "        call(number)\n"
        "        print('out')\n"
        "    except OSError:\n"
        "        print('kept')\n"
        "print(open('/proc/self/status').read().split('NoNewPrivs:')[1].split()[0])"
    )
    ended = await sandbox.python(code)
    assert ended.output.split() == [b"kept", b"kept", b"kept", b"1"]
    # The mount ignores setuid bits.
    flags = await sandbox.run("grep -E ' /(usr|) ' /proc/self/mountinfo | grep -vc nosuid")
    assert flags.output == b"0\n"


async def test_a_setuid_program_for_users_outside(sandbox: SandboxedFolder) -> None:
    tries = "chmod u+s ls; chmod 6755 ls; install -m 4755 ls ls2; cp -p /usr/bin/passwd ."
    await sandbox.run(f"cp /bin/ls .; {tries}; tar cf x.tar ls; chmod 0755 ls && ./ls")
    assert [path.name for path in sandbox.folder.iterdir() if path.stat().st_mode & 0o6000] == []
    assert (sandbox.folder / "ls").stat().st_mode & 0o777 == 0o755
    code = "import os; os.open('x', os.O_CREAT | os.O_WRONLY, 0o4755)"
    assert b"PermissionError" in (await sandbox.python(code)).errors


async def test_kernel_settings_and_devices(sandbox: SandboxedFolder) -> None:
    """To the kernel a command runs as the server's user; as root it would own them."""
    ended = await sandbox.run(
        "for device in null zero full random urandom tty; do\n"
        "    chmod 666 /dev/$device && echo OPEN\n"  # as it is
        "done\n"
        "cat /proc/sys/kernel/core_pattern >pattern && cat pattern >/proc/sys/kernel/core_pattern && echo OPEN\n"
        "cat /proc/timer_list /proc/slabinfo /proc/vmallocinfo /proc/kpageflags | head -c 1\n"
        "echo works >/dev/null && head -c 1 /dev/urandom >/dev/zero"
    )
    assert (ended.output, ended.exit_code) == (b"", 0)


async def test_killing_the_parent(sandbox: SandboxedFolder, bystander: int) -> None:
    others = " ".join(str(pid) for pid in {bystander, os.getpid(), os.getppid()} - {1})  # inside there is a 1 too
    ended = await sandbox.run(
        f"for pid in {others}; do kill -0 $pid && echo SEEN; done; kill -9 {bystander}; kill -9 1"
    )
    assert (ended.output, ended.exit_code) == (b"", 0)  # the first process inside cannot be killed either
    assert psutil.Process(bystander).status() != psutil.STATUS_ZOMBIE


async def test_typing_into_the_terminal(sandbox: SandboxedFolder) -> None:
    ended = await sandbox.run("ls -l /dev/tty /proc/self/fd; (echo x >/dev/tty) && echo out")
    assert b"out" not in ended.output


async def test_devices(sandbox: SandboxedFolder) -> None:
    ended = await sandbox.run("ls /dev; mknod disk b 8 0 && echo made")
    assert b"made" not in ended.output
    assert not {"sda", "vda", "mem", "kmsg", "kvm", "fuse"} & set(ended.output.decode().split())


async def test_a_hidden_path_cannot_be_read_moved_or_linked(sandbox: SandboxedFolder) -> None:
    (sandbox.folder / "config").mkdir()
    hidden = sandbox.folder / "config" / ".env"
    hidden.write_text("SECRET")
    vault = sandbox.folder / "vault"
    vault.mkdir()
    (vault / "key").write_text("SECRET")
    tries = "cat config/.env; cat vault/*; mv config other; ln config/.env link; mv vault open; cp -r . /tmp/copy"
    ended = await sandbox.run(f"{tries}; grep -r SECRET /tmp .", hidden=[hidden, vault])
    assert b"SECRET" not in ended.output
    assert sorted(os.listdir(sandbox.folder)) == ["config", "vault"]
    assert _text(hidden) == _text(vault / "key") == "SECRET"


async def test_a_read_only_path_can_be_read_and_not_changed(sandbox: SandboxedFolder) -> None:
    kept = sandbox.folder / "ci"
    (kept / "deep").mkdir(parents=True)
    (kept / "deep" / "run").write_text("as it was")
    tries = "echo x >ci/deep/run; rm -rf ci; mv ci other; echo x >ci/new; chmod 0 ci"
    ended = await sandbox.run(f"{tries}; cat ci/deep/run; echo x >beside", read_only=[kept])
    assert ended.output == b"as it was"
    assert sorted(os.listdir(sandbox.folder)) == ["beside", "ci"]


async def test_names_of_hidden_files_are_on_no_command_line(sandbox: SandboxedFolder) -> None:
    hidden = sandbox.folder / "merger.txt"
    hidden.touch()
    ended = await sandbox.run("cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | sed 's/.*sed .*//'", hidden=[hidden])
    assert b"bwrap" in ended.output
    assert b"merger" not in ended.output


async def test_no_open_file_of_the_server_is_inherited(sandbox: SandboxedFolder) -> None:
    hidden = sandbox.folder / "hidden"
    hidden.mkdir()
    ended = await sandbox.run("ls -l /proc/1/fd /proc/$$/fd | grep -o '[0-9]* -> .*'", hidden=[hidden])
    numbers, _, targets = zip(*(line.split(maxsplit=2) for line in ended.output.decode().splitlines()), strict=True)
    assert "100" not in numbers
    assert [target for target in targets if not target.startswith(("pipe:", "anon_inode:[eventfd]"))] == []


async def test_sockets_of_the_machine_in_the_working_folder(
    sandbox: SandboxedFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that is bound by a relative name, or was moved; a socket without a process is an ordinary file."""
    monkeypatch.chdir(tmp_path)
    (sandbox.folder / "deep").mkdir()
    with _listening("one"), _listening("two", folder=sandbox.folder / "deep"), _listening("three"):
        for name in ("one", "three"):
            os.rename(name, sandbox.folder / name)
        with _listening("left", folder=sandbox.folder):
            pass
        code = (
            "import os, socket\n"
            "for place in ('one', 'deep/two', 'three', 'left', 'own'):\n"
            "    try:\n"
            "        if place == 'own':\n"
            "            server = socket.socket(socket.AF_UNIX)\n"
            "            server.bind(place), server.listen()\n"
            "        socket.socket(socket.AF_UNIX).connect(place)\n"
            "        print('connected')\n"
            "    except OSError as exc:\n"
            "        print(type(exc).__name__)\n"
            "os.unlink('left')"
        )
        ended = await sandbox.python(code)
    assert ended.output.split() == [*[b"PermissionError"] * 3, b"ConnectionRefusedError", b"connected"]
    assert ended.exit_code == 0


async def test_a_readable_path_of_the_workspace_that_is_a_link(sandbox: SandboxedFolder, secret: Path) -> None:
    """A working folder that a server may read is replaced by a link to the workspace."""
    workspace = sandbox.folder.parent
    (workspace / "tools").symlink_to(workspace)
    (workspace / "real").mkdir()
    (workspace / "real" / "kept").write_text("public")
    async with open_processes() as processes:
        strict = SandboxedFolder(await real_sandbox(processes, workspace=workspace), sandbox.folder)
        paths = [workspace / "tools", workspace / "real"]
        ended = await strict.run(f"cat {workspace}/tools/{secret.name} {workspace}/real/kept", readable=paths)
    assert ended.output == b"public"


async def test_a_working_folder_inside_a_readable_one(sandbox: SandboxedFolder, secret: Path) -> None:
    hidden = sandbox.folder / "key"
    hidden.write_text("HIDDEN")
    script = f"cat {secret} key; echo x >{secret}; echo x >new && echo written"
    ended = await sandbox.run(script, readable=[secret.parent], hidden=[hidden])
    assert ended.output == b"SECRETwritten\n"
    assert _text(secret) == "SECRET"


@pytest.mark.parametrize("state", ["a link", "another file", "gone"])
async def test_a_masked_path_that_was_replaced_refuses_the_command(sandbox: SandboxedFolder, state: str) -> None:
    """The mask belongs to the file that was found, which has another name by now."""
    hidden = sandbox.folder / "sub" / "key"
    hidden.parent.mkdir()
    hidden.write_text("HIDDEN")
    found = hidden.stat()
    hidden.rename(sandbox.folder / "moved")
    if state == "a link":
        hidden.symlink_to("../moved")
    elif state == "another file":
        hidden.touch()
    with pytest.raises(FolderChanged) as refused:
        await sandbox.run("cat moved", hidden=[hidden], inodes={hidden: (found.st_dev, found.st_ino)})
    assert refused.value.details == {"started": False}


async def test_a_root_behind_a_link(sandbox: SandboxedFolder, secret: Path) -> None:
    (sandbox.folder / "up").symlink_to(secret.parent)
    for root in (sandbox.folder / "up", sandbox.folder / "up" / "files"):
        with pytest.raises(FolderChanged):
            await sandbox.run("cat settings.json", root=root, folder=root)


async def test_the_keyring_of_the_server(sandbox: SandboxedFolder) -> None:
    code = (
        "import ctypes, platform\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "call = {'x86_64': 250, 'aarch64': 219}[platform.machine()]\n"
        "print(libc.syscall(call, 10, -3, b'user', b'x', 0), ctypes.get_errno())"  # look for a key of the session
    )
    assert (await sandbox.python(code)).output.split() == [b"-1", str(errno.ENOSYS).encode()]


async def test_socket_families_outside_the_network_namespace(sandbox: SandboxedFolder) -> None:
    """Hypervisor and packet sockets are refused, by system call and by `io_uring`, which also creates sockets."""
    code = (
        "import ctypes, socket\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "for family in (40, 17):\n"
        "    print(libc.socket(family, 1, 0), ctypes.get_errno())\n"
        "print(libc.syscall(425, 4, ctypes.create_string_buffer(120)), ctypes.get_errno())\n"
        "socket.socket(), socket.socket(socket.AF_UNIX), socket.if_nameindex()"
    )
    ended = await sandbox.python(code)
    unsupported, missing = str(errno.EAFNOSUPPORT).encode(), str(errno.ENOSYS).encode()
    assert ended.output.split() == [b"-1", unsupported, b"-1", unsupported, b"-1", missing]
    assert ended.exit_code == 0


async def test_memory_through_temporary_files(sandbox: SandboxedFolder) -> None:
    """In-memory folders are small, and no other temporary location is writable."""
    ended = await sandbox.run("for place in / /dev /tmp /dev/shm /home; do echo x >$place/new && echo $place; done")
    assert ended.output.split() == [b"/tmp", b"/dev/shm"]
    sizes = await sandbox.run("df --output=size -B 1M /tmp /dev/shm | tail -n 2")
    assert sizes.output.split() == [b"512", b"512"]


async def test_no_process_is_left_after_the_command(sandbox: SandboxedFolder) -> None:
    mark = new_mark()
    await sandbox.run(f"(setsid nohup sleep {mark} >/dev/null 2>&1 &); echo up")
    assert marked(mark) == []


async def test_threads_count_as_processes(sandbox: SandboxedFolder) -> None:
    code = (
        "import threading\n"
        "hold = threading.Event()\n"
        "print('up', flush=True)\n"
        "while True:\n"
        "    threading.Thread(target=hold.wait).start()"
    )
    ended = await sandbox.python(code, limits=ResourceLimits(processes=64))
    assert ended.too_many_processes or b"start new thread" in ended.errors


@contextmanager
def _listening(name: str, *, folder: Path | None = None) -> Iterator[None]:
    """Listen on a socket in the block, bound by its relative name, or by an absolute one."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name if folder is None else str(folder / name))
        server.listen()
        yield


def _text(path: Path) -> str:
    return path.read_text()
