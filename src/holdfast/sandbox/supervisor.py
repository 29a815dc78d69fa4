"""Supervisor program: runs between a worker and its tool commands, so that no command outlives the worker.

    worker ══ channel ══ supervisor      one per worker: forks a monitor for every socket received on the channel
      ╚═════ control ═════ monitor       one per command: adopts the processes that the command leaves behind
                             └─ command  leads its own session

The kernel reparents an orphaned process to its nearest *subreaper* ancestor, whatever its session. So no process
escapes from below a monitor, and a monitor without children has no descendants. A monitor kills its children until
none is left when one of these happens:

- its command has ended;
- its control socket is closed: the worker cancelled the command, or died;
- its lifeline is closed, a pipe that only the supervisor holds open: the supervisor or its worker died.

If a monitor is killed, its processes are reparented to the supervisor, which kills every child that is not a monitor.

Holdfast never imports this module. It runs as `python -I -S supervisor.py PACKAGES CHANNEL WORKER`, needs only
the standard library and `private_mounts.py`, and is single-threaded, so that it may fork. Without subreapers (not
Linux), only the command's process group is killed.
"""

import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from typing import Final, NoReturn

LINUX: Final = sys.platform == "linux"
UNBLOCKED_SIGNALS: Final = {"SIGCHLD", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP"}
"""SIGCHLD, and the signals of faults in this process."""
REAP_INTERVAL_MS: Final = 10
"""Milliseconds until surviving children are killed again, if none died meanwhile."""
PROCESS_COUNT_INTERVAL_MS: Final = 100
"""Milliseconds between two checks of a command's process limit."""
MAX_IDLE_STRAY_SCANS: Final = 100
"""Scans without a stray before scanning stops: the kernel's list of children may miss some while others die."""
LENGTH_PREFIX_BYTES: Final = 4
"""Size of the length prefix of a request."""
OPTIONS_FD: Final = 100
"""Descriptor of the options file in the program; no other file of this process has a number that high."""
BPF_INSTRUCTION_BYTES: Final = 8
"""Size of one instruction of a seccomp filter."""

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_SECCOMP: Final = 22
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_NO_NEW_PRIVS: Final = 38
_SECCOMP_MODE_FILTER: Final = 2
_MS_RDONLY: Final = 1
_MS_NOSUID: Final = 2
_MS_REMOUNT: Final = 32
_MS_BIND: Final = 4096


class StartRequest:
    """A start request: fields separated by zero bytes.

    The process limit (0: none), the seccomp filter in hexadecimal (empty: none), and the lengths of four lists; then
    the read-only paths, the private mounts, the words of the options file, the arguments, the folder and the
    environment.
    """

    def __init__(self, text: bytes) -> None:
        max_processes, filter, *fields = text.split(b"\0")
        self.max_processes = int(max_processes)
        self.filter = bytes.fromhex(filter.decode())
        lengths, rest = map(int, fields[:4]), iter(fields[4:])
        self.read_only_paths, self.mounts, self.options, self.argv = (list(islice(rest, length)) for length in lengths)
        self.folder, *variables = rest
        self.environment = dict(variable.split(b"=", 1) for variable in variables)

    def programs(self) -> list[bytes]:
        """Return the candidate paths of the program, in the order of `PATH`."""
        name = self.argv[0]
        if b"/" in name:
            return [name]
        return [os.path.join(folder, name) for folder in self.environment.get(b"PATH", b"").split(b":") if folder]


class ChildSignal:
    """A file descriptor that becomes readable when the state of a child changes."""

    def __init__(self) -> None:
        self.fd, self._write_fd = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write_fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)

    def drain(self) -> None:
        """Discard pending notifications."""
        with suppress(BlockingIOError):
            os.read(self.fd, 4096)

    def wait(self, milliseconds: int) -> None:
        """Wait for a notification, at most so many milliseconds, and discard it."""
        _poll([self.fd], milliseconds)
        self.drain()

    def close(self) -> None:
        """Close both ends of the pipe."""
        os.close(self.fd)
        os.close(self._write_fd)


