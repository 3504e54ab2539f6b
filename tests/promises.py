"""Every promise the product makes on the wire, as data: id, one sentence, and the door that keeps it.

Owns the list only. A test names what it proves with `@pytest.mark.promise("S0.6")`;
tests/house/test_promises.py holds that every promise of a built door has a test and that no test invents an id.
Ids are stable: a promise may gain sub-ids ("S0.6.utf8"), it never changes its meaning.
S0 = JSON-RPC over WebSocket, S1 = command tools, S3 = terminal bridge, S4 = MCP and process management,
C = the Python client, R = REST, M = one endpoint for raw and official MCP clients, W = words that mean the same everywhere,
T = a terminal over WebSocket, A = access.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

__all__ = ["BUILT_DOORS", "DOORS", "PROMISES", "Door", "Promise"]

Door = Literal["jsonrpc", "mcp", "rest", "bridge", "terminals", "client", "terminal", "docker", "security"]
DOORS: frozenset[str] = frozenset(get_args(Door))

# A door belongs here once it is built: from then on each of its promises needs a test.
BUILT_DOORS: frozenset[Door] = frozenset(
    {"jsonrpc", "mcp", "rest", "bridge", "terminals", "client", "terminal", "docker", "security"}
)


@dataclass(frozen=True, slots=True)
class Promise:
    """One thing a caller may rely on."""

    id: str
    sentence: str
    door: Door


_JSONRPC: Mapping[str, str] = {
    # words
    "W.process-id": "A process has one permanent id that is never used again, not even after a restart.",
    "W.cursor": "Continuing at a cursor '<stdout>.<stderr>' neither repeats nor loses a byte; '0' is the beginning.",
    "W.cursor.merged": "Merged and pty output use cursors of the form '<bytes>.0'.",
    "W.list.flat": "A list costs what it answers: what was run before and does not fit is not looked through.",
    "W.retention.clock": "A clock that is set wrong costs no history: within a boot the time since boot makes it old.",
    "W.tags": "A tag without a name is refused at every door.",
    "W.grace": "Grace is the time between TERM and KILL, 10 s on this door, and adjustable per call.",
    "W.wait": "A wait that runs out of time says 'still running'; it never ends the process as a timeout does.",
    "W.state.jsonrpc": "Each engine state has exactly one status word here: started, paused, completed or failed (queued: not its turn yet).",
    "W.lost": "An exit code that nothing can know is null and the status failed; no code is ever invented.",
    "W.loss": "Output that is lost is said wherever a process is described (`output_lost`): it is never plain success.",
    # the connection
    "S0.1": "ws://127.0.0.1:8003/ws/mcp speaks JSON-RPC 2.0 in text frames.",
    "S0.2": "The server's first message is `connected` with session_id (uuid4), version, capabilities, resumed, processes.",
    # execute
    "S0.3": "`execute` of a command line answers {status: started, pid, pgid, process_id, shell}.",
    "S0.3.pgid": "A process leads its own POSIX session and process group: pgid equals pid.",
    "S0.3.argv": "`argv` starts a program with exactly these words, without a shell.",
    "S0.3.shell": "A command line runs in bash where there is one, else in sh.",
    "S0.3.timeout": "`timeout` ends the whole tree after that many seconds.",
    "S0.3.cwd": "`cwd` is the working folder.",
    "S0.3.env": "`env` adds to and overrides the environment.",
    "S0.3.pty": "`pty` gives a terminal of `rows` by `cols`.",
    "S0.3.stdin": "stdin is empty unless 'pipe' was asked for, so a reader never hangs on it.",
    "S0.3.grace": "`grace` sets the seconds between TERM and KILL for this process.",
    "S0.3.merge": "`merge` sends stdout and stderr through one pipe, in their exact order.",
    "S0.3.chunk": "output 'chunk' sends many lines per notification, byte for byte the same text.",
    "S0.3.binary": "output 'binary' sends the bytes themselves in binary frames.",
    "S0.3.none": "output 'none' sends no output; every other notification comes.",
    "S0.3.once": "`execute` repeated with one process_id starts nothing twice and answers for the process that runs.",
    "S0.3.block": '`on_limit` "block": the process waits until `release` says what was delivered, and nothing is missing.',
    "S0.3.block-unread": "A process that waits so goes on when that is said, or when nobody reads any more.",
    "S0.3.lent": '`stdin` "lent": the command reads a descriptor that was handed to the keeper, and nobody else does.',
    "S0.3.environment": '`inherit_env` false: `env` is all there is; `words` "base64": bytes that are no UTF-8.',
    "S0.3.tags": "`tags` and `group` are kept with the process and can be listed by.",
    "S0.3.unknown-keys": "Unknown keys of `execute` are ignored.",
    "S0.4": "On the wire: response, process.started, process.output*, exactly one process.completed, then no more output.",
    "S0.4.cancel": "A cancel: response, process.cancelled, remaining output, process.completed.",
    "S0.4.closed": "Streams that descendants held open past the end are told closed by `process.closed`, once.",
    "S0.4.late": "Bytes that descendants write after process.completed are had by attach and read.",
    "S0.5": "process.started carries {status: started, pid, pgid, exit_code: null, error: null}.",
    # output
    "S0.6": "One line is one process.output {type, data with its newline, truncated}: never split, never merged.",
    "S0.6.streams": "stdout and stderr are read at the same time: neither waits for the other.",
    "S0.6.utf8": "Text is decoded incrementally as UTF-8: a character cut by a read is whole, invalid bytes are replaced.",
    "S0.6.last-line": "A last line without newline is sent when its stream ends.",
    "S0.6.prompt": "With a pty or a stdin pipe an idle partial line is sent soon, marked partial.",
    "S0.6.no-partial": "Without a pty and without a stdin pipe no partial line is ever sent early.",
    "S0.7": "A line over max_line_bytes is sent as its first part + '...' + newline, truncated: true, with its full length.",
    "S0.7.character": "The cut never falls inside a character.",
    "S0.7.setting": "max_line_bytes is 8192 unless MAX_BUFFER_SIZE or the call says otherwise; the newline does not count.",
    "S0.7.whole": "The whole of a truncated line can be read back from the log.",
    "S0.7.memory": "Of an endless line only the first part is held in memory.",
    "S0.7.chunk": "`chunk` and `binary` never truncate.",
    # the end
    "S0.8": "process.completed says completed exactly when exit_code is 0 (and no output is lost), else failed, for natural and forced ends alike.",
    "S0.8.error": "Its error is null for a natural end and one sentence for cancel, timeout, limit and lost.",
    "S0.9": "exit_code is 0 to 255 as the process returned it.",
    "S0.9.signal": "A process ended by a signal has minus the signal's number as exit_code.",
    # control
    "S0.10": "`control` PAUSE, RESUME, CANCEL (as type or action) answers paused, resumed, cancelled and notifies the same.",
    "S0.10.tree": "Control reaches the whole tree, daemonised and re-sessioned descendants included.",
    "S0.10.grace": "CANCEL is TERM, then KILL after the grace period.",
    "S0.10.paused": "A paused tree is continued on CANCEL so that TERM can act.",
    "S0.10.completed": "process.completed (failed, -15 or -9) follows a CANCEL when the tree is empty.",
    "S0.10.repeat": "Repeating a control is a success.",
    # errors and limits
    "S0.11": "Each kind of failure has its number: -32700, -32600, -32601, -32602, -32603 and -32001 to -32004.",
    "S0.11.busy": "A second execute while one runs is -32602 with data {reason: process_running, pid}.",
    "S0.11.hint": "Every error carries data.reason, a stable slug, and data.hint, what to do next.",
    "S0.12": "With ALLOWED_COMMANDS set, the first word of every simple command must be on the list, else -32002.",
    "S0.12.empty": "An empty ALLOWED_COMMANDS allows everything.",
    "S0.12.opaque": "With a list set, a line the grammar does not understand is refused with -32002.",
    "S0.12.shells": "The documentation says that a list with a shell on it allows everything.",
    "S0.13": "A session runs one process at a time.",
    "S0.13.concurrent": "`concurrent: true` lifts that.",
    "S0.13.private": "A process that is not detached is private to its session.",
    "S0.13.detached": "A detached process can be attached by every session of its principal.",
    # reconnecting
    "S0.14": "On disconnect a session's processes are cancelled after the reconnect grace (10 s, configurable).",
    "S0.14.clock": "The reconnect grace counts only while the server lives, after a crash from the end of its recovery.",
    "S0.14.resume": "Within it ?session_id=&cursor= resumes: connected {resumed: true, processes}, output from the cursor.",
    "S0.14.once": "A resumed connection sees no second process.started.",
    "S0.14.detach": "`detach: true` keeps a process running without its session.",
    "S0.15": "One session over MAX_SESSIONS (100) gets an error -32001 with id null and close code 1013.",
    # speed and patience
    "S0.16": "A line reaches the client less than 10 ms after it was written.",
    "S0.16.process": "A slow client never slows a process.",
    "S0.16.memory": "A slow client never grows the server's memory.",
    "S0.16.kept": "A client is not dropped while our send buffer is full.",
    "S0.17": "JSON Lines pass through, one object per notification, up to max_line_bytes.",
    "S0.18": "The plain example client runs unchanged: connect, execute, read until completed.",
    "S0.18.timeout": "Its pattern 'wait, then CANCEL after a timeout' works.",
    "S0.18.silence": "Its pattern 'give up after 120 s without output' works.",
    "S0.18.reconnect": "Its pattern 'reconnect and try again' works.",
    # more methods
    "S0.19.attach": "`attach` answers, then sends output from the cursor, then process.completed.",
    "S0.19.attach-ended": "`attach` works the same on a process that has already ended.",
    "S0.19.list": "`list` names the processes this session may see.",
    "S0.19.get": "`get` describes one process.",
    "S0.19.read": "`read` returns recorded output from a cursor.",
    "S0.19.write": "`write` sends text to the stdin pipe or the terminal.",
    "S0.19.write.binary": "`write` may be one binary frame: a line of JSON, then the bytes as they are.",
    "S0.19.close-stdin": "`close_stdin` ends the stdin pipe.",
    "S0.19.resize": "`resize` changes the terminal's size.",
    "S0.19.signal": "`signal` sends a named signal.",
    "S0.19.signal-group": "`signal` with `whole_group` reaches the process group that the process leads, and no other.",
    "S0.19.release": "`release` lets go of delivered output, and of no process's that did not ask for it.",
    "S0.19.close-output": "`close_output` closes a pipe for its writer, who gets SIGPIPE.",
    "S0.19.wait": "`wait` answers when the process is complete, or when its time is up.",
    "S0.19.control": "`control` accepts process_id and grace.",
    "S0.19.busy": "Requests are answered while a process streams.",
    "S0.19.events": "`events` tells what happens to the caller's processes, as it happens and in its order, filtered as asked for.",
    "S0.19.relabel": "`relabel` sets and removes tags one by one, running or ended, for good.",
    "S0.19.remove": "`remove` forgets an ended process; one that runs only with `force`, which ends it first.",
    "S0.20": "Every notification carries jsonrpc '2.0' and process_id.",
    "S0.20.end": "process.output carries `end`, the bytes of its stream delivered so far; both ends make the cursor.",
    "S0.20.cursor": "Every other notification of a process carries `cursor`.",
    "S0.20.spelling": "The spelling is `cancelled`.",
    "S0.20.gap": "A range the log no longer holds is told by process.gap {process_id, type, from, to, cursor}.",
    "S0.21": "Keep-alive is by WebSocket ping; no application message needs an answer from the client.",
    # bad input
    "S0.bad.json": "Malformed JSON is -32700 with id null, and the connection lives on.",
    "S0.bad.request": "JSON that is no request is -32600.",
    "S0.bad.batch-empty": "An empty batch is -32600.",
    "S0.bad.batch": "A batch gets one array of responses.",
    "S0.bad.command": "An empty command, a NUL, a wrong type, or command and argv together is -32602.",
    "S0.bad.cwd": "A cwd that is missing or no folder is -32603, reason cwd_missing.",
    "S0.bad.argv": "An argv program that is not found is -32603, reason not_found.",
    "S0.bad.unknown-program": "An unknown program in a shell line starts, and completes with 127.",
    "S0.bad.ambiguous": "control without process_id while several run is -32602, reason process_ambiguous.",
    "S0.bad.no-process": "control while none runs is -32003.",
    "S0.bad.binary": "A binary frame where text is due is -32600.",
    "S0.bad.oversize": "A frame over the limit closes the connection with 1009.",
    # worse input
    "S0.bad.long-command": "A command of a megabyte and more runs; length never meets the kernel's argument limit.",
    "S0.bad.ignores-term": "A tree that ignores TERM is gone after the grace period, whole.",
    "S0.bad.invalid-utf8": "Invalid UTF-8 loses nothing but itself: replaced in text, exact in the log.",
    "S0.bad.endless-line": "100 MB without a newline neither grow memory nor lose a byte of the log.",
    "S0.bad.slow-client": "A client that stops reading costs nobody else anything and drains byte-exact later.",
    "S0.bad.vanished-client": "A client that vanishes leaves its process to the reconnect grace, nothing leaks.",
    "S0.bad.hung-supervisor": "A hung supervisor is met with a clear error and a hint, and loses nothing.",
    # who is let in, from the first day
    "A.loopback": "The server listens on loopback addresses only, unless it is told otherwise.",
    "A.origin": "Every Origin but the server's own is refused with 403, on routes and upgrades.",
    "A.origin.metadata": "Fetch metadata counts as an Origin: a page that sends none is foreign, but for a link to a static page.",
    "A.token.user": "A token made with --as-user acts as its own user, as far as its scope goes.",
    "A.host": "A foreign Host is refused with 421, on routes and upgrades.",
    "A.host.forwarded": "Host and Origin are compared by name: a forwarded port works on every door.",
    "A.host.target": "The host of an absolute-form target counts as Host; where the two disagree the request is refused.",
    "A.host.public": "A public name counts with any port, HOST:PORT with that one only.",
    "A.folder": "The state folder is 0700.",
    "A.socket": "The keeper's socket refuses other uids.",
}

_SECURITY: Mapping[str, str] = {
    "S0.3.walls": "From `workspace` on no way out is open but those that docs/sandbox.md names, and common programs run.",
    "S0.3.profile": "`profile` starts the process in a sandbox profile, or refuses; the result lists what took effect.",
    "W.principal": "A caller is our own uid on this machine or a token; nothing else is let in.",
    "A.owner": "Nobody sees, reads or controls another principal's process, by whatever name it is called.",
    "A.peer": "Without a token only our own uid is let in: by the kernel's word, unforwarded, and from no web page.",
    "A.inside": "A process that we have started, or a descendant of it, is let in nowhere by its uid, nor by the keeper.",
    "A.reach_inside": "What lives in a process of ours acts, by no verb of any door, on a process with a weaker profile.",
    "A.grant": "A granted token lies in no file and no words, counts in its command only, and while that runs, for no more than its giver may.",
    "A.callbacks": "By the operator's setting each command has such a token; without it none has.",
    "A.keeper": "No command of any profile is served by the socket of a shim or of the guardian: only the lock's holder is.",
    "A.patience": "Lack of time is no refusal: a caller that cannot be told yet waits, and is asked to come again with 503.",
    "A.memory": "Memory, environment and descriptors of server and keeper are closed to other processes of their user.",
    "A.token": "A token counts until it is revoked or expires; what its holder has open ends within a second then.",
    "A.tls": "With a certificate the TCP ports speak TLS only, and ask callers for theirs where an authority is named.",
    "A.reach": "Beyond loopback the server does not start without TLS and something that a caller can show.",
    "A.audit.mac": "Entries of the audit log that its key did not seal are found, and so is a log that is gone.",
    "A.scope": "Every method, tool and route needs a scope; a caller with a narrower one is refused with scope_missing.",
    "P.rules": "deny, ask and allow are held against the words of every simple command, before every start, at every door.",
    "P.only": "With an allow list nothing that is not on it is started by us, whatever is tried.",
    "P.approval": "What is asked about starts once, after an administrator outside of our trees approved it, across crashes.",
    "P.exactly": "A yes starts exactly what was shown: it carries a digest of that, and what has waited gives its id to nothing else.",
    "S4.9.key": "With MCP_API_KEY set, every TCP caller sends it (Bearer, bare or X-API-Key), else 401.",
    "S4.10.hello": "A page of localhost without a token may initialize, ping and list tools at /mcp, and ask /health; no more.",
    "S4.10.allowed": "Pages of an origin that --allow-origin names act as the user; the start says what pages may do.",
    "S4.9.health": "GET /health answers without a key, saying only that the server lives.",
    "S4.10": "Origin must be localhost, compared as a parsed host: http://localhost.evil.com gets 403.",
}

_MCP: Mapping[str, str] = {
    "W.session": "A session, JSON-RPC or MCP, can be restored.",
    "W.wait-tools": "`wait_s` bounds a call, `timeout` ends the tree; no tool mixes them up.",
    "W.state.tools": "Each engine state has one form in the command tools: success, completed and error.",
    "W.local-time": "Times are UTC inside and local naive ISO where the command tools show them.",
    # command tools
    "S1.1": "The tools command_execute, command_execute_script, command_get_status, command_list_history are there.",
    "S1.2": "A result has exactly the 13 keys, as structuredContent with an output schema and as JSON text.",
    "S1.2.error": "isError is false for every command that ran, whatever its code.",
    "S1.2.signal": "return_code after a kill is minus the signal.",
    "S1.3": "Ids are cmd_<unix seconds>_<counter> and unique for ever, across restarts.",
    "S1.4": "A script's result adds script_path and interpreter; its command is '<interpreter> <path>'.",
    "S1.4.file": "The script file is 0700 in a private folder and lives as long as its record.",
    "S1.5": "command_get_status answers found true with the status, or found false with an error, in one schema.",
    "S1.5.running": "A running command shows success false, completed false, error null, return_code null, output so far.",
    "S1.6": "command_list_history answers {count, history: [{id, command, start_time, cwd}]}, newest first.",
    "S1.7": "A refusal is {success: false, error, command?} with isError true and one of the fixed texts.",
    "S1.8": "The settings enabled, patterns, timeout, max_output_size, allow_sudo, allow_scripts act as documented.",
    "S1.8.output": "Output over max_output_size keeps its head and tail with a visible mark.",
    "S1.9": "A timeout ends the tree, says so, keeps the output and returns within timeout + grace.",
    "S1.10": "A client without progressToken is answered after wait_s (45 s): running true, the id, no error; it goes on.",
    "S1.10.raw": "Raw callers and callers with a progressToken wait to the end or the command's timeout.",
    "S1.10.background": "`background: true` is wait_s 0.",
    # Streamable HTTP and process management
    "S4.1": "POST /mcp on 8888: initialize gives Mcp-Session-Id; later 400 without it, 404 when unknown.",
    "S4.1.initialized": "Raw callers need not send notifications/initialized.",
    "S4.1.verbs": "GET and DELETE /mcp behave as the MCP revision says.",
    "S4.2": "The four process tools exist, with their texts; isError exactly when the exit code is not 0.",
    "S4.3": "A raw background call streams process_started, stdout and stderr, and at last the result, as SSE.",
    "S4.3.result": "That result joins both streams with the STDERR mark; stderr alone is no error.",
    "S4.3.both": "Raw background calls that accept JSON and event streams get the events.",
    "S4.3.json": "Any other Accept gets plain JSON.",
    "S4.3.official": "An official client gets an answer at once without a progressToken, progress with one.",
    "S4.4": "terminate_process answers its four lines and names the signal that worked.",
    "S4.4.unknown": "An unknown pid is isError with a clear text.",
    "S4.4.own": "Only processes this server started for this principal can be terminated.",
    "S4.5": "list_processes prints the documented blocks, with structuredContent beside them.",
    "S4.5.scope": "Its scope is the principal: jobs stay findable when the host restarts.",
    "S4.6": "notifications/cancelled finds the request by MCP session and id, TERM, TERMINATION_TIMEOUT, KILL.",
    "S4.6.result": "The cancelled stream ends with a result that begins '[Process was terminated]', isError true.",
    "S4.9": "TERMINATION_TIMEOUT and MCP_REMOTE_PORT are read from the environment.",
    "S4.11": "The documented curl commands work as printed; no Accept header or */* is fine.",
    "S4.12.history": "Output history, per-command timeouts, groups and tags are part of the product.",
    "S4.12.metrics": "Metrics are part of the product.",
    "S4.12.restart": "The process registry survives restarts.",
    "S4.12.nodes": "A command runs on another outlive server as it runs here: output, input, control, exit code.",
    "S4.12.nodes.once": "Links to a node that are cut, and servers that are killed, cost no byte, no order and no exit code.",
    "S4.12.nodes.away": "A node that is away keeps nobody waiting; its processes show as unknown, and the truth when it is back.",
    "S4.12.nodes.split": "The MCP part near and the process back end far, on two ports, as the documents split them.",
    "S4.13": "The lean tools run, read, wait, send, control, list exist; mcp_tools chooses lean, documents or all.",
    "S4.13.size": "The lean schemas together take at most 8 KB of JSON.",
    "S4.13.answers": "Answers show header, head, omission mark naming the next call, tail; never a byte twice.",
    "S4.13.workspace": "Folder and exported variables of a workspace go on from its last command that exited with 0.",
    "S4.13.plain": "ANSI is stripped and progress bars are collapsed unless `raw`.",
    # one endpoint for all MCP clients
    "M.raw": "A caller without MCP-Protocol-Version is raw: extra SSE events, and 204 for notifications/cancelled.",
    "M.official.cancel": "A cancelled request of a caller with MCP-Protocol-Version gets no answer.",
    "M.official": "A caller with the header never gets the extra events, and gets 202 for notifications.",
    "M.handshake": "Handshake revisions up to 2025-11-25 are served; a dropped connection is no cancel.",
    "M.stateless": "Revision 2026-07-28 is served; closing the response stream cancels that request.",
    "M.background": "A background command never dies with its request, only by name.",
    "M.progress": "With a progressToken output arrives as coalesced progress, at least one message every 60 s.",
    "M.restart": "A client that holds an MCP session keeps working after the server restarts.",
    "M.ids": "Request ids are echoed with their type and matched as strings within their MCP session.",
    "M.conformance": "The official conformance suite passes, all that 2025-11-25 and 2026-07-28 score.",
    # the extension io.modelcontextprotocol/tasks
    "M.tasks": "A call that outlasts the server's wait becomes a task; what ends in time is answered.",
    "M.tasks.declared": "Only a request that declares the extension gets a task, and may ask for one.",
    "M.tasks.asked": "A call that says how long to wait, or gives an input, is answered as ever and is no task.",
    "M.tasks.durable": "A task that was given out is there after SIGKILL and restart, with its whole result.",
    "M.tasks.result": "A completed task carries exactly what the tool would have answered.",
    "M.tasks.status": "Every state of a process has one task status; ttlMs and pollIntervalMs follow from the record.",
    "M.tasks.cancel": "tasks/cancel ends the whole tree; a task that has ended stays as it is.",
    "M.tasks.own": "A task is its principal's; nobody else's and unknown ones are -32602.",
    "M.tasks.headers": "Mcp-Name must be the task's id, and the relay sends it.",
}

_REST: Mapping[str, str] = {
    "W.state.rest": "Each engine state has one REST word: running, completed, failed, timeout or terminated.",
    "S4.7.terminate": "POST /api/async/process/terminate_by_pid/ answers {success, pid, request_id, signal, message}.",
    "S4.7.list": "GET /api/async/processes/list/ answers {processes, count} with the documented fields.",
    "S4.9.port": "MCP_PORT, the port of this door, is read from the environment.",
    "S4.7.running": "The documented list shows what runs, with and without its last slash.",
    "S4.7.untyped": "A body without Content-Type is JSON on the documented paths.",
    "S4.7.companions": "The companion paths start, describe, end and run processes; GET /health answers.",
    "R.start": "POST /v1/processes starts a command that belongs to the principal and answers 201 with its place.",
    "R.key": "The same start with the same Idempotency-Key starts one command, across restarts too.",
    "R.list": "Lists are filtered by state, tag, group, time and text, and paged by cursor, newest first.",
    "R.change": "Tags and group can be changed, and a finished process removed, for good.",
    "R.output": "Output is read by cursor, range, tail or text, as JSON or as bytes; what is gone is told.",
    "R.large": "Searching and tailing a gigabyte takes bounded memory.",
    "R.follow": "Followers get every event once and in order, also over reconnects and restarts, by SSE and WebSocket.",
    "R.verbs": "Control, signal, stdin, resize and wait work on any process of the principal.",
    "R.problem": "Every error is application/problem+json with slug and hint; the unexpected shows a reference only.",
    "R.document": "The OpenAPI 3.1 document is true of every request and answer; its page loads nothing from outside.",
    "R.probes": "/healthz answers while the server lives, /readyz while keeper and registry answer, too.",
}

_BRIDGE: Mapping[str, str] = {
    "S3.1": "The bridge listens on port 3000, path /, on 127.0.0.1 and ::1, without Origin or headers.",
    "S3.1.token": "A token can travel as ?token=.",
    "S3.2": "We send ping, create_terminal, execute, close_terminal with unique string ids.",
    "S3.3": "pong, terminal_created, success, error are matched by id; unknown types are logged and ignored.",
    "S3.3.broken": "Broken JSON never ends the connection.",
    "S3.4": "Ping every 30 s, request timeout 30 s, answers validated, resources freed on close.",
    "S3.4.again": "After the extension dials again its terminals are known again.",
    "S3.4.once": "A command never runs twice: only what was never written is retried, else 'unknown whether it ran'.",
    "S3.5": "What the extension returns as terminalId is stored; execute is never sent without a known terminal.",
    "S3.9": "bridge.dial speaks the same messages outwards.",
}

_TERMINALS: Mapping[str, str] = {
    "S3.6": "The tools terminal_list, create, execute, read, write, resize, close work from every door.",
    "S3.6.asks": "What waits for a line or a password to be typed is told, early, and can be answered.",
    "S3.6.forms": "A terminal is read as bytes, as plain text or as the screen that a person sees, by cursor, also after its end.",
    "S3.6.owner": "A terminal is its principal's alone.",
    "S3.7": "Engine terminals are the default and capture output and exit code.",
    "S3.7.lines": "A command of any number of lines gives one output and its own exit code, whatever it prints.",
    "S3.7.outlives": "A terminal and what runs in it outlive the server and the keeper; the exit code is exact afterwards.",
    "S3.7.missing": "target vscode without an extension is a clear error that says how to connect one.",
    "S3.8": "Token, WSS, command policy, rate limit and sandbox profile apply to terminals.",
}

_CLIENT: Mapping[str, str] = {
    "C.run.signals": "TERM, INT, QUIT and HUP sent to `outlive run` or its group end its whole tree, as in a shell without job control.",
    "C.run.left": "What a command has left running is seen in every list of what runs, with its number.",
    "C.owner.rules": "A server that a client starts obeys the operator's last settings and serves the same doors; a project may only tighten them.",
    "C.owner.yield": "A server that a client has started yields to `outlive serve`; two of operators refuse each other.",
    "C.owner.stopped": "After an ordered stop only a start brings a server back; after a crash everything does.",
    "C.owner.service": "While a service owns the folder clients wait 10 s at most, then name its unit, and start no server.",
    "C.umask": "A command begins with the umask of the program that asks for it; every door takes another one, 022 means 022.",
    "C.nice": "A command begins with the niceness of the program that asks for it, as far as the keeper may give it.",
    "C.follow": "A follow by the Python client goes on across killed servers and a killed keeper, asyncio and blocking.",
    "C.follow.once": "It yields every byte once, and its cursor is always exactly behind what it has yielded.",
    "C.follow.bounded": "A consumer that rests makes the client stop reading: its memory is bounded, and nothing is dropped.",
    "C.follow.cancel": "Cancelling or leaving an iteration leaves the process alone; the same follow goes on with the next byte.",
    "C.events": "The client's events go on across killed servers, and say where some may be missing.",
    "C.once": "A start whose answer was lost is asked for again, and has started once; input is never written twice.",
    "C.start": "The client starts the server of a state folder where none runs, and that server outlives it.",
    "S4.8": "ProcessRegistry registers, finds, lists and gracefully terminates with the documented meanings.",
}

_TERMINAL: Mapping[str, str] = {
    "T.bytes": "/ws/terminal/{process_id} carries raw output in binary frames and takes both kinds of frames as input, as addon-attach does.",
    "T.names": "A process is found by its id, its command id, or its pid while it runs; one that is unknown or not the caller's is 404.",
    "T.begin": "Without a cursor a viewer begins with at most 256 KiB of the newest history, not within a character or a sequence.",
    "T.resume": "A viewer that counts bytes goes on at its cursor with nothing lost and nothing twice, also when the server was killed.",
    "T.viewers": "Any number of viewers see the same bytes, each at its own pace.",
    "T.slow": "A viewer that stops reading slows neither the process nor another viewer, and costs no memory.",
    "T.input": "Input is written in order and whole however slowly the process reads, in bounded memory.",
    "T.readonly": "What a viewer types that only looks is dropped, and the connection goes on.",
    "T.control": "outlive.terminal.v1 tells hello, cursor, gap, exited and closed, and takes resize, signal, eof and where.",
    "T.end": "A process that has ended gives the rest of its output, then how it ended, and the connection closes with 1000.",
    "T.screen": "vim, less and top look the same in xterm.js before and after a reconnect by cursor.",
    "T.hidden": "Secrets are hidden as on every door; raw=1 shows them to the scope admin.",
    "T.token": "A token can travel as the subprotocol outlive.token.<token> on this route alone; it is never echoed or logged.",
}

_DOCKER: Mapping[str, str] = {
    "S4.9.docker": "USE_DOCKER is read from the environment.",
    "S4.12.docker": "Docker mode does what local mode does, streaming included.",
}

_BY_DOOR: Mapping[Door, Mapping[str, str]] = {
    "jsonrpc": _JSONRPC,
    "mcp": _MCP,
    "rest": _REST,
    "bridge": _BRIDGE,
    "terminals": _TERMINALS,
    "client": _CLIENT,
    "terminal": _TERMINAL,
    "docker": _DOCKER,
    "security": _SECURITY,
}

PROMISES: tuple[Promise, ...] = tuple(
    Promise(promise_id, sentence, door)
    for door, sentences in _BY_DOOR.items()
    for promise_id, sentence in sentences.items()
)
