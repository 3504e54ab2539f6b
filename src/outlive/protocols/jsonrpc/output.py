"""The messages that carry output, encoded the plain way: one by one, obviously right.

`lines` builds the same bytes for many lines at once; a property test compares the two. Every frame carries
`process_id` and `end`, the bytes of its stream delivered so far (promises S0.6, S0.7, S0.20).
"""

import codecs
from typing import Literal

import orjson

from outlive.protocols.websocket_frames import binary_frame, text_frame

_StreamName = Literal["stdout", "stderr"]
STREAM_NAMES: tuple[_StreamName, _StreamName] = ("stdout", "stderr")

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
        process_id: Whose output.
        stream: 0 stdout, 1 stderr.
        data: The text; None leaves the member out (the head of a binary frame).
        end: Offset in the stream behind the bytes that this message stands for.
        is_truncated: The data is the first part of a longer line of `length` bytes.
        is_partial: An idle partial line: its rest follows in a later message.
        length: Bytes of the whole line without its newline, for a truncated one.
        redacted: How many secrets are stars in it; left out where there are none.
    """
    params: dict[str, object] = {"type": STREAM_NAMES[stream]}
    if data is not None:
        params["data"] = data
    params["truncated"] = is_truncated
    if is_partial:
        params["partial"] = True
    if length is not None:
        params["length"] = length
    if redacted:
        params["redacted"] = redacted
    params["process_id"] = process_id
    params["end"] = end  # last: the fast path renders the integers of many lines at once
    return orjson.dumps({"jsonrpc": "2.0", "method": "process.output", "params": params})


def line_frame(
    process_id: str, stream: int, line: bytes, *, end: int, is_partial: bool = False, redacted: int = 0
) -> bytes:
    """Return the frame of one line as it is (with its newline, if it has one), invalid UTF-8 replaced."""
    text = line.decode("utf-8", "replace")
    return text_frame(
        output_message(process_id, stream, data=text, end=end, is_partial=is_partial, redacted=redacted)
    )


def cut_line(first: bytes, max_line_bytes: int) -> str:
    """Return what is shown of a line that is too long: its first part, cut at a character's end, and "..."."""
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
    """Return the frame of a line of `length` bytes of which `first` holds at least the first `max_line_bytes`."""
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
    """Return the text of `data` without an unfinished last character, and how many bytes that text stands for.

    Invalid bytes become U+FFFD exactly where decoding the whole stream would put them: an unfinished sequence is
    left out only while more bytes could still complete it.
    """
    return codecs.utf_8_decode(data, "replace")  # not final: an unfinished character is not consumed


def text_output_frame(process_id: str, stream: int, text: str, *, end: int, redacted: int = 0) -> bytes:
    """Return the frame of a piece of output of any length (`output` "chunk")."""
    return text_frame(output_message(process_id, stream, data=text, end=end, redacted=redacted))


def binary_output_frame(process_id: str, stream: int, data: bytes, *, end: int, redacted: int = 0) -> bytes:
    r"""Return the binary frame of a piece of output (`output` "binary").

    Layout: the JSON of a `process.output` notification without its `data` member, one newline (0x0A, which JSON
    text in this form never contains), then the raw bytes up to the end of the frame.
    """
    return binary_frame(
        output_message(process_id, stream, data=None, end=end, redacted=redacted) + b"\n" + data
    )