class Supervisor:
    """Forks monitors while the worker lives, and kills the processes that a killed monitor leaves behind."""

    def __init__(self, channel: socket.socket, worker: int) -> None:
        self._channel = channel
        self._worker = _worker_pidfd(worker)
        self._lifeline, self._lifeline_write_fd = os.pipe()
        self._child_signal = ChildSignal()
        self._monitors: set[int] = set()
        self._stray_scans_left = 0

    def run(self) -> None:
        """Serve the worker until it ends; then kill everything that is left."""
        while self._serve():
            self._reap()
            if self._stray_scans_left > 0:
                self._kill_strays()
        os.close(self._lifeline_write_fd)
        while self._reap():
            self._kill_strays()
            self._child_signal.wait(REAP_INTERVAL_MS)

    def _serve(self) -> bool:
        """Wait for one event and handle it; return whether the worker is still connected."""
        ready = _poll(
            [self._channel.fileno(), self._child_signal.fd, *self._worker],
            REAP_INTERVAL_MS if self._stray_scans_left > 0 else None,
        )
        self._child_signal.drain()
        if not ready.isdisjoint(self._worker):
            return False
        if self._channel.fileno() not in ready:
            return True
        message, controls = _receive_fds(self._channel, 1, 1)
        for control in controls:  # none, if there was no room for another open file
            self._fork_monitor(control)
            os.close(control)
        return message != b""

    def _fork_monitor(self, control: int) -> None:
        def run_monitor() -> None:
            self._channel.close()
            self._child_signal.close()
            for fd in (self._lifeline_write_fd, *self._worker):
                os.close(fd)
            CommandMonitor(control, self._lifeline).run()

        try:
            monitor = os.fork()
        except OSError as exc:
            _send_line(control, f"failed fork {exc.errno}")
            return
        if monitor == 0:
            _run_and_exit(run_monitor)
        self._monitors.add(monitor)

    def _kill_strays(self) -> None:
        strays = set(children()) - self._monitors
        _kill(strays)
        self._stray_scans_left = MAX_IDLE_STRAY_SCANS if strays else self._stray_scans_left - 1

    def _reap(self) -> bool:
        """Collect dead children; return whether any child is left."""
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG | os.WUNTRACED))[0] != 0:
                pid, status = found
                if os.WIFSTOPPED(status):
                    _kill({pid} & self._monitors)  # only its own command can have stopped it
                elif pid in self._monitors:
                    self._monitors.discard(pid)
                    if status != 0:
                        self._stray_scans_left = MAX_IDLE_STRAY_SCANS
            return True
        return False


