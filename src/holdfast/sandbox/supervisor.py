"""A program between a worker and the commands of its tools, so that no process of theirs outlives the worker.

    worker ══ channel ══ supervisor      one per worker: forks a monitor for every socket that comes down the channel
      ╚═════ control ═════ monitor       one per command: what the command leaves behind becomes a child of the monitor
                             └─ command  leads a session of its own

An orphaned process becomes a child of the nearest *subreaper* above it, in whatever session it is. So nothing
escapes from below a monitor, and a monitor without children has nothing below it. A monitor kills its children
until it has none

- when its command has ended;
- when its control socket ends: the worker is done with it, or is dead;
- when its lifeline ends, a pipe that only the supervisor holds open: the supervisor is dead, or its worker is.

A killed monitor leaves its processes to the supervisor, which kills every child that is not a monitor.

Holdfast never imports this. It runs as `python -I -S supervisor.py CHANNEL WORKER`, needs only the standard
library, and has one thread, so that it may fork. Where there are no subreapers (not Linux), only the command's
process group is killed.
"""

import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, NoReturn

LINUX: Final = sys.platform == "linux"
UNBLOCKED_SIGNALS: Final = {"SIGCHLD", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP"}
"""Signals that tell of children, or of faults of our own."""
REAP_INTERVAL_MS: Final = 10
"""Milliseconds after which those who do not die are looked for again, if nobody died meanwhile."""
PROCESS_COUNT_INTERVAL_MS: Final = 100
"""Milliseconds between two counts of the processes of a command, if it may not have any number of them."""
MAX_IDLE_STRAY_SCANS: Final = 100
"""How often a supervisor looks for strays in vain: the kernel's list of children may miss some while others die."""
LENGTH_PREFIX_BYTES: Final = 4
"""Bytes in which a request says how long it is."""
BPF_INSTRUCTION_BYTES: Final = 8
"""Bytes of one step of a filter."""

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_SECCOMP: Final = 22
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_NO_NEW_PRIVS: Final = 38
_SECCOMP_MODE_FILTER: Final = 2
_CLONE_NEWNS: Final = 0x20000
_MS_RDONLY: Final = 1
_MS_NOSUID: Final = 2
_MS_REMOUNT: Final = 32
_MS_BIND: Final = 4096
_MS_REC: Final = 16384
_MS_SLAVE: Final = 1 << 19


class StartRequest:
    """What to start, with zeros between its parts.

    How many processes it may have (0: any number), in hexadecimal the filter of its system calls (none: all are
    allowed), how many paths it cannot change, how many arguments it has; then those paths, the arguments, the folder,
    the environment.
    """

    def __init__(self, text: bytes) -> None:
        most, filter, sealed, count, *words = text.split(b"\0")
        self.max_processes = int(most)
        self.filter = bytes.fromhex(filter.decode())
        self.sealed, words = words[: int(sealed)], words[int(sealed) :]
        self.argv, (self.folder, *rest) = words[: int(count)], words[int(count) :]
        self.environment = dict(word.split(b"=", 1) for word in rest)

    def programs(self) -> list[bytes]:
        """Return the paths that may be the program, in the order in which they are tried."""
        name = self.argv[0]
        if b"/" in name:
            return [name]
        return [os.path.join(folder, name) for folder in self.environment.get(b"PATH", b"").split(b":") if folder]


class ChildSignal:
    """Rings when something about a child has changed."""

    def __init__(self) -> None:
        self.fd, self._write_fd = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write_fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)

    def drain(self) -> None:
        """Let it ring again."""
        with suppress(BlockingIOError):
            os.read(self.fd, 4096)

    def wait(self, milliseconds: int) -> None:
        """Wait until it rings, but not for long."""
        _poll([self.fd], milliseconds)
        self.drain()

    def close(self) -> None:
        """Ring no more."""
        os.close(self.fd)
        os.close(self._write_fd)


