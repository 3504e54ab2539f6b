"""The promises of spans and metrics that an OpenTelemetry collector is sent."""

from collections.abc import Mapping

SENTENCES: Mapping[str, str] = {
    "O.span": "A command is one span from its start to its end, as the conventions for CLI programs say.",
    "O.parent": (
        "The caller's span is its parent at every door that carries one; one that is invalid counts as none."
    ),
    "O.child": (
        "A command learns its span (TRACEPARENT) where the operator wants that, and never the server's own."
    ),
    "O.survives": (
        "A span survives what its command survives: after SIGKILL of the server it is sent by the "
        "next one, with the same ids."
    ),
    "O.secret": (
        "No span or metric holds an argument, a variable, output or a key, unless the operator wants "
        "redacted commands."
    ),
    "O.metrics": (
        "Starts, ends by outcome, what runs and waits, durations and bytes are sent as metrics, the "
        "same as at /metrics."
    ),
    "O.dead": (
        "A collector that is dead, slow or refuses slows nothing, costs bounded memory, and an "
        "ordered stop at most seconds."
    ),
    "O.off": (
        "Without a collector nothing of it is imported; without the packages a warning and the "
        "doctor name them."
    ),
}