class CommandMonitor:
    """Starts one command, and kills it with all its descendants."""

    def __init__(self, control: int, lifeline: int) -> None:
        self._control = socket.socket(fileno=control)
        self._lifeline = lifeline
        self._child_signal = ChildSignal()
        self._command = 0
        self._worker_gone = False

    def run(self) -> None:
        """Run the requested command until it and all its descendants have ended."""
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        self._report("here")
        if not self._wait_for_worker():
            return
        length, streams = _receive_fds(self._control, LENGTH_PREFIX_BYTES, 3)
        text = (
            self._receive(int.from_bytes(length, "big"))
            if len(length) == LENGTH_PREFIX_BYTES and len(streams) == 3
            else b""
        )
        # If the worker died or cancelled while the request was in transit, the command must not start.
        if text and not _poll([self._control.fileno(), self._lifeline], 0):
            self._run_command(StartRequest(text), streams)

    def _receive(self, length: int) -> bytes:
        """Return `length` bytes, or none if the connection ends first."""
        text = b""
        while len(text) < length:
            piece = self._control.recv(length - len(text)) if self._wait_for_worker() else b""
            if not piece:
                return b""
            text += piece
        return text

    def _wait_for_worker(self) -> bool:
        """Wait until the worker sends something or disconnects; return false if the supervisor is dead."""
        return self._lifeline not in _poll([self._control.fileno(), self._lifeline])

    def _run_command(self, request: StartRequest, streams: list[int]) -> None:
        start_report, start_report_write_fd = os.pipe()
        monitor = os.getpid()
        try:
            self._command = os.fork()
        except OSError as exc:
            self._report(f"failed fork {exc.errno}")
            return
        if self._command == 0:
            _run_and_exit(lambda: _become_command(request, streams, start_report_write_fd, monitor_pid=monitor))
        for fd in (start_report_write_fd, *streams):
            os.close(fd)
        self._wait(start_report, max_processes=request.max_processes)
        _kill([-self._command])
        while self._reap():
            _kill(children() if LINUX else [self._command])
            self._child_signal.wait(REAP_INTERVAL_MS)

    def _wait(self, start_report: int, *, max_processes: int) -> None:
        """Wait until the command has ended or must be killed; report when it has started."""
        cancel_fds = {self._control.fileno(), self._lifeline}
        polled = {*cancel_fds, self._child_signal.fd, start_report}
        while True:
            ready = _poll(polled, PROCESS_COUNT_INTERVAL_MS if max_processes else None)
            self._child_signal.drain()
            if start_report in ready:
                self._report(os.read(start_report, 64).decode() or "started")
                polled.discard(start_report)
            if not ready.isdisjoint(cancel_fds):
                self._worker_gone = self._lifeline in ready
                return
            if self._has_ended():
                return
            if max_processes and exceeds_process_limit(max_processes):
                self._report("crowded")
                return

    def _has_ended(self) -> bool:
        """Return whether the command has ended, and collect other dead children."""
        if not LINUX:
            return not self._reap()
        # The command itself stays a zombie, so that its pid still names its process group when that is killed.
        while (dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if dead.si_pid == self._command:
                return True
            os.waitpid(dead.si_pid, 0)
        return False

    def _reap(self) -> bool:
        """Collect dead children, report how the command ended, and return whether any child is left."""
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0] != 0:
                if found[0] == self._command:
                    self._report(f"ended {found[1]}")
            return True
        return False

    def _report(self, line: str) -> None:
        if not self._worker_gone:
            _send_line(self._control.fileno(), line)


def children() -> list[int]:
    """Return the children of this process, zombies included; an empty list without `/proc`."""
    own_pid = os.getpid()
    try:
        with open(f"/proc/{own_pid}/task/{own_pid}/children", "rb") as listing:
            return [int(pid) for pid in listing.read().split()]
    except FileNotFoundError:  # a kernel without `CONFIG_PROC_CHILDREN`
        return scan_children()


def scan_children() -> list[int]:
    """Return the children of this process by reading the parent of every process."""
    own_pid = os.getpid()
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _parent(pid) == own_pid] if LINUX else []


def exceeds_process_limit(max_processes: int) -> bool:
    """Return whether this process has more than `max_processes` descendants in `/proc`, threads included."""
    count, pids = 0, children()
    while pids and count <= max_processes:
        task = f"/proc/{pids.pop()}/task"
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            threads = os.listdir(task)
            count += len(threads)
            for thread in threads:
                with open(f"{task}/{thread}/children", "rb") as listing:
                    pids += map(int, listing.read().split())
    return count > max_processes


def main(channel: int, worker: int) -> None:
    """Supervise the commands of `worker` until it ends."""
    os.set_inheritable(channel, False)
    # Signals sent to the whole group must not end a monitor before its command. They are blocked, not ignored, so
    # that a command gets the defaults back with one call.
    unblocked = {getattr(signal, name) for name in UNBLOCKED_SIGNALS}
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals() - unblocked)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    # A setuid program could not be killed by our signals. Every forked process inherits this setting.
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    Supervisor(socket.socket(fileno=channel), worker).run()