class Supervisor:
    """Forks keepers while the worker lives, and is there for what a killed one leaves behind."""

    def __init__(self, channel: socket.socket, worker: int) -> None:
        self._channel = channel
        self._worker = _worker_pidfd(worker)
        self._lifeline, self._lifeline_write_fd = os.pipe()
        self._child_signal = ChildSignal()
        self._monitors: set[int] = set()
        self._stray_scans_left = 0

    def run(self) -> None:
        """Serve the worker until it is gone; then see that everything else goes."""
        while self._serve():
            self._reap()
            if self._stray_scans_left > 0:
                self._kill_strays()
        os.close(self._lifeline_write_fd)
        while self._reap():
            self._kill_strays()
            self._child_signal.wait(REAP_INTERVAL_MS)

    def _serve(self) -> bool:
        """Wait for something to do; say whether the worker lives."""
        ready = _poll(
            [self._channel.fileno(), self._child_signal.fd, *self._worker],
            REAP_INTERVAL_MS if self._stray_scans_left > 0 else None,
        )
        self._child_signal.drain()
        if not ready.isdisjoint(self._worker):
            return False
        return self._channel.fileno() not in ready or self._accept_command()

    def _accept_command(self) -> bool:
        """Take a control socket from the channel and fork its keeper; say whether there was one."""
        message, controls = _receive_fds(self._channel, 1, 1)
        for control in controls:  # none, if there was no room for another open file
            self._fork_monitor(control)
            os.close(control)
        return message != b""

    def _fork_monitor(self, control: int) -> None:
        try:
            keeper = os.fork()
        except OSError as exc:
            _send_line(control, f"failed fork {exc.errno}")
            return
        if keeper == 0:
            _run_and_exit(lambda: self._run_monitor(control))
        self._monitors.add(keeper)

    def _run_monitor(self, control: int) -> None:
        self._channel.close()
        self._child_signal.close()
        for unneeded in (self._lifeline_write_fd, *self._worker):
            os.close(unneeded)
        CommandMonitor(control, self._lifeline).run()

    def _kill_strays(self) -> None:
        strays = set(children()) - self._monitors
        _kill(strays)
        self._stray_scans_left = MAX_IDLE_STRAY_SCANS if strays else self._stray_scans_left - 1

    def _reap(self) -> bool:
        """Collect the dead; say whether anyone is left."""
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG | os.WUNTRACED))[0] != 0:
                self._on_child_status(*found)
            return True
        return False

    def _on_child_status(self, pid: int, status: int) -> None:
        if os.WIFSTOPPED(status):
            _kill({pid} & self._monitors)  # its command is up to no good
        elif pid in self._monitors:
            self._monitors.discard(pid)
            self._stray_scans_left = MAX_IDLE_STRAY_SCANS if status != 0 else self._stray_scans_left


