"""Looking at process trees of this machine through /proc: which processes they are, what they take, whether
they wait for input.

Blocking, below a millisecond for most trees: run it in a thread. Reads only.

The tree is what the shim holds: the command, what it started, and what of that became a daemon.

The evidence that it waits for input is /proc/PID/syscall (proc(5)): in which system call a thread sleeps,
with its arguments. One look costs, for each living process, four system calls for its place in the tree and
three for each thread (at most `_MAX_THREADS`), and some ten more for what looks like a wait.

What counts, and what does not:

* A main thread inside read(2) of the command's input or of its terminal: certain. A terminal that takes whole
  lines and shows none of them makes it a password.
* A main thread that has taken every key for itself (line editors, pagers) and sleeps without a deadline in
  poll(2) or select(2): certain. With a deadline it wakes by itself, as a clock or a monitor does: that waits
  for no answer.
* Another thread inside such a read, or an epoll that watches the input, without a deadline or with one of
  seconds (V8's own timers, not a clock's): as programs in Go or on Node ask, and as servers listen for a key.
  Not certain; `engine.processes.question_watch` looks at what was printed last.
* A program of another user (sudo) shows none of that. Its terminal does: whole lines, not shown, in the
  foreground.

A shell or another interpreter that edits a line of a person's waits for its next command: that is a wait, and
no question. It is told by its own words (`interpreters`) and by its terminal, which gives it every
key; for what its `read` asks, a shell takes whole lines. A tree in which something asks as well waits for
that.
"""

import contextlib
import os
import termios
from collections.abc import Iterable, Iterator
from typing import Literal

from outlive.backends.interpreters import takes_commands
from outlive.core.process import NOTHING, InputWait, Observation
from outlive.kernel.processes import (
    command_line,
    descendants,
    descriptor,
    start_ticks,
    stat_fields,
    terminal_of,
    this_boot,
)
from outlive.kernel.socket_tables import ListeningPorts
from outlive.kernel.state_files import read_pid
from outlive.protocols.frames import PidRecord

# How the command line of a shim begins (decision 126).
_SHIM = ["outlive-shim", "shim"]


def living_tree(folder: str) -> tuple[PidRecord, list[int]] | None:
    """Return the main process of a folder and the pids of its tree, parents first; None when nothing of it
    can live.

    The shim's children are all of the tree, daemons included. A shim that died has left the command to
    others; then it is what lies below the command.
    """
    record = read_pid(folder)
    if record is None or record.boot_id != this_boot():
        return None
    is_main_there = start_ticks(record.pid) == record.start_ticks
    # A shim lives at least as long as what it holds.
    if record.shim_pid and command_line(record.shim_pid)[:2] == _SHIM:
        below = descendants([record.shim_pid])
        if record.pid in below or not is_main_there:
            return record, below
    return record, [record.pid, *descendants([record.pid])] if is_main_there else []


def living_main(folder: str) -> PidRecord | None:
    """Return the main process of a folder; None when it does not live any more."""
    record = read_pid(folder)
    if record is None or record.boot_id != this_boot() or start_ticks(record.pid) != record.start_ticks:
        return None
    return record


_READS = {"x86_64": frozenset({0, 19}), "aarch64": frozenset({63, 65})}.get(os.uname().machine, frozenset())
_EPOLL_WAITS = {"x86_64": frozenset({232, 281, 441}), "aarch64": frozenset({22, 441})}.get(
    os.uname().machine, frozenset()
)
# Which argument is the deadline: milliseconds of which minus one means none, or a pointer that is NULL for
# none.
_MILLISECONDS = {"x86_64": {7: 2, 232: 3, 281: 3}, "aarch64": {22: 3}}.get(os.uname().machine, {})
_POINTERS = {"x86_64": {23: 4, 270: 4, 271: 2, 441: 3}, "aarch64": {72: 4, 73: 2, 441: 3}}.get(
    os.uname().machine, {}
)
# Milliseconds. V8's timers (its memory reducer's 8 s) end the sleep of a program that asks: a clock's are
# shorter.
_SECONDS = 1000
_FOR_EVER = 0xFFFFFFFF  # the lower half of minus one: an int is shown as the register holds it
# The largest programs have some hundred threads; a look at more than that would cost more than its answer is
# worth.
_MAX_THREADS = 512


