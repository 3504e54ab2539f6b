"""`outlive send` and `answer`: what goes to a process's input.

`send` writes a text, keys and end-of-file. With `answer` a person answers what a process asks, at a terminal
or from a script, and no model sees it. What is typed goes from here to the process's input and nowhere else:
it is in no log and in no audit entry, and at a terminal a password is read without being shown.
"""

import os
import sys
import termios

from outlive.cli.output import Answer, deliver, say
from outlive.cli.parameters import NAME, SERVER, ServerFlags, options, place, switch, takes
from outlive.cli.processes import connected, find_process, last_lines
from outlive.client import InvalidRequest, InvalidState, Process, ProcessInfo

_LOOK_S = 3.0  # a process that has just asked is noticed within one; a busy machine may take longer
_SHOWN_LINES = 5  # the question, and what it is about
_MAX_BYTES = (
    64 * 1024
)  # of an answer from a script: the keeper holds no more for a process that does not read
_KEYS = {
    "enter": b"\r",
    "tab": b"\t",
    "escape": b"\x1b",
    "ctrl-c": b"\x03",
    "ctrl-d": b"\x04",
    "ctrl-z": b"\x1a",
}


@takes(
    NAME,
    place("text", "[TEXT]", about="What to write, a newline behind it.", is_required=False),
    options("--key", metavar="KEY", about="enter, tab, escape, ctrl-c, ctrl-d, ctrl-z.", to="keys"),
    switch("--eof", about="Close the input behind it."),
    switch("--no-newline", "-n", about="No newline behind the text."),
    *SERVER,
)
def send(
    *,
    name: str,
    text: str | None,
    keys: list[str],
    eof: bool,
    no_newline: bool,
    server: ServerFlags,
) -> Answer:
    """Write to a process's input: the text, then keys, then end-of-file.

    Raises:
        InvalidRequest: There is nothing to send, or a key has no such name.
    """
    with connected(server) as client:
        unknown = [key for key in keys if key.lower() not in _KEYS]
        if unknown:
            hint = f"There are {', '.join(_KEYS)}."
            raise InvalidRequest("invalid_params", f"{unknown[0]!r} is no key.", hint=hint)
        data = b"" if text is None else os.fsencode(text) + (b"" if no_newline else b"\n")
        data += b"".join(_KEYS[key.lower()] for key in keys)
        if not data and not eof:
            raise InvalidRequest("invalid_params", "There is nothing to send: pass a text, --key or --eof.")
        process = find_process(client, name)
        if data:
            process.write(data)
        if eof:
            process.close_stdin()
    return Answer({"process_id": process.process_id, "written": len(data), "eof": eof})


@takes(
    NAME,
    switch(
        "--stdin",
        about="Take the answer from stdin, up to its end; a last newline is not doubled.",
        to="from_stdin",
    ),
    switch("--force", about="Send it also where the process is not known to wait for anything."),
    *SERVER,
)
def answer(*, name: str, from_stdin: bool, force: bool, server: ServerFlags) -> Answer:
    """Show what is asked on stderr, take the answer, and write it with a newline to the process's input.

    Raises:
        InvalidRequest: The process does not wait for input, or there is no terminal to ask at, and no
        --stdin: nothing was sent.
        InvalidState: It has ended, or has no input.
    """
    with connected(server) as client:
        process = find_process(client, name)
        info = process.wait(0 if force else _LOOK_S, until="input")
        _check(info, force=force)
        if not from_stdin:
            _show_question(process)
        text = _from_stdin() if from_stdin else _typed(is_secret=info.waiting == "password")
        process.write(text + b"\n")
    return Answer({"process_id": process.process_id, "waiting": info.waiting})


def _check(info: ProcessInfo, *, force: bool) -> None:
    """Let a process pass that waits for an answer, or that may get one all the same.

    Raises:
        InvalidState: It has ended.
        InvalidRequest: It does not wait.
    """
    if info.ended_at is not None:
        raise InvalidState("process_ended", "The process has ended: there is nothing to answer.")
    if info.waiting is None and not force:
        text = "The process does not wait for input."
        raise InvalidRequest(
            "invalid_params", text, hint="`outlive logs` shows what it does; --force sends an answer anyway."
        )


def _show_question(process: Process) -> None:
    for line in last_lines(process)[-_SHOWN_LINES:]:
        say(line)


def _from_stdin() -> bytes:
    text = sys.stdin.buffer.read(_MAX_BYTES + 1)
    if len(text) > _MAX_BYTES:
        raise InvalidRequest(
            "invalid_params", f"An answer has at most {_MAX_BYTES} bytes.", hint="`outlive send` takes more."
        )
    return text.removesuffix(b"\n")


def _typed(*, is_secret: bool) -> bytes:
    """Return a line that a person types at our terminal.

    Raises:
        InvalidRequest: There is none.
    """
    try:
        fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        hint = "Pipe the answer in with --stdin, or call this at a terminal."
        raise InvalidRequest("invalid_params", "There is no terminal to ask at.", hint=hint) from None
    try:
        return _read_line(fd, is_secret=is_secret)
    finally:
        os.close(fd)


def _read_line(fd: int, *, is_secret: bool) -> bytes:
    """Read one line from a terminal, without its newline; a secret one is not shown.

    Raises:
        InvalidRequest: The end of input was typed (Ctrl-D): nothing is sent.
    """
    before = termios.tcgetattr(fd)
    if is_secret:
        silent = before.copy()
        silent[3] &= ~termios.ECHO
        # What was typed ahead, visibly, is not taken for the secret. We ask only then: a quick answer to our
        # question would be shown, and thrown away with the rest.
        termios.tcsetattr(fd, termios.TCSAFLUSH, silent)
    try:
        deliver(fd, b"Password: " if is_secret else b"Answer: ")
        line = os.read(fd, _MAX_BYTES)
    finally:
        if is_secret:
            termios.tcsetattr(fd, termios.TCSADRAIN, before)
            deliver(fd, b"\n")
    if not line:
        raise InvalidRequest("invalid_params", "Nothing was typed, and nothing was sent.")
    return line.removesuffix(b"\n")
