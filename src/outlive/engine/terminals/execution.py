"""One command in a terminal: typed, followed by its marks until the next prompt, and what it gave
(`Execution`).

What a terminal's log says: its newest marks, and text of it in bounded turns. Reads only, consumes nothing.

How the shell is started: which program, with which start file of ours, which marks its prompts. Asks the file
system.
"""

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from outlive.core.cursor import Cursor
from outlive.core.errors import InvalidRequest, StartFailed
from outlive.core.process import Waiting as Seen
from outlive.core.redactions import Redactions
from outlive.core.terminal import Executed, ShellKind, TerminalNote, Waiting
from outlive.core.values import dataclass
from outlive.engine.commands.resolver import find_program
from outlive.engine.engine import Engine
from outlive.engine.processes.process import Process
from outlive.operations.terminal_requests import KILL_LINE, prompts
from outlive.protocols.plain import Clip, join_pieces, plain_text, shown_ranges
from outlive.protocols.terminal.run import CommandRun, Mark, MarkReader, ShellState, newest_state

_TURN_BYTES = 256 * 1024  # what the event loop may read in one turn
# The newest output that is looked at for marks: more than a prompt and what may be typed behind it.
_NEWEST_BYTES = 64 * 1024
_PATIENCE_S = 0.1  # between two looks at what is held back because a secret could begin there
_LOOKS = 5


def end_of(process: Process) -> int:
    """Return where the output ends, that is held back because a secret could begin there included."""
    return process.raw_log.size(0)


def next_marks(process: Process, reader: MarkReader) -> list[Mark] | None:
    """Return the marks of the next 256 KiB behind what `reader` has seen; None when there is no more now."""
    log = process.raw_log
    data = log.pread(0, _TURN_BYTES, reader.position)
    if data:
        return reader.feed(data)
    gap = log.gap(0)
    if gap is None or not gap[0] <= reader.position < gap[1]:
        return None
    reader.skip(gap[1])
    return []


def _newest_marks(process: Process, note: TerminalNote) -> list[Mark]:
    """Return the marks in the newest output, oldest first."""
    log = process.raw_log
    size = log.size(0)
    begin = max(0, size - _NEWEST_BYTES)
    gap = log.gap(0) if begin else None
    if gap is not None and begin < gap[1]:
        begin = min(gap[1], size)
    return MarkReader(note.key, begin).feed(log.pread(0, _NEWEST_BYTES, begin))


def shell_state(process: Process, note: TerminalNote) -> ShellState:
    """Return what the shell does, as its newest output says; nothing is remembered from earlier."""
    return newest_state(_newest_marks(process, note))


async def text_of(
    process: Process, ranges: Sequence[tuple[int, int]], *, limit_bytes: int
) -> tuple[str, int]:
    """Return what lies in these ranges, head and tail of it where it is more than the limit.

    And how many secrets are stars in it.

    Cancellation: safe.
    """
    total = sum(end - begin for begin, end in ranges)
    pieces: list[Clip] = []
    redactions = Redactions()
    for start, end in shown_ranges(total, limit_bytes):
        position = 0  # of a range in all of them together
        for begin, stop in ranges:
            low, high = max(start, position), min(end, position + stop - begin)
            if low < high:
                shift = begin - position
                pieces += [
                    Clip(piece.offset - shift, piece.data)
                    for piece in await _pieces(process, low + shift, high + shift, redactions)
                ]
            position += stop - begin
    return join_pieces(_joined(pieces), total), redactions.total


async def _pieces(process: Process, at: int, end: int, redactions: Redactions) -> list[Clip]:
    found: list[Clip] = []
    looks = 0
    while at < end:
        data, hidden = process.log.look(0, min(_TURN_BYTES, end - at), at)
        if data:
            redactions.count(0, at, at + len(data), hidden)
            found.append(Clip(at, data))
            at += len(data)
            await asyncio.sleep(0)  # bounded work per turn
            continue
        gap = process.log.gap(0)
        if gap is not None and gap[0] <= at < gap[1]:
            at = gap[1]
            continue
        looks += 1
        if looks > _LOOKS:
            break
        await asyncio.sleep(_PATIENCE_S)
    return found


def _joined(pieces: Sequence[Clip]) -> list[Clip]:
    """Return pieces with those that adjoin as one."""
    joined: list[Clip] = []
    for piece in pieces:
        if joined and joined[-1].end == piece.offset:
            joined[-1] = Clip(joined[-1].offset, joined[-1].data + piece.data)
        else:
            joined.append(piece)
    return joined


_TAKEN_S = 10.0  # a shell at its prompt takes what is typed this soon, or it is not known what it does
_INTERRUPTED_S = 2.0  # and is at its prompt again this soon after Ctrl-C
_INTERRUPTS = 3  # one may come while the shell is between two states
_QUIET_S = 1.0  # without output before it is asked whether a command waits for input; doubled each time
_MOST_QUIET_S = 16.0
_INTERRUPT = b"\x03"
_WAITS: dict[Seen, Waiting] = {"no": "none", "input": "input", "password": "password"}


