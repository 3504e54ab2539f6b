r"""The messages that carry output: one by one (obviously right), and many lines at once (fast): `LineFramer`.

Each frame has `process_id` and `end`, the bytes of its stream that were delivered so far (promises S0.6,
S0.7, S0.20).

`LineFramer.frames` is the one hot function of the product. It returns exactly the bytes that `line_frame`
would return line by line, for about a twentieth of the price (about 0.16 us a line); a property test compares
the two. It can be replaced: no other code depends on how it works.

How: the whole chunk goes through one `orjson.dumps`, every newline replaced by a mark that JSON does not
escape, and is split at the mark. The `end` integers go through one `orjson.dumps` of a list, split at the
comma. The frame header comes from a table by length, together with everything constant around it. A frame is
then four pieces
    }} + header + {"jsonrpc":...,"data":"  |  <text>  |  \n","truncated":false,"process_id":"...","end":  |  <end>
(the closing braces of a frame are part of the next one's header), laid out by slice assignment and joined
once.
"""  # noqa: E501 -- lines of a table, or of another language

import codecs
from bisect import bisect_left
from itertools import accumulate

import orjson

from outlive.core.identity import ID_LENGTH
from outlive.operations.answers import StreamName
from outlive.protocols.websocket_frames import TEXT, binary_frame, frame_header, text_frame

STREAM_NAMES: tuple[StreamName, StreamName] = ("stdout", "stderr")

MAX_LINE_BYTES = 16 * 1024 * 1024  # a line is one message in memory; a longer one can be read from the log
# Behind the first part of a line that is too long (promise S0.7).
_CUT_MARK = "...\n"


def output_message(
    process_id: str,
    stream: int,
    *,
    data: str | None,
    end: int,
    is_truncated: bool = False,
    is_partial: bool = False,
    length: int | None = None,
    redacted: int = 0,
) -> bytes:
    """Return one `process.output` notification.

    Args:
        process_id: The process that wrote it.
        stream: 0 stdout, 1 stderr.
        data: The text; None leaves the member out (the head of a binary frame).
        end: Offset in the stream behind the bytes that this message stands for.
        is_truncated: The data is the first part of a longer line of `length` bytes.
        is_partial: A partial line of an idle process: its rest follows in a later message.
        length: Bytes of the whole line without its newline, for a truncated one.
        redacted: How many secrets in it are redacted; without any the member is left out.
    """
    params: dict[str, object] = {"type": STREAM_NAMES[stream]}
    if data is not None:
        params["data"] = data
    params["truncated"] = is_truncated
    if is_partial:
        params["partial"] = True
    if length is not None:
        params["length"] = length
    if is_truncated:
        params["hint"] = _how_to_get_whole(length or 0)
    if redacted:
        params["redacted"] = redacted
    # The order of members is part of what `LineFramer` imitates: a change here has to be made there, too.
    params["process_id"] = process_id
    params["end"] = end  # last: the fast path renders the integers of many lines at once
    return orjson.dumps({"jsonrpc": "2.0", "method": "process.output", "params": params})


def _how_to_get_whole(length: int) -> str:
    """Say what a client has to set: a cut line of JSON is none."""
    if length > MAX_LINE_BYTES:
        return f'No line of more than {MAX_LINE_BYTES} bytes is sent whole: take output "chunk".'
    return f"To get it whole set max_line_bytes (MAX_BUFFER_SIZE of the server) to {length} or more."


def line_frame(
    process_id: str, stream: int, line: bytes, *, end: int, is_partial: bool = False, redacted: int = 0
) -> bytes:
    """Return the frame of one line, unchanged (with its newline, if it has one) except that invalid UTF-8 is
    replaced.
    """
    text = line.decode("utf-8", "replace")
    return text_frame(
        output_message(process_id, stream, data=text, end=end, is_partial=is_partial, redacted=redacted)
    )


