"""The promises of notices, and of questions that are noticed without a client that asks."""

from collections.abc import Mapping

SENTENCES: Mapping[str, str] = {
    "N.noticed": (
        "A watched process that waits for input or a password is noticed within seconds, and one "
        "that merely looks at its input is not."
    ),
    "N.prompt": (
        "A shell or another interpreter at its own prompt waits, marked so, and is no question; "
        "whatever asks in it is one."
    ),
    "N.end": (
        "A process that asks for it has its end or failure notified, once, with command, state, exit "
        "code and no environment."
    ),
    "N.question": (
        "Its questions are notified, and its state says that a person was asked until it was answered."
    ),
    "N.last-line": (
        "A notice shows output only where the operator wants its last line, with secrets redacted."
    ),
    "N.survives": "What is owed survives SIGKILL of the server: it is notified at least once, under one id.",
    "N.operator": (
        "Only the operator says where notices go; a caller that names a URL or a program is refused."
    ),
    "N.hostile": (
        "A dead, slow, endless or redirecting endpoint costs bounded time and memory, is not "
        "followed, and slows no process."
    ),
    "N.silence": (
        "A process that asks for it and writes nothing for the operator's time has that notified, "
        "once until it writes again, also across SIGKILL of the server."
    ),
    "N.disk": (
        "A state folder whose disk has less room than the operator wants is notified of, once until "
        "there is room again, also across SIGKILL of the server."
    ),
    "N.command": (
        "The operator's program gets a notice as JSON on its input and the title as its last "
        "argument; exit code 0 within the deadline is delivered, all else is tried again; nothing of "
        "it outlives its end, its deadline or the server."
    ),
    "N.answer": (
        "What a person types at `outlive answer` is not shown where the process shows none, and is "
        "in no log, audit entry or output."
    ),
    "N.wait": (
        "`outlive wait` returns at an end, a text, a port, a question or silence, a line for each, "
        "with an exit code that says which."
    ),
}