def _become_command(request: StartRequest, streams: list[int], report: int, *, monitor_pid: int) -> None:
    """Replace this process with the command, or report the failed step and its errno."""
    step = "fork"
    try:
        os.setsid()
        if request.mounts:
            step = "namespace"
            private_mounts.enter_namespace()
            _make_read_only(request.read_only_paths)
            step = "mounts"
            private_mounts.attach_mounts([private_mounts.PrivateMount.decode(each) for each in request.mounts])
        step = "fork"
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # after the change of the user namespace, which could reset it
        if os.getppid() != monitor_pid:  # the monitor died before the death signal was set
            return
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        step = "folder"
        os.chdir(request.folder)
        if request.options:
            step = "options"
            _write_options(request.options)
        step = "filter"
        _install_seccomp_filter(request.filter)
        step = "program"
        failure: OSError = FileNotFoundError(2, "")
        for program in request.programs():
            try:
                os.execve(program, request.argv, request.environment)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as exc:
                failure = exc
        raise failure
    except OSError as exc:
        os.write(report, f"failed {step} {exc.errno}".encode())


def _run_and_exit(function: Callable[[], None]) -> NoReturn:
    """Call `function` and exit, without running the exit handlers inherited from the parent process."""
    code = 1
    try:
        function()
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        raise
    finally:
        os._exit(code)


def _parent(pid: str) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[1])  # the command name may contain any character
    except (FileNotFoundError, ProcessLookupError):
        return None


def _receive_fds(sender: socket.socket, length: int, files: int) -> tuple[bytes, list[int]]:
    """Receive a message and file descriptors, and make these non-inheritable."""
    message, fds, _, _ = socket.recv_fds(sender, length, files)
    for fd in fds:
        os.set_inheritable(fd, False)
    return message, fds


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _send_line(control: int, line: str) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):
        os.write(control, f"{line}\n".encode())


def _poll(fds: Iterable[int], milliseconds: int | None = None) -> set[int]:
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return {fd for fd, _ in poll.poll(milliseconds)}


def _worker_pidfd(worker: int) -> list[int]:
    """Return the worker's pidfd, if available: a child that the worker forked would keep the channel open."""
    if not LINUX:
        return []
    try:
        pidfd = os.pidfd_open(worker)
    except OSError:  # an old kernel, or the worker has already ended
        return []
    return [pidfd] if os.getppid() == worker else []


def _make_read_only(paths: list[bytes]) -> None:
    """Mount `paths` read-only in the mount namespace of this process, if permitted."""
    for path in paths if os.geteuid() == 0 else ():
        with suppress(OSError):
            system_calls.mount(path, path, None, _MS_BIND)
            system_calls.mount(None, path, None, _MS_BIND | _MS_REMOUNT | _MS_RDONLY | _MS_NOSUID)


def _write_options(words: list[bytes]) -> None:
    """Let the program inherit a file with `words`, each ended by a zero byte."""
    file = os.memfd_create("options")
    with open(os.dup(file), "wb") as writer:
        writer.write(b"".join(word + b"\0" for word in words))
    os.lseek(file, 0, os.SEEK_SET)
    os.dup2(file, OPTIONS_FD, inheritable=True)


def _install_seccomp_filter(filter: bytes) -> None:
    """Apply a seccomp filter to this process and all its descendants."""
    if not filter:
        return
    instructions = ctypes.create_string_buffer(filter, len(filter))
    program = struct.pack("HP", len(filter) // BPF_INSTRUCTION_BYTES, ctypes.addressof(instructions))
    program_buffer = ctypes.create_string_buffer(program)
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(program_buffer))


def _prctl(option: int, value: int, argument: int = 0) -> None:
    """Call `prctl` on Linux; do nothing elsewhere."""
    if LINUX and _libc.prctl(option, value, argument, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option} failed")


if __name__ == "__main__":  # only this package can be imported besides the standard library
    sys.path.append(sys.argv[1])

if LINUX:
    import ctypes

    from holdfast.sandbox import private_mounts, system_calls

    _libc = ctypes.CDLL(None, use_errno=True)
    _libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]

if __name__ == "__main__":
    _run_and_exit(lambda: main(int(sys.argv[2]), int(sys.argv[3])))
