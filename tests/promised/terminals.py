"""The promises of terminals that editors share."""

from collections.abc import Mapping

SENTENCES: Mapping[str, str] = {
    "S3.6": "The tools terminal_list, create, execute, read, write, resize, close work from every door.",
    "S3.6.active": (
        "execute without a terminal takes the one its caller used last, else the newest, else a new one."
    ),
    "S3.6.cli": (
        "outlive terminal opens, uses, reads, attaches to and closes terminals, by id, end of id or name."
    ),
    "S3.6.asks": "What waits for a line or a password to be typed is told, early, and can be answered.",
    "S3.6.forms": (
        "A terminal is read as bytes, as plain text or as the screen that a person sees, by cursor, "
        "also after its end."
    ),
    "S3.6.owner": "A terminal is its principal's alone.",
    "S3.7": "Engine terminals are the default and capture output and exit code.",
    "S3.7.lines": (
        "A command of any number of lines gives one output and its own exit code, whatever it prints."
    ),
    "S3.7.outlives": (
        "A terminal and what runs in it outlive the server and the keeper; the exit code is exact afterwards."
    ),
    "S3.7.missing": "target vscode without an extension is a clear error that says how to connect one.",
    "S3.8": "Token, WSS, command policy, rate limit and sandbox profile apply to terminals.",
}