def input_wait(folder: str) -> InputWait | None:
    """Return what the process of a folder, or one below it, waits for; None when nothing of it waits for
    input.
    """
    living = living_tree(folder)
    return None if living is None else input_wait_of(*living)


def input_wait_of(record: PidRecord, pids: list[int]) -> InputWait | None:
    """Return what a tree waits for, given its main process and its pids.

    What is certain goes first, and a question before a prompt.
    """
    prompt = guess = None
    for pid, thread in _threads(pids):
        wait = _wait_of(pid, thread, record)
        if wait is None:
            continue
        if wait.is_certain and not wait.is_at_prompt:
            return wait
        if wait.is_certain:
            prompt = prompt or wait
        else:
            guess = guess or wait
    return prompt or guess


def _takes_input(record: PidRecord, file_name: str) -> bool:
    """Tell whether a file is a terminal, or the pipe through which the command is sent input.

    The command's own descriptor 0 says less: a shell has another file there while it reads from that.
    """
    return _is_terminal(file_name) or file_name == f"pipe:[{record.input_pipe}]"


def _threads(pids: list[int]) -> Iterator[tuple[int, int]]:
    """Yield processes with their threads, the main ones first: those are where an answer is mostly found."""
    left = _MAX_THREADS
    others: list[tuple[int, int]] = []
    for pid in pids[:left]:
        yield pid, pid
        with contextlib.suppress(OSError):
            found = os.listdir(f"/proc/{pid}/task")
            others += [(pid, int(thread)) for thread in found if int(thread) != pid]
    yield from others[: max(0, left - len(pids))]


def _wait_of(pid: int, thread: int, record: PidRecord) -> InputWait | None:
    """Return what one thread waits for; None when that is no input."""
    try:
        with open(f"/proc/{pid}/task/{thread}/syscall", encoding="ascii") as file:
            words = file.read().split()
    except PermissionError:
        is_asking = thread == pid and _is_in_foreground(pid) and _kind(_local_modes(pid)) == "password"
        return _sleeping(pid, thread, "password") if is_asking else None
    except OSError:
        return None
    if len(words) < 7:  # "running", or in no call
        return None
    number, arguments = int(words[0]), [int(word, 16) for word in words[1:7]]
    if number in _READS:
        return _read_wait(pid, thread, arguments[0], record)
    takes_keys = thread == pid and _is_in_foreground(pid) and _takes_keys(_local_modes(pid))
    if number in _EPOLL_WAITS:
        if _sleeps_long(number, arguments, over=_SECONDS) and _watches_input(pid, arguments[0], record):
            is_at_prompt = takes_keys and takes_commands(command_line(pid))
            return _sleeping(pid, thread, "input", is_certain=False, is_at_prompt=is_at_prompt)
    elif takes_keys and _sleeps_long(number, arguments):
        return _sleeping(pid, thread, "input", is_at_prompt=takes_commands(command_line(pid)))
    return None


def _read_wait(pid: int, thread: int, fd: int, record: PidRecord) -> InputWait | None:
    file_name = descriptor(pid, fd)
    if not _takes_input(record, file_name):
        return None
    local = _local_modes(pid) if _is_terminal(file_name) else 0
    kind = _kind(local)
    edits = _takes_keys(local) and thread == pid and _is_in_foreground(pid)
    return _sleeping(
        pid,
        thread,
        kind,
        is_certain=thread == pid or kind == "password",
        is_at_prompt=edits and takes_commands(command_line(pid)),
    )


def _is_terminal(file_name: str) -> bool:
    return file_name.startswith(("/dev/pts/", "/dev/tty"))


def _sleeps_long(number: int, arguments: list[int], *, over: int = _FOR_EVER - 1) -> bool:
    """Tell whether a call is poll(2) or a sister of it whose deadline, in milliseconds, is later than this;
    without a number, that no deadline ends.
    """
    if (place := _MILLISECONDS.get(number)) is not None:
        return arguments[place] & _FOR_EVER > over
    return (place := _POINTERS.get(number)) is not None and arguments[place] == 0


def _takes_keys(local: int) -> bool:
    """Tell whether a terminal (its c_lflag) gives each key at once, as editors of lines have it."""
    return bool(local) and not local & termios.ICANON