async def waiting_of(engine: Engine, process: Process) -> Waiting:
    """Return what a terminal's command waits for, as the kernel reports it."""
    return _WAITS[(await engine.queries.observe(process)).waiting]


class Execution:
    """Follows one command. The log is read from where it was typed; nothing is queued."""

    def __init__(self, engine: Engine, process: Process, note: TerminalNote) -> None:
        self._engine = engine
        self._process = process
        self._run = CommandRun()
        self._reader = MarkReader(note.key, end_of(process))
        self._shell = note.shell
        self._waiting: Waiting = "none"

    async def run(self, typed: bytes, *, wait_s: float, limit_bytes: int) -> Executed:
        """Type it; return when it has ended, waits for input, or `wait_s` seconds are over.

        Raises:
            InvalidRequest: `command_incomplete`.

        Cancellation: safe; it goes on.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + wait_s
        woken = asyncio.Event()
        unsubscribe = self._process.subscribers.add(woken.set, reads=True)
        try:
            await self._engine.controls.write(self._process, typed)
            # A caller that does not want to wait is answered when it runs: before that it looks like the one
            # before.
            await self._follow(woken, clock() + _TAKEN_S, until_begun=True)
            if not self._run.wants_more:
                await self._follow(woken, deadline)
            if self._run.wants_more:
                await self._take_back(woken)
        finally:
            unsubscribe()
        return await self._executed(limit_bytes)

    @property
    def _is_over(self) -> bool:
        return self._run.is_over or self._process.status.is_complete

    async def _take_back(self, woken: asyncio.Event) -> None:
        """Interrupt a command that is not finished; fish has forgotten it already.

        Raises:
            InvalidRequest: `command_incomplete`; always.
        """
        clock = asyncio.get_running_loop().time
        for _ in range(_INTERRUPTS):
            if self._shell != "fish" and not self._is_over:
                await self._engine.controls.write(self._process, _INTERRUPT)
            deadline = clock() + _INTERRUPTED_S
            while clock() < deadline and not self._is_over:
                self._run.wants_more = False  # a line editor may draw that prompt more than once
                await self._follow(woken, deadline)
        raise InvalidRequest(
            "command_incomplete", "The command is not complete: the shell waits for the rest of it."
        )

    async def _follow(self, woken: asyncio.Event, deadline: float, *, until_begun: bool = False) -> None:
        """Read on until the run is over (or has begun), wants more or waits for input.

        At most until the deadline.
        """
        clock = asyncio.get_running_loop().time
        quiet_s = _QUIET_S
        suspected = False
        while True:
            woken.clear()
            is_complete = (
                self._process.status.is_complete
            )  # asked before the read: then the read sees everything
            if self._read():
                quiet_s, suspected = _QUIET_S, False
                await asyncio.sleep(0)  # one loud command must not starve the rest
                continue
            run = self._run
            if is_complete or run.is_over or run.wants_more or (until_begun and run.has_begun):
                return
            now = clock()
            if now >= deadline:
                if run.has_begun:
                    self._waiting = await waiting_of(self._engine, self._process)
                return
            if await _woken(woken, min(deadline, now + (quiet_s if run.has_begun else _MOST_QUIET_S))):
                continue
            if run.has_begun and clock() < deadline:
                self._waiting = await waiting_of(self._engine, self._process)
                if self._waiting != "none" and suspected:
                    return
                suspected = self._waiting != "none"
                quiet_s = _QUIET_S if suspected else min(quiet_s * 2, _MOST_QUIET_S)

    def _read(self) -> bool:
        """Look at the next 256 KiB; return whether there was anything."""
        marks = None if self._run.is_over else next_marks(self._process, self._reader)
        self._run.take(marks or ())
        return marks is not None

    async def _executed(self, limit_bytes: int) -> Executed:
        process, run = self._process, self._run
        is_closed = process.status.is_complete and not run.is_over
        end = run.end if run.is_over else self._reader.position
        typed, redacted = await text_of(process, run.ranges(end), limit_bytes=limit_bytes)
        text = plain_text(typed)
        if not run.is_parsed:
            text = text.lstrip("\n")
        code = process.record.wire_exit_code if is_closed else run.exit_code
        return Executed(
            terminal_id=process.process_id,
            output=text,
            exit_code=code if run.is_over or is_closed else None,
            cursor=str(Cursor(end, 0)),
            is_complete=run.is_over or is_closed,
            waiting="none" if run.is_over or is_closed else self._waiting,
            is_closed=is_closed,
            redacted=redacted,
        )


async def _woken(woken: asyncio.Event, at: float) -> bool:
    try:
        async with asyncio.timeout_at(at):
            await woken.wait()
    except TimeoutError:
        return False
    return True


_FILES = Path(__file__).with_name("start_files")
_KINDS: Mapping[str, ShellKind] = {"bash": "bash", "zsh": "zsh", "fish": "fish"}
_START_FILES: Mapping[ShellKind, str] = {"bash": "start.bash", "zsh": "zsh", "fish": "start.fish"}
# For a shell that gets its start file as the last word, "$2".
_BEGINS: Mapping[ShellKind, str] = {
    "bash": 'exec "$1" --init-file "$2" -i',
    "fish": 'exec "$1" --interactive --init-command "source \'$2\'"',
}
# What an account may have for a shell although no person can type to it, and shells whose quoting is another
# one.
_NO_SHELLS = frozenset({"nologin", "false", "true", "git-shell", "csh", "tcsh"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """A shell that marks its prompts: the words that start it, what it needs in the environment, and the file
    it reads.

    `script` is that file's content where the file itself is out of reach.
    """

    kind: ShellKind
    argv: tuple[str, ...]
    env: Mapping[str, str | None]
    start_file: str | None
    script: str | None = None

    @property
    def name(self) -> str:
        """What people call it."""
        return os.path.basename(self.argv[-1] if self.script is not None else self.argv[0])


def find_terminal_shell(
    wanted: str | None, environment: Mapping[str, str], key: str, *, fallback: str, is_bare: bool
) -> Shell:
    """Return the shell of a new terminal: the wanted one, the user's, or the server's. Blocking.

    Args:
        wanted: A program, or None.
        environment: What the shell will start with.
        key: The key of its marks.
        fallback: For a user without a shell that can be used.
        is_bare: It reads no file of the user's: lists are in force.

    Raises:
        StartFailed: There is no such program.
    """
    path = environment.get("PATH", os.defpath)
    if wanted is not None:
        find_program(wanted, path=path, cwd="/")
        return _started(wanted, key, environment, is_bare=is_bare)
    program = environment.get("SHELL") or fallback
    if os.path.basename(program) in _NO_SHELLS or not os.access(program, os.X_OK):
        program = fallback
    # By its name where that means the same file: so the operator's lists know it.
    name = os.path.basename(program)
    with contextlib.suppress(StartFailed, OSError):
        if os.path.samefile(find_program(name, path=path, cwd="/"), program):
            program = name
    return _started(program, key, environment, is_bare=is_bare)


def distant_terminal_shell(wanted: str | None, key: str, *, is_bare: bool) -> Shell:
    """Return the shell of a new terminal in a container or on a node, of whose programs nothing is known
    here.

    It is sh, unless one is named. What it is to read at its start goes over as a script, whose path there is
    the last word.
    """
    program = wanted or "sh"
    kind = _KINDS.get(os.path.basename(program), "sh")
    env: dict[str, str | None] = {"OUTLIVE_TERMINAL_KEY": key}
    if is_bare:
        env["OUTLIVE_TERMINAL_BARE"] = "1"
    if (begins := _BEGINS.get(kind)) is None:
        # The start files of zsh are a folder, which does not go over.
        words = ("-f", "-i") if kind == "zsh" else ("-i",)
        return Shell(kind="sh", argv=(program, *words), env=prompts(key), start_file=None)
    script = (_FILES / _START_FILES[kind]).read_text()
    return Shell(kind=kind, argv=("sh", "-c", begins, "sh", program), env=env, start_file=None, script=script)


def marking(pid: int | None, note: TerminalNote) -> bytes | None:
    """Return what is typed at a prompt so that its shell reads our start file; None where that shell is not
    the terminal's kind. Blocking.
    """
    try:
        program = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")[0]
    except OSError:
        return None
    if note.shell == "sh" or _KINDS.get(os.path.basename(program.removeprefix("-"))) != note.shell:
        return None
    file = _FILES / _START_FILES[note.shell]
    if note.shell == "zsh":
        file /= ".zshrc"
    # A blank before it keeps it out of most histories. The user's own start file is not read a second time.
    words = f" export OUTLIVE_TERMINAL_KEY={note.key} OUTLIVE_TERMINAL_BARE=1; . '{_quoted(str(file))}'\r"
    return KILL_LINE + words.encode()


def _started(program: str, key: str, environment: Mapping[str, str], *, is_bare: bool) -> Shell:
    kind = _KINDS.get(os.path.basename(program), "sh")
    env: dict[str, str | None] = {"OUTLIVE_TERMINAL_KEY": key}
    if is_bare:
        env["OUTLIVE_TERMINAL_BARE"] = "1"
    if kind == "sh":
        return Shell(kind=kind, argv=(program, "-i"), env=prompts(key), start_file=None)
    file = str(_FILES / _START_FILES[kind])
    words: tuple[str, ...] = ("-i",)
    if kind == "bash":
        words = ("--init-file", file, "-i")
    elif kind == "zsh":
        env |= {"ZDOTDIR": file, "OUTLIVE_ZDOTDIR": environment.get("ZDOTDIR")}
    else:
        bare = ("--no-config",) if is_bare else ()
        words = (*bare, "--interactive", "--init-command", f"source '{_quoted(file)}'")
    return Shell(kind=kind, argv=(program, *words), env=env, start_file=file)


def _quoted(path: str) -> str:
    return path.replace("\\", "\\\\").replace("'", "\\'")  # fish, "Quotes"