def cut_line(first: bytes, max_line_bytes: int) -> str:
    """Return the visible part of a line that is too long: its first part, cut at the end of a character, and
    "...".
    """
    return decode_whole(first[:max_line_bytes])[0] + _CUT_MARK


def shortened_line_frame(
    process_id: str,
    stream: int,
    first: bytes,
    *,
    max_line_bytes: int,
    length: int,
    end: int,
    is_partial: bool = False,
    redacted: int = 0,
) -> bytes:
    """Return the frame of a line of `length` bytes; `first` holds at least its first `max_line_bytes`."""
    message = output_message(
        process_id,
        stream,
        data=cut_line(first, max_line_bytes),
        end=end,
        is_truncated=True,
        is_partial=is_partial,
        length=length,
        redacted=redacted,
    )
    return text_frame(message)


def decode_whole(data: bytes) -> tuple[str, int]:
    """Return the text of `data` without an unfinished last character, and how many bytes that text stands
    for.

    Invalid bytes become U+FFFD exactly where decoding the whole stream would put them: an unfinished sequence
    is left out only as long as more bytes could still complete it.
    """
    return codecs.utf_8_decode(data, "replace")  # not final: an unfinished character is not consumed


def text_output_frame(process_id: str, stream: int, text: str, *, end: int, redacted: int = 0) -> bytes:
    """Return the frame of a piece of output of any length (`output` "chunk")."""
    return text_frame(output_message(process_id, stream, data=text, end=end, redacted=redacted))


def binary_output_frame(process_id: str, stream: int, data: bytes, *, end: int, redacted: int = 0) -> bytes:
    r"""Return the binary frame of a piece of output (`output` "binary").

    Layout: the JSON of a `process.output` notification without its `data` member, one newline (0x0A, which
    JSON text in this form never contains), then the raw bytes up to the end of the frame.
    """
    return binary_frame(
        output_message(process_id, stream, data=None, end=end, redacted=redacted) + b"\n" + data
    )


MAX_LINES = 4096  # of one call: its lists stay small, and the event loop gets its turn

_CLOSING = b"}}"
_MARK = b"\x7f"  # one byte, never escaped by JSON, rare in text
_MARK_BYTE = _MARK[0]  # a number is found more quickly than a string
_SECOND_MARK = "\uffff".encode()  # a noncharacter, for chunks that contain the first mark
_QUOTES = b'""'
_WITH_NEWLINE = (1).__add__
_MAX_TABLE = 2048  # lengths kept in a table: some 400 KB at most, computed again in microseconds


class _HeadTable(dict[int, bytes]):
    """By length of the escaped text: the previous frame's closing braces, the frame header, and what precedes
    the text.
    """

    __slots__ = ("_extra", "_prefix")

    def __init__(self, stream: int, digits: int) -> None:
        name = STREAM_NAMES[stream]
        prefix = f'{{"jsonrpc":"2.0","method":"process.output","params":{{"type":"{name}","data":"'
        self._prefix = prefix.encode()
        middle = len(_middle("0" * ID_LENGTH))
        self._extra = len(prefix) + middle + digits + len(_CLOSING)

    def __missing__(self, length: int) -> bytes:
        head = _CLOSING + frame_header(TEXT, length + self._extra) + self._prefix
        if len(self) < _MAX_TABLE:
            self[length] = head
        return head


class FrameHeads:
    """The header tables of both streams, one object for the whole server: they do not depend on the
    process.
    """

    __slots__ = ("_tables",)

    def __init__(self) -> None:
        self._tables: dict[tuple[int, int], _HeadTable] = {}

    def table(self, stream: int, digits: int) -> dict[int, bytes]:
        """Return the table for a stream and for `end` integers of that many digits."""
        table = self._tables.get((stream, digits))
        if table is None:
            table = self._tables[stream, digits] = _HeadTable(stream, digits)
        return table


