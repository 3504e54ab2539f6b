"""Server-sent events as bytes (WHATWG HTML, "Server-sent events"): one event, or thousands of lines at once.

Every payload is JSON, so `data` never contains a line break, which would end it.
"""

import msgspec

COMMENT = b": \n\n"  # shows proxies and clients that the stream is alive; readers skip it

# One encoder for all events: making one costs more than an event.
_JSON = msgspec.json.Encoder()


def encode_event(name: str, data: bytes) -> bytes:
    """Return one event; `data` is JSON on one line."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


def encode_line_events(name: str, lines: str) -> bytes:
    """Return an event {"content": line} for each line of `lines`, whose last character is a newline.

    One pass of a JSON encoder that ends each value with a newline, which occurs nowhere else in its output;
    each newline is then replaced by the text between two events (promise S4.3).
    """
    head = b'event: %b\ndata: {"content": ' % name.encode()
    encoded = _JSON.encode_lines(lines[:-1].split("\n"))
    return head + encoded[:-1].replace(b"\n", b"}\n\n" + head) + b"}\n\n"


def encode_line_event(name: str, line: str, *, redacted: int) -> bytes:
    """Return the event of one line in which `redacted` secrets are redacted."""
    return encode_event(name, b'{"content": %b%b}' % (_JSON.encode(line), _redacted(redacted)))


def encode_part_event(name: str, text: str, *, redacted: int = 0) -> bytes:
    """Return the event of a part of a line that is too long for one event.

    The line continues in the next event.
    """
    return encode_event(
        name, b'{"content": %b, "partial": true%b}' % (_JSON.encode(text), _redacted(redacted))
    )


def _redacted(count: int) -> bytes:
    return b', "redacted": %d' % count if count else b""
