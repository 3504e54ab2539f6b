"""The promises of the VS Code terminal bridge."""

from collections.abc import Mapping

SENTENCES: Mapping[str, str] = {
    "S3.1": "The bridge listens on port 3000, path /, on 127.0.0.1 and ::1, without Origin or headers.",
    "S3.1.port": (
        "Only the bridge's port and the Unix socket serve it; at other ports / is refused with a hint."
    ),
    "S3.1.token": "A token can travel as ?token=.",
    "S3.2": "We send ping, create_terminal, execute, close_terminal with unique string ids.",
    "S3.3": "pong, terminal_created, success, error are matched by id; unknown types are logged and ignored.",
    "S3.3.broken": "Broken JSON never ends the connection.",
    "S3.4": "Ping every 30 s, request timeout 30 s, answers validated, resources freed on close.",
    "S3.4.again": "After the extension dials again its terminals are known again.",
    "S3.4.once": (
        "A command never runs twice: only what was never written is retried, else 'unknown whether it ran'."
    ),
    "S3.5": (
        "What the extension returns as terminalId is stored; execute is never sent without a known terminal."
    ),
    "S3.9": "bridge.dial speaks the same messages outwards.",
}