class LineFramer:
    """Makes the frames of one stream of one process."""

    __slots__ = ("_bound", "_heads", "_least", "_middle", "_process_id", "_stream", "_table")

    def __init__(self, heads: FrameHeads, process_id: str, stream: int) -> None:
        """Share `heads`; `process_id` has the permanent form of `core.identity`."""
        self._heads = heads
        self._process_id = process_id
        self._stream = stream
        self._middle = _middle(process_id)
        self._take_table(1)

    def frames(self, chunk: bytes, start: int, *, max_line_bytes: int) -> tuple[bytes, int] | None:
        r"""Return one text frame for each of the first `MAX_LINES` lines of `chunk`, and the offset behind
        them.

        None when one of these lines is longer than `max_line_bytes`.

        Args:
            chunk: Whole lines, each with its newline; not empty.
            start: Offset of the chunk in its stream.
            max_line_bytes: The caller sends longer lines in another way.
        """
        if _MARK_BYTE not in chunk:
            mark = _MARK
        elif _SECOND_MARK not in chunk:
            mark = _SECOND_MARK
        else:
            # Both marks occur, in binary output mostly: one by one is slow, and right.
            return self._plain_frames(chunk, start, max_line_bytes)
        escaped = orjson.dumps(chunk.replace(b"\n", mark).decode("utf-8", "replace"))
        texts = escaped[1 : -1 - len(mark)].split(mark, MAX_LINES)
        if len(texts) > MAX_LINES:
            del texts[MAX_LINES:]  # the rest, which the split has left in one piece
        lengths = list(map(len, texts))
        # Escaping and replacing never shorten a text: an equal total means that every line has kept its
        # length.
        is_plain = len(escaped) == len(chunk) + len(_QUOTES)
        sizes = lengths if is_plain else list(map(len, _contents(chunk)))
        if len(chunk) > max_line_bytes and max(sizes) > max_line_bytes:
            return None
        # Offsets count the bytes of the log, so each line's size before escaping, with its newline.
        ends = list(accumulate(map(_WITH_NEWLINE, sizes), initial=start))
        del ends[0]
        return self._join(texts, lengths, ends), ends[-1]

    def _join(self, texts: list[bytes], lengths: list[int], ends: list[int]) -> bytes:
        if ends[0] < self._least or ends[-1] >= self._bound:
            self._take_table(len(str(ends[0])))
            if ends[-1] >= self._bound:
                # Once for each power of ten: from there on `end` has one more digit, and headers another
                # length.
                border = bisect_left(ends, self._bound)
                return self._join(texts[:border], lengths[:border], ends[:border]) + self._join(
                    texts[border:], lengths[border:], ends[border:]
                )
        # Four pieces a frame; the constant third one is there already, the others are put into their places.
        pieces = [self._middle] * (4 * len(texts))
        pieces[0::4] = map(self._table.__getitem__, lengths)
        pieces[1::4] = texts
        pieces[3::4] = orjson.dumps(ends)[1:-1].split(b",")
        pieces[0] = pieces[0][len(_CLOSING) :]
        pieces.append(_CLOSING)
        return b"".join(pieces)

    def _take_table(self, digits: int) -> None:
        """Use from now on the headers of frames whose `end` has that many digits."""
        self._table = self._heads.table(self._stream, digits)
        self._least, self._bound = 10 ** (digits - 1), 10**digits

    def _plain_frames(self, chunk: bytes, start: int, max_line_bytes: int) -> tuple[bytes, int] | None:
        frames: list[bytes] = []
        end = start
        for content in _contents(chunk):
            if len(content) > max_line_bytes:
                return None
            end += len(content) + 1
            frames.append(line_frame(self._process_id, self._stream, content + b"\n", end=end))
        return b"".join(frames), end


def _contents(chunk: bytes) -> list[bytes]:
    # Not bytes.splitlines, which takes a carriage return for the end of a line, too.
    return chunk[:-1].split(b"\n", MAX_LINES)[:MAX_LINES]


def _middle(process_id: str) -> bytes:
    return f'\\n","truncated":false,"process_id":"{process_id}","end":'.encode()