def _watches_input(pid: int, epoll: int, record: PidRecord) -> bool:
    """Tell whether an epoll instance watches the command's input (proc(5), fdinfo: "tfd: 0 events: …")."""
    try:
        with open(f"/proc/{pid}/fdinfo/{epoll}", encoding="ascii") as file:
            watched = [int(line.split()[1]) for line in file if line.startswith("tfd:")]
    except (OSError, ValueError, IndexError):
        return False
    return any(_takes_input(record, descriptor(pid, fd)) for fd in watched)


def _kind(local: int) -> Literal["input", "password"]:
    """Return whether what is typed would be shown: a terminal (its c_lflag) that takes whole lines and echoes
    none hides it.
    """
    return "password" if local & termios.ICANON and not local & termios.ECHO else "input"


def _sleeping(
    pid: int,
    thread: int,
    kind: Literal["input", "password"],
    *,
    is_certain: bool = True,
    is_at_prompt: bool = False,
) -> InputWait | None:
    """Return the wait of a thread that sleeps; None for one that is stopped: it waits to be continued."""
    state, wakes = "", 0
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/task/{thread}/status", "rb") as file:
        for line in file:
            name, _, value = line.partition(b":")
            if name == b"State":
                state = value.split()[0].decode()
            elif name == b"voluntary_ctxt_switches":
                wakes = int(value)
    if state != "S":
        return None
    return InputWait(kind=kind, thread=thread, wakes=wakes, is_certain=is_certain, is_at_prompt=is_at_prompt)


def _is_in_foreground(pid: int) -> bool:
    """Tell whether a process belongs to the process group that its terminal listens to."""
    fields = stat_fields(pid)
    return bool(fields) and fields[2] == fields[5]


def _local_modes(pid: int) -> int:
    """Return how the terminal of a process treats what is typed (termios(3), c_lflag); 0 where it has
    none.
    """
    with contextlib.suppress(OSError, termios.error), terminal_of(pid) as fd:
        return int(termios.tcgetattr(fd)[3])
    return 0


_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Fields of /proc/PID/stat (proc(5)), counted from the third one.
_STATE, _THREADS, _RSS = 0, 17, 21
_TIMES = slice(11, 15)  # of the process and of its children that were waited for: user and system


def observe_trees(folders: Iterable[str], *, has_stdin: bool) -> list[Observation]:
    """Return what processes and their trees look like now; nothing for one that has ended.

    Args:
        folders: The processes' folders.
        has_stdin: Whether they have inputs that they could wait for.
    """
    ports = ListeningPorts()
    return [_look(folder, ports, has_stdin=has_stdin) for folder in folders]


def _look(folder: str, listening: ListeningPorts, *, has_stdin: bool) -> Observation:
    living = living_tree(folder)
    if living is None:
        return NOTHING
    record, pids = living
    seen: list[int] = []
    ports: set[int] = set()
    threads, ticks, pages = 0, 0, 0
    is_busy = False
    for pid in pids:
        fields = stat_fields(pid)
        if not fields or fields[_STATE] == b"Z":
            continue
        seen.append(pid)
        is_busy |= fields[_STATE] in {b"R", b"D"}
        ticks += sum(map(int, fields[_TIMES]))
        pages += int(fields[_RSS])
        threads += int(fields[_THREADS])
        ports |= listening.of(pid)
    wait = input_wait_of(record, pids) if has_stdin else None
    return Observation(
        pids=tuple(seen),
        threads=threads,
        cpu_s=round(ticks / _TICKS_A_SECOND, 2),
        memory_bytes=pages * _PAGE_BYTES,
        ports=tuple(sorted(ports)),
        waiting="no" if wait is None or not wait.is_certain else wait.kind,
        is_at_prompt=wait is not None and wait.is_at_prompt,
        is_busy=is_busy,
    )


def window_size(folder: str) -> tuple[int, int] | None:
    """Return rows and columns of the terminal that the process of a folder was started in; None where there
    is none.
    """
    record = living_main(folder)
    if record is not None:
        with contextlib.suppress(OSError, termios.error), terminal_of(record.pid) as fd:
            return termios.tcgetwinsize(fd)
    return None