class CommandMonitor:
    """Starts one command, and ends it with all that is below it."""

    def __init__(self, control: int, lifeline: int) -> None:
        self._control = socket.socket(fileno=control)
        self._lifeline = lifeline
        self._child_signal = ChildSignal()
        self._command = 0
        self._silent = False

    def run(self) -> None:
        """Live as long as the command, and as anything that it started."""
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self._say("here")
        if not self._wait_for_worker():
            return
        length, streams = _receive_fds(self._control, LENGTH_PREFIX_BYTES, 3)
        text = (
            self._receive(int.from_bytes(length, "big"))
            if len(length) == LENGTH_PREFIX_BYTES and len(streams) == 3
            else b""
        )
        # A worker that died while this was on its way must not have anything done after its death.
        if text and not self._is_cancelled():
            self._run_command(StartRequest(text), streams)

    def _receive(self, length: int) -> bytes:
        """Return as many bytes, or none if nobody is there to send them."""
        text = b""
        while len(text) < length:
            piece = self._control.recv(length - len(text)) if self._wait_for_worker() else b""
            if not piece:
                return b""
            text += piece
        return text

    def _wait_for_worker(self) -> bool:
        """Wait until the worker says something or hangs up; say no if the supervisor is dead."""
        return self._lifeline not in _poll([self._control.fileno(), self._lifeline])

    def _is_cancelled(self) -> bool:
        return bool(_poll([self._control.fileno(), self._lifeline], 0))

    def _run_command(self, request: StartRequest, streams: list[int]) -> None:
        reading, writing = os.pipe()
        keeper = os.getpid()
        try:
            self._command = os.fork()
        except OSError as exc:
            self._say(f"failed fork {exc.errno}")
            return
        if self._command == 0:
            _run_and_exit(lambda: _become_command(request, streams, writing, monitor_pid=keeper))
        for not_ours in (writing, *streams):
            os.close(not_ours)
        self._wait(reading, max_processes=request.max_processes)
        self._kill_all()

    def _wait(self, starting: int, *, max_processes: int) -> None:
        """Wait until the command has ended or is to end; on the way, say whether it has started."""
        orders = {self._control.fileno(), self._lifeline}
        awaited = {*orders, self._child_signal.fd, starting}
        while True:
            ready = _poll(awaited, PROCESS_COUNT_INTERVAL_MS if max_processes else None)
            self._child_signal.drain()
            if starting in ready:
                self._say(os.read(starting, 64).decode() or "started")
                awaited.discard(starting)
            if not ready.isdisjoint(orders):
                self._silent = self._lifeline in ready
                return
            if self._has_ended():
                return
            if max_processes and exceeds_process_limit(max_processes):
                self._say("crowded")
                return

    def _has_ended(self) -> bool:
        """Say whether the command is over, and collect the others that are."""
        if not LINUX:
            return not self._reap()
        # The command itself stays a zombie, so that its number still means its group when that is killed.
        while (dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if dead.si_pid == self._command:
                return True
            os.waitpid(dead.si_pid, 0)
        return False

    def _kill_all(self) -> None:
        """Kill until nothing is left."""
        _kill([-self._command])
        while self._reap():
            _kill(children() if LINUX else [self._command])
            self._child_signal.wait(REAP_INTERVAL_MS)

    def _reap(self) -> bool:
        """Collect the dead, tell how the command ended, and say whether anyone is left."""
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0] != 0:
                if found[0] == self._command:
                    self._say(f"ended {found[1]}")
            return True
        return False

    def _say(self, what: str) -> None:
        if not self._silent:
            _send_line(self._control.fileno(), what)


def children() -> list[int]:
    """Return the children of this process, dead ones too. None, where nobody can tell."""
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children", "rb") as listed:
            return [int(pid) for pid in listed.read().split()]
    except FileNotFoundError:  # a kernel that keeps no such list
        return scan_children()


def scan_children() -> list[int]:
    """Return the children of this process by asking everyone."""
    me = os.getpid()
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _parent(pid) == me] if LINUX else []


def exceeds_process_limit(max_processes: int) -> bool:
    """Say whether more processes and threads than that are below this process, as far as anyone can tell."""
    found, waiting = 0, children()
    while waiting and found <= max_processes:
        task = f"/proc/{waiting.pop()}/task"
        with suppress(FileNotFoundError, ProcessLookupError):  # it is gone by now
            threads = os.listdir(task)
            found += len(threads)
            for thread in threads:
                with open(f"{task}/{thread}/children", "rb") as listed:
                    waiting += map(int, listed.read().split())
    return found > max_processes


def main(channel: int, worker: int) -> None:
    """Supervise the commands of `worker` until it is gone."""
    os.set_inheritable(channel, False)
    _block_signals()
    # A program that gains rights would be out of reach of our signals. All that are forked from here inherit this.
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    Supervisor(socket.socket(fileno=channel), worker).run()


