"""Sandbox escapes, one test each. None of them works.

What leads out of the file tools, links that are swapped during a call among them, is in `test_symlink_races.py`.
"""

import errno
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest

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
    others = f"{bystander} {os.getpid()} {os.getppid()}"
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


def _text(path: Path) -> str:
    return path.read_text()
