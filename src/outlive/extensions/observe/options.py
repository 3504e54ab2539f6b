"""Options about notices and telemetry: where they go, and what they say (`ObserveOptions`).

OpenTelemetry's own variables are names of these options, so that what an operator has set counts for servers
that clients start, too.

Only the operator names a webhook or a program: neither callers nor a project's file can make the server send
requests anywhere, or run anything as itself.
"""

import shlex
from urllib.parse import urlsplit

from outlive.config.options import (
    option,
    parse_seconds_bound,
    parse_size_bound,
    parse_switch,
    parse_text,
    parse_words,
)
from outlive.core.command import NOTIFY_EVENTS
from outlive.core.values import dataclass


def parse_webhook(text: str) -> str:
    """Return an http or https URL, "" for none."""
    word = text.strip()
    if not word:
        return ""
    parts = urlsplit(word)
    try:
        port = parts.port
    except ValueError:
        port = 0
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0 or parts.fragment:
        raise ValueError("a URL is needed: https://host/path or http://host:port/path")
    if "@" in parts.netloc:
        raise ValueError("a URL holds no user and no password: a token belongs into its path or query")
    if not word.isascii() or any(mark <= " " for mark in word):
        raise ValueError("a URL is plain ASCII without blanks: encode the rest (%20, xn--…)")
    return word


def parse_program(text: str) -> tuple[str, ...]:
    """Return a program and its arguments, without any for none."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise ValueError(f"its words cannot be told apart: {error}") from None
    if words and not (words[0].startswith("/") or (words[0] and "/" not in words[0])):
        raise ValueError("a program is named by its absolute path, or by a name that PATH leads to")
    if "\0" in text:
        raise ValueError("a word cannot hold a NUL character")
    return words


def parse_events(text: str) -> tuple[str, ...]:
    """Return the names of events between commas."""
    events = parse_words(text)
    for event in events:
        if event not in NOTIFY_EVENTS:
            raise ValueError(f"{event[:40]!r} is none of {', '.join(NOTIFY_EVENTS)}")
    return events


@dataclass(frozen=True, kw_only=True)
class ObserveOptions:
    """Notices of processes that ask for them (docs/notify.md), and OpenTelemetry (docs/telemetry.md)."""

    notify_webhook: str = option(
        "url",
        parse_webhook,
        "",
        (
            "URL that notices are POSTed to as JSON. Other users can read flags: a URL with a token belongs "
            "into the environment."
        ),
        flag="--notify-webhook",
        example="https://hooks.example.org/outlive",
    )
    notify_command: tuple[str, ...] = option(
        "program",
        parse_program,
        "",
        "Program that is run for each notice, with the notice as JSON on its stdin and the title as its last "
        "argument. Words are split as a shell splits them; no shell runs.",
        flag="--notify-command",
        example="/usr/local/bin/on-notice",
    )
    notify_on: tuple[str, ...] = option(
        "words",
        parse_events,
        ",".join(NOTIFY_EVENTS),
        (
            "What is notified of, for processes that ask for it: end, failure, question, silence, separated "
            "by commas."
        ),
        flag="--notify-on",
        example="failure,question",
    )
    # Off: a server that waits for its next request is silent, too. Only the operator knows what is usual
    # here.
    notify_silence_s: float | None = option(
        "time",
        parse_seconds_bound,
        "off",
        (
            "Notify, for processes that ask for it, when one has written nothing for so long; once until it "
            "writes again. off: never."
        ),
        unit="seconds",
        flag="--notify-silence",
        example="10m",
    )
    notify_disk_bytes: int | None = option(
        "size",
        parse_size_bound,
        "off",
        (
            "Notify when less than this is free on the state folder's file system; once until there is more "
            "again. off: never."
        ),
        unit="bytes",
        flag="--notify-disk",
        example="2G",
    )
    # A prompt or a last line may say what no chat channel should keep.
    notify_last_line: bool = option(
        "switch",
        parse_switch,
        "off",
        "Notices show the last line of output, with secrets redacted.",
        flag="--notify-last-line",
        example="on",
    )
    # No parser refuses an address: the variables may be set for other programs, and must never keep a server
    # from starting.
    otlp_endpoint: str = option(
        "endpoint",
        parse_text,
        "",
        (
            "URL of an OpenTelemetry collector that spans and metrics of commands are sent to (OTLP over "
            "HTTP; needs outlive[otel])."
        ),
        flag="--otlp-endpoint",
        env=("OTEL_EXPORTER_OTLP_ENDPOINT",),
        example="http://127.0.0.1:4318",
    )
    otlp_traces_endpoint: str = option(
        "endpoint",
        parse_text,
        "",
        "Whole URL for spans alone, where it is another one.",
        flag="--otlp-traces-endpoint",
        env=("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",),
        example="http://127.0.0.1:4318/v1/traces",
    )
    otlp_metrics_endpoint: str = option(
        "endpoint",
        parse_text,
        "",
        "Whole URL for metrics alone, where it is another one.",
        flag="--otlp-metrics-endpoint",
        env=("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",),
        example="http://127.0.0.1:4318/v1/metrics",
    )
    # A command's words may hold secrets that no pattern knows.
    otlp_command_lines: bool = option(
        "switch",
        parse_switch,
        "off",
        (
            "Spans have the whole command as lists show it, with secrets redacted; without this its first "
            "word alone."
        ),
        flag="--otlp-command-lines",
        example="on",
    )
    # The environment of a command is its caller's: what is added to it is asked for.
    pass_traceparent: bool = option(
        "switch",
        parse_switch,
        "off",
        (
            "Commands get TRACEPARENT in their environment: spans of their own become children of the "
            "command's span."
        ),
        flag="--pass-traceparent",
        example="on",
    )
