"""Whose trace a command belongs to: what a caller sends as `traceparent`, and the span that a command is.

Pure.

The form is W3C Trace Context's (Recommendation of 23 November 2021, section 3.2). Nothing of a span is drawn
by chance: it follows from the process id and the caller's word, which the process's folder keeps. So a server
that was killed, and the one that comes after it, mean the same span.
"""

import re
from collections.abc import Iterable, Mapping

from outlive.core.identity import TRACE_VARIABLE, id_to_bytes
from outlive.core.values import dataclass

# The names under which programs pass it on.
TRACE_VARIABLES = frozenset({TRACE_VARIABLE, "TRACESTATE", "BAGGAGE"})
_HEADER = b"traceparent"
_SAMPLED = 1
# Version 00 has exactly these four fields; of a later version, which ours is to read as far as it goes, more
# may follow.
_FORM = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?P<more>-.*)?"
)
_INVALID_VERSION = "ff"
_SPAN_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSpan:
    """One span's place: its ids as lower-case hexadecimal digits, and its flags.

    `parent_id` is "" for the first span of a trace.
    """

    trace_id: str
    span_id: str
    parent_id: str = ""
    flags: int = _SAMPLED

    @property
    def traceparent(self) -> str:
        """What makes another span the child of this one."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}"


def read_traceparent(text: str) -> TraceSpan | None:
    """Return the span that a `traceparent` names; None for every text that is none: the trace begins anew
    then (section 3.2.2.5).
    """
    found = _FORM.fullmatch(text)
    if found is None or found["version"] == _INVALID_VERSION or (found["version"] == "00" and found["more"]):
        return None
    if not (found["trace"].strip("0") and found["span"].strip("0")):
        return None
    return TraceSpan(trace_id=found["trace"], span_id=found["span"], flags=int(found["flags"], 16) & _SAMPLED)


def valid_traceparent(text: object) -> str:
    """Return a `traceparent` in the form of version 00; "" for whatever is none, of any type."""
    span = read_traceparent(text.strip()) if isinstance(text, str) else None
    return "" if span is None else span.traceparent


def traceparent_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the valid `traceparent` among an HTTP request's headers; "" for none, and for several (section
    3.2).
    """
    found = [value for name, value in headers if name == _HEADER]
    return valid_traceparent(found[0].decode("latin-1")) if len(found) == 1 else ""


def traceparent_in(params: Mapping[str, object] | None) -> str:
    """Return the valid `traceparent` in the `_meta` of an MCP message's params (SEP-414); "" for none."""
    meta = (params or {}).get("_meta")
    return valid_traceparent(meta.get("traceparent")) if isinstance(meta, dict) else ""


def span_of(process_id: str, traceparent: str) -> TraceSpan:
    """Return the span of a command.

    Args:
        process_id: The process's id, whose bytes are the trace's id where the caller names no trace.
        traceparent: The caller's, valid, or "".
    """
    # A node runs a command under the id that it has here. Its span is a child of ours, so that the two have
    # different parents.
    import hashlib  # noqa: PLC0415 -- start-up time: OpenSSL takes 2 ms, and `logs` only reads what is kept

    digest = hashlib.blake2b(f"{process_id} {traceparent}".encode(), digest_size=_SPAN_BYTES).hexdigest()
    parent = read_traceparent(traceparent)
    if parent is None:
        return TraceSpan(trace_id=id_to_bytes(process_id).hex(), span_id=digest)
    return TraceSpan(trace_id=parent.trace_id, span_id=digest, parent_id=parent.span_id, flags=parent.flags)
