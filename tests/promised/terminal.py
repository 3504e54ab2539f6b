"""The promises of a terminal over WebSocket."""

from collections.abc import Mapping

SENTENCES: Mapping[str, str] = {
    "T.bytes": (
        "/ws/terminal/{process_id} carries raw output in binary frames and takes both kinds of "
        "frames as input, as addon-attach does."
    ),
    "T.names": (
        "A process is found by its id, its command id, or its pid while it runs; one that is unknown "
        "or not the caller's is 404."
    ),
    "T.begin": (
        "Without a cursor a viewer begins with at most 256 KiB of the newest history, not within a "
        "character or a sequence."
    ),
    "T.resume": (
        "A viewer that counts bytes goes on at its cursor with nothing lost and nothing twice, also "
        "when the server was killed."
    ),
    "T.viewers": "Any number of viewers see the same bytes, each at its own pace.",
    "T.slow": (
        "A viewer that stops reading slows neither the process nor another viewer, and costs no memory."
    ),
    "T.input": "Input is written in order and whole however slowly the process reads, in bounded memory.",
    "T.readonly": "What a viewer types that only looks is dropped, and the connection goes on.",
    "T.hold": (
        "Of the viewers that take part one holds the terminal and types; others look, may take over, "
        "and what goes away lets go."
    ),
    "T.hold.others": (
        "Viewers that say nothing of `hold` type and resize as ever, and get no message that they do "
        "not know."
    ),
    "T.ahead": (
        "A viewer that says ahead=N is sent at most N bytes that it has not acknowledged; without it "
        "nothing is waited for."
    ),
    "T.lag": (
        "A viewer that says lag=N and falls further behind goes on near the end, at a line, knows "
        "how much was left out, and how to set its modes."
    ),
    "T.control": (
        "outlive.terminal.v1 tells hello, cursor, gap, exited and closed, and takes resize, signal, "
        "eof and where."
    ),
    "T.end": (
        "A process that has ended gives the rest of its output, then how it ended, and the "
        "connection closes with 1000."
    ),
    "T.screen": "vim, less and top look the same in xterm.js before and after a reconnect by cursor.",
    "T.browser": (
        "The pages of the documents work in a browser from another port, by --allow-origin or a "
        "token, and are refused without."
    ),
    "T.hidden": "Secrets are hidden as on every door; raw=1 shows them to the scope admin.",
    "T.token": (
        "A token can travel as the subprotocol outlive.token.<token> on the routes that pages dial "
        "alone; it is never echoed or logged."
    ),
}
