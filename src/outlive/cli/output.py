"""What the command line prints: the one door to a person's terminal.

Texts of others come here from servers, nodes, files, the environment and commands. Each line is an argument
of its own and passes `printable`: no value can add a line, and a terminal obeys nothing of it. Colours and
places on the screen are ours alone (`Painted`, `redraw`). A program's own output passes as it is, by
`deliver`. No other file of the command line writes to stdout, stderr or a terminal.

Every verb imports this, completion and the MCP relay too: it must stay free of the client.
"""

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import BinaryIO, NamedTuple, TextIO

from outlive.core.errors import OutliveError
from outlive.core.hints import hint_for
from outlive.core.printable import hidden_words, printable

_DIFF_COLOURS = {"+": "32", "-": "31", "@": "36"}  # ECMA-48: green, red, cyan
_ERASE = "\r\x1b[K"  # ECMA-48, 8.3.41: erase in line
_HOME, _CLEAR_LINE, _CLEAR_BELOW, _CLEAR_ALL = "\x1b[H", "\x1b[K", "\x1b[J", "\x1b[2J"


class Painted(NamedTuple):
    """A text in a colour, named as ECMA-48, 8.3.117 does; it has none where its stream wants none."""

    text: str
    colour: str


class CannotPrint(OSError):
    """Our output takes nothing more, for another reason than a reader that has left: its disk is full."""


Piece = str | Painted
Line = Piece | Sequence[Piece]


class Answer(NamedTuple):
    """What a verb answers: a document for --json; else what it says on stderr, and what it shows on stdout
    behind that.
    """

    document: Mapping[str, object]
    shown: Sequence[Line] = ()
    said: Sequence[Line] = ()
    code: int = 0


def show_answer(answer: Answer, *, as_json: bool) -> int:
    """Print it, and return its exit code."""
    if as_json:
        show_json(answer.document)
    else:
        say(*answer.said)
        if answer.shown:  # else a stdout that is closed is none of its business
            show(*answer.shown)
    return answer.code