def _become_command(request: StartRequest, streams: list[int], report: int, *, monitor_pid: int) -> None:
    """Become the program, or report at what and why that failed."""
    step = "fork"
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != monitor_pid:  # it died before we asked to be told
            return
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        step = "folder"
        os.chdir(request.folder)
        step = "filter"
        _make_read_only(request.sealed)
        _install_seccomp_filter(request.filter)
        step = "program"
        _execute(request)
    except OSError as exc:
        os.write(report, f"failed {step} {exc.errno}".encode())


def _execute(request: StartRequest) -> None:
    """Replace this process by the first program that is there; raise why the best of them cannot be."""
    failure: OSError = FileNotFoundError(2, "")
    for program in request.programs():
        try:
            os.execve(program, request.argv, request.environment)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as exc:
            failure = exc
    raise failure


def _run_and_exit(act: Callable[[], None]) -> NoReturn:
    """Do this and be gone, without the farewells that Python would say for the process that this was forked from."""
    code = 1
    try:
        act()
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        raise
    finally:
        os._exit(code)


def _parent(pid: str) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[1])  # the name before it may hold anything
    except (FileNotFoundError, ProcessLookupError):
        return None


def _receive_fds(sender: socket.socket, length: int, files: int) -> tuple[bytes, list[int]]:
    """Receive a message and open files, which no program shall inherit."""
    message, taken, _, _ = socket.recv_fds(sender, length, files)
    for file in taken:
        os.set_inheritable(file, False)
    return message, taken


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _send_line(control: int, what: str) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):
        os.write(control, f"{what}\n".encode())


def _poll(fds: Iterable[int], milliseconds: int | None = None) -> set[int]:
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return {fd for fd, _ in poll.poll(milliseconds)}


def _worker_pidfd(worker: int) -> list[int]:
    """Return what becomes readable when the worker ends: the channel stays open if it forked and its child lives."""
    if not LINUX:
        return []
    try:
        found = os.pidfd_open(worker)
    except OSError:  # an old kernel, or the worker is gone already
        return []
    return [found] if os.getppid() == worker else []


def _block_signals() -> None:
    """Be deaf to what is sent to everybody: a keeper that went first could not end its command in order.

    Blocked, and not ignored, so that a command has the defaults again with one call.
    """
    signal.pthread_sigmask(
        signal.SIG_SETMASK, signal.valid_signals() - {getattr(signal, name) for name in UNBLOCKED_SIGNALS}
    )
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)


def _make_read_only(paths: list[bytes]) -> None:
    """Let nothing about these be changed by this process and all that it starts, if it may say so.

    By a namespace of its own, in which each is mounted on itself once more, read-only.
    """
    if not paths or _libc.unshare(_CLONE_NEWNS) != 0 or _mount(None, b"/", _MS_REC | _MS_SLAVE) != 0:
        return
    for path in paths:
        if _mount(path, path, _MS_BIND) == 0:
            _mount(None, path, _MS_BIND | _MS_REMOUNT | _MS_RDONLY | _MS_NOSUID)


def _mount(what: bytes | None, where: bytes, flags: int) -> int:
    return int(_libc.mount(what, where, None, ctypes.c_ulong(flags), None))


def _install_seccomp_filter(filter: bytes) -> None:
    """Let the kernel filter the system calls of this process, and of all that it becomes and starts."""
    if not filter:
        return
    program = ctypes.create_string_buffer(filter, len(filter))
    described = struct.pack("HP", len(filter) // BPF_INSTRUCTION_BYTES, ctypes.addressof(program))
    pointed_at = ctypes.create_string_buffer(described)
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(pointed_at))


def _prctl(option: int, value: int, more: int = 0) -> None:
    """Call `prctl`, where there is one."""
    if LINUX and _libc.prctl(option, value, more, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option} failed")


if LINUX:
    import ctypes

    _libc = ctypes.CDLL(None, use_errno=True)
    _libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]

if __name__ == "__main__":
    _run_and_exit(lambda: main(int(sys.argv[1]), int(sys.argv[2])))
