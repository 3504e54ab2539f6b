"""The promises of REST."""

from collections.abc import Mapping

SENTENCES: Mapping[str, str] = {
    "W.state.rest": "Each engine state has one REST word: running, completed, failed, timeout or terminated.",
    "S4.7.terminate": (
        "POST /api/async/process/terminate_by_pid/ answers {success, pid, request_id, signal, message}."
    ),
    "S4.7.list": "GET /api/async/processes/list/ answers {processes, count} with the documented fields.",
    "S4.9.port": "MCP_PORT, the port of this door, is read from the environment.",
    "S4.7.running": "The documented list shows what runs, with and without its last slash.",
    "S4.7.front-end": (
        "A front end of the documented back end starts, lists and terminates commands by fetch."
    ),
    "S4.7.untyped": "A body without Content-Type is JSON on the documented paths.",
    "S4.7.unfinished": (
        "The documented description of a process says success null while it runs, and no failure."
    ),
    "S4.7.sync": (
        "/api/sync/execute/ answers also output, return_code and error, which is stderr where it "
        "would be null."
    ),
    "S4.7.companions": "The companion paths start, describe, end and run processes; GET /health answers.",
    "R.start": (
        "POST /v1/processes starts a command that belongs to the principal and answers 201 with its place."
    ),
    "R.key": "The same start with the same Idempotency-Key starts one command, across restarts too.",
    "R.start.key": (
        "A start with a known `key` answers 200 and the earlier process; with another command it is refused."
    ),
    "R.list": (
        "Lists are filtered by state, tag, group, project, key, short id, time and text, and paged "
        "by cursor, newest first."
    ),
    "R.change": "Tags and group can be changed, and a finished process removed, for good.",
    "R.output": "Output is read by cursor, range, tail or text, as JSON or as bytes; what is gone is told.",
    "R.files": (
        "A body becomes a file in a process's working folder, or another one, whole or not at all; "
        "what is there stays unless it is to be replaced."
    ),
    "R.machine_files": (
        "Files of a machine are listed, read by ranges and written over HTTP: a new one is there "
        "whole or not at all, under the rules of a copy."
    ),
    "R.files.bounds": (
        "An upload writes nothing that a command of its caller's could not, leads out of no folder, "
        "follows no link, and needs the scope run."
    ),
    "R.output.times": (
        "`times` says when each piece of output was written, `since` begins with what was written at "
        "a time or later."
    ),
    "R.output.lines": (
        "`line` begins at a line's number, and a match of `grep` says where it is among both streams."
    ),
    "R.output.asciicast": (
        "`format=asciicast` answers a terminal's output as a recording, with its times and sizes."
    ),
    "R.output.clean": (
        "`format=clean` answers the text without escape sequences, of what was overwritten the last."
    ),
    "R.search": (
        "GET /v1/search finds lines in all output of the caller's own processes, newest first, "
        "streamed, after redaction, until its caller leaves."
    ),
    "R.search.index": (
        "An index never hides a line: missing, cut, damaged or made by other rules it is not asked; "
        "it is 0600 and goes with its process."
    ),
    "R.search.size": (
        "10 GB of output are searched with at most 100 MB of memory and indexes of 15 % of it; what "
        "is common is found in the newest blocks, and what is rare or nowhere without reading a "
        "hundredth."
    ),
    "R.large": "Searching and tailing a gigabyte takes bounded memory.",
    "R.follow": (
        "Followers get every event once and in order, also over reconnects and restarts, by SSE and "
        "WebSocket."
    ),
    "R.verbs": "Control, signal, stdin, resize and wait work on any process of the principal.",
    "R.problem": (
        "Every error is application/problem+json with slug and hint; the unexpected shows a reference only."
    ),
    "R.document": (
        "The OpenAPI 3.1 document is true of every request and answer; its page loads nothing from outside."
    ),
    "R.probes": "/healthz answers while the server lives, /readyz while keeper and registry answer, too.",
    "R.finding": (
        "After a restart /readyz says how many of the processes that lived are found again; what is "
        "asked meanwhile waits or is marked `unknown`."
    ),
}