def blocks(texts: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of several texts, an empty one between two."""
    return [line for number, text in enumerate(texts) for line in (*([""] if number else []), *text)]


def show(*lines: Line) -> None:
    """Print lines of the answer on stdout.

    Raises:
        BrokenPipeError: Its reader has left.
        CannotPrint: It takes nothing.
    """
    if sys.stdout is None:  # Python found it closed
        import errno  # noqa: PLC0415 -- start-up time

        raise CannotPrint(errno.EBADF, os.strerror(errno.EBADF))
    _print(sys.stdout, _lines(sys.stdout, lines))


def say(*lines: Line) -> None:
    """Print lines for people on stderr; a reader that has left stops nothing."""
    # Python has no stderr where it was started without one.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        _print(sys.stderr, _lines(sys.stderr, lines))


def show_json(document: Mapping[str, object]) -> None:
    """Print exactly one line of JSON on stdout, in ASCII: all else is escaped."""
    import json  # noqa: PLC0415 -- start-up time: help and errors print none

    show(json.dumps(document))


def show_error(error: OutliveError, *, word: str = "") -> None:
    """Print what is wrong, and what to do next, on stderr.

    `word` is what the user has called what it is about; of several that stands before the sentence.
    """
    said = f"{plain(word)}: {error.message}" if word else error.message
    say(f"outlive: {masked(said)}")
    if hint := masked(hint_of(error, word=word)):
        # Some have lines to be pasted into a file. Behind a margin none of them can pass for another message.
        say(*(f"  {line}" for line in hint.split("\n")))


def masked(text: str) -> str:
    """Return a text of an error without secrets: it may repeat any word of the command line or of a file."""
    from outlive.policy.redaction import Redactor  # noqa: PLC0415 -- start-up time: only an error needs it

    return Redactor(values=[os.fsencode(os.environ.get("MCP_API_KEY", ""))]).mask_text(text)


def say_fault(kind: type[BaseException], fault: BaseException | None, trace: TracebackType | None) -> None:
    """Print an error of outlive's own, and the places in the code that led to it.

    Python's traceback would print texts of others as they are.
    """
    if issubclass(kind, KeyboardInterrupt | SystemExit):
        return
    places = []
    while trace is not None:
        places.append(f"{trace.tb_frame.f_code.co_filename.rpartition('/outlive/')[2]}:{trace.tb_lineno}")
        trace = trace.tb_next
    text = masked(plain(str(fault)))
    say(
        f"outlive: this is a fault of outlive, please report it: {kind.__name__}: {text}",
        f"  {', '.join(places)}",
    )


def show_diff(diff: str) -> None:
    """Print a unified diff on stdout, in colours where that is a terminal that wants them (no-color.org)."""
    for line in diff.split("\n")[:-1]:
        colour = None if line.startswith(("+++", "---")) else _DIFF_COLOURS.get(line[:1])
        show(Painted(line, colour) if colour else line)


def agreed(question: str) -> bool:
    """Ask a person on stderr and stdin; only y and yes are a yes."""
    _print(sys.stderr, f"{printable(question)} [y/N] ")
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def typed_secret(question: str) -> str:
    """Return what a person types at the terminal, which does not show it."""
    import getpass  # noqa: PLC0415 -- start-up time

    return getpass.getpass(f"{printable(question)}: ")


def clear_screen() -> None:
    """Clear the terminal that stdout is."""
    _print(sys.stdout, _CLEAR_ALL)


def redraw(lines: Iterable[Line]) -> None:
    """Draw lines from the first of the screen on, and clear what is left there of others."""
    drawn = "".join(f"{_rendered(sys.stdout, line)}{_CLEAR_LINE}\n" for line in lines)
    _print(sys.stdout, f"{_HOME}{drawn}{_CLEAR_BELOW}")


def draw(line: Line, stream: TextIO | None = None) -> None:
    """Draw a line without an end in the place of the newest one of the terminal that stderr is."""
    into = stream or sys.stderr
    _print(into, _ERASE + _rendered(into, line))


def deliver(descriptor: int, data: bytes) -> None:
    """Write a program's own output as it is, all of it; waits for a slow reader.

    Raises:
        BrokenPipeError: The reader has left.
        CannotPrint: It cannot be written.
    """
    view = memoryview(data)
    with _printing():
        while view:
            try:
                view = view[os.write(descriptor, view) :]
            except BlockingIOError:  # another process made the file non-blocking
                import select  # noqa: PLC0415 -- start-up time

                poll = select.poll()
                poll.register(descriptor, select.POLLOUT)
                poll.poll()


def deliver_lines(before: Line, lines: Iterable[bytes]) -> None:
    """Write lines of a program's output as they are on stdout, each behind some words of ours."""
    head = _rendered(sys.stdout, before).encode(errors="replace")
    with _printing():
        sys.stdout.buffer.write(b"".join(b"%s%s\n" % (head, line) for line in lines))
        sys.stdout.buffer.flush()


def byte_stdout() -> BinaryIO | None:
    """Return stdout for bytes that are no text, such as an archive; None where it is a terminal."""
    return None if is_screen() else sys.stdout.buffer


def drop_stdout() -> None:
    """Let what is still to be written vanish: the reader has left, and Python would complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def is_screen() -> bool:
    """Tell whether stdout is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def is_watched() -> bool:
    """Tell whether stderr is a terminal: else a program reads it."""
    return sys.stderr is not None and sys.stderr.isatty()


def has_escapes() -> bool:
    """Tell whether a terminal of ours would obey escape sequences."""
    return os.environ.get("TERM") not in {"dumb", "unknown"}


def terminal_width() -> int | None:
    """Return how many cells a line of stdout has; None where it is no terminal, and nothing has to be cut."""
    if not is_screen():
        return None
    try:
        # 0: nothing has told the terminal its size
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except OSError:
        return None


def hint_of(error: OutliveError, *, verb: str = "", word: str = "") -> str:
    """Return what to do next as it can be copied: `outlive logs web`, not `outlive logs ID`.

    Args:
        error: Of which.
        verb: Whose it is, for the hint that names the verb itself; without one that is said in words.
        word: What the user has called the process; "" leaves `ID`.
    """
    hint = hint_for(error, "cli")
    hint = hint.replace("`outlive VERB --help`", f"`outlive {verb} --help`" if verb else "`--help`")
    return hint.replace(" ID`", f" {plain(word)}`") if word else hint


def plain(text: str, width: int = 2000) -> str:
    """Return a text as a cell of a table: printable, without tabs, cut to a width."""
    shown = printable(text).replace("\t", " ")
    return shown if len(shown) <= width else f"{shown[: width - 1]}…"


def tell_hidden(count: int, *, by: str | None) -> None:
    """Tell a person on stderr how many secrets are stars in what was shown, and that `by` shows them, if
    anything does.

    Where stderr is no terminal it says nothing: a program reads it.
    """
    if count and is_watched():
        shows = "" if by is None else f", {by} shows {'it' if count == 1 else 'them'}"
        say(f"outlive: {hidden_words(count)}{shows}")


def _lines(stream: TextIO, lines: Iterable[Line]) -> str:
    return "".join(f"{_rendered(stream, line)}\n" for line in lines)


def _rendered(stream: TextIO, line: Line) -> str:
    """Return a line as a stream shows it."""
    pieces = (line,) if isinstance(line, str | Painted) else line
    return "".join(
        printable(piece) if isinstance(piece, str) else _coloured(stream, *piece) for piece in pieces
    )


def _coloured(stream: TextIO, text: str, colour: str) -> str:
    shown = printable(text)
    return f"\x1b[{colour}m{shown}\x1b[0m" if shown and wants_colours(stream) else shown


def wants_colours(stream: TextIO) -> bool:
    """Tell whether a stream wants colours: no-color.org, then force-color.org, then if it is a terminal."""
    if os.environ.get("NO_COLOR") or not has_escapes():
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def _print(stream: TextIO, text: str) -> None:
    encoding = stream.encoding
    if not text.isascii() and encoding and encoding.lower() not in {"utf-8", "utf8"}:
        # A locale without our letters must not end the verb.
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    with _printing():
        stream.write(text)
        stream.flush()


@contextlib.contextmanager
def _printing() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CannotPrint(error.errno, error.strerror) from error
