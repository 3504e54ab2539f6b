"""The promises of JSON-RPC over WebSocket."""

from collections.abc import Mapping

SENTENCES: Mapping[str, str] = {
    # words
    "W.process-id": "A process has one permanent id that is never used again, not even after a restart.",
    "W.names": (
        "A word for a process means the same at every door: id, name, p7, command id, end of an id, "
        "pid, @last; one that could mean two means none."
    ),
    "W.names.unique": (
        "No two processes that live in a project have one name, across starts at once and killed "
        "servers; `replace` ends the other one first."
    ),
    "W.names.grammar": (
        "A name begins with a letter, and nothing that an id looks like is one (`name_invalid`)."
    ),
    "W.names.pid": (
        "A pid stands for a living process of the caller's alone, whose start time is the recorded one."
    ),
    "W.names.approval": (
        "Approving and denying take the server's id alone, with the digest: no name, no @last."
    ),
    "W.cursor": (
        "Continuing at a cursor '<stdout>.<stderr>' neither repeats nor loses a byte; '0' is the beginning."
    ),
    "W.cursor.merged": "Merged and pty output use cursors of the form '<bytes>.0'.",
    "W.list.flat": (
        "A list costs what it answers: what was run before and does not fit is not looked through."
    ),
    "W.list.killed": "A list after SIGKILL of the server has every process that a start was answered for.",
    "W.retention.clock": (
        "A clock that is set wrong costs no history and moves no end of an approval's or a grant's time: "
        "within a boot the time since boot makes them old."
    ),
    "W.tags": "A tag without a name is refused at every door.",
    "W.grace": "Grace is the time between TERM and KILL, 10 s on this door, and adjustable per call.",
    "W.wait": (
        "A wait that runs out of time says 'still running'; it never ends the process as a timeout does."
    ),
    "W.state.jsonrpc": (
        "Each engine state has exactly one status word here: started, paused, completed or failed "
        "(queued: not its turn yet)."
    ),
    "W.lost": "An exit code that nothing can know is null and the status failed; no code is ever invented.",
    "F.degraded": (
        "A disk that takes nothing ends and hides nothing: doors say `degraded`, and all is whole "
        "again when it takes writes."
    ),
    "F.power": (
        "After a power cut, whatever it has left of the files, a server starts: what ran is lost, nothing is "
        "started a second time, and what is new runs."
    ),
    "F.control": (
        "A cancel, a kill, a pause and a timeout reach a command, whatever has died beside it before."
    ),
    "W.loss": (
        "Output that is lost is said wherever a process is described (`output_lost`): it is never "
        "plain success."
    ),
    # the connection
    "S0.1": "ws://127.0.0.1:8003/ws/mcp speaks JSON-RPC 2.0 in text frames.",
    "S0.2": (
        "The server's first message is `connected` with session_id (uuid4), version, capabilities, "
        "resumed, processes."
    ),
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
    "S0.3.once": (
        "`execute` repeated with one process_id starts nothing twice and answers for the process that runs."
    ),
    "S0.3.key": (
        "`execute` with the `key` of an earlier start in its project answers for that process, "
        "`repeated`; another command is refused."
    ),
    "S0.3.key.private": (
        "A key never answers for a process that is private to another session, nor for one that never ran."
    ),
    "S0.3.block": (
        '`on_limit` "block": the process waits until `release` says what was delivered, and nothing '
        "is missing."
    ),
    "S0.3.block-unread": "A process that waits so goes on when that is said, or when nobody reads any more.",
    "S0.3.lent": (
        '`stdin` "lent": the command reads a descriptor that was handed to the keeper, and nobody else does.'
    ),
    "S0.3.environment": (
        '`inherit_env` false: `env` is all there is; `words` "base64": bytes that are no UTF-8.'
    ),
    "S0.3.tags": "`tags` and `group` are kept with the process and can be listed by.",
    "S0.3.unknown-keys": "Unknown keys of `execute` are ignored.",
    "S0.4": (
        "On the wire: response, process.started, process.output*, exactly one process.completed, "
        "then no more output."
    ),
    "S0.4.cancel": "A cancel: response, process.cancelled, remaining output, process.completed.",
    "S0.4.closed": (
        "Streams that descendants held open past the end are told closed by `process.closed`, once."
    ),
    "S0.4.late": "Bytes that descendants write after process.completed are had by attach and read.",
    "S0.5": "process.started carries {status: started, pid, pgid, exit_code: null, error: null}.",
    # output
    "S0.6": (
        "One line is one process.output {type, data with its newline, truncated}: never split, never merged."
    ),
    "S0.6.streams": "stdout and stderr are read at the same time: neither waits for the other.",
    "S0.6.utf8": (
        "Text is decoded incrementally as UTF-8: a character cut by a read is whole, invalid bytes "
        "are replaced."
    ),
    "S0.6.last-line": "A last line without newline is sent when its stream ends.",
    "S0.6.prompt": "With a pty or a stdin pipe an idle partial line is sent soon, marked partial.",
    "S0.6.no-partial": "Without a pty and without a stdin pipe no partial line is ever sent early.",
    "S0.7": (
        "A line over max_line_bytes is sent as its first part + '...' + newline, truncated: true, "
        "with its full length."
    ),
    "S0.7.character": "The cut never falls inside a character.",
    "S0.7.setting": (
        "max_line_bytes is 8192 unless MAX_BUFFER_SIZE or the call says otherwise; the newline does "
        "not count."
    ),
    "S0.7.whole": "The whole of a truncated line can be read back from the log.",
    "S0.7.memory": "Of an endless line only the first part is held in memory.",
    "S0.7.chunk": "`chunk` and `binary` never truncate.",
    # the end
    "S0.8": (
        "process.completed says completed exactly when exit_code is 0 (and no output is lost), else "
        "failed, for natural and forced ends alike."
    ),
    "S0.8.error": "Its error is null for a natural end and one sentence for cancel, timeout, limit and lost.",
    "S0.9": "exit_code is 0 to 255 as the process returned it.",
    "S0.9.signal": "A process ended by a signal has minus the signal's number as exit_code.",
    # control
    "S0.10": (
        "`control` PAUSE, RESUME, CANCEL (as type or action) answers paused, resumed, cancelled and "
        "notifies the same."
    ),
    "S0.10.tree": "Control reaches the whole tree, daemonised and re-sessioned descendants included.",
    "S0.10.grace": "CANCEL is TERM, then KILL after the grace period.",
    "S0.10.paused": "A paused tree is continued on CANCEL so that TERM can act.",
    "S0.10.completed": "process.completed (failed, -15 or -9) follows a CANCEL when the tree is empty.",
    "S0.10.repeat": "Repeating a control is a success.",
    # errors and limits
    "S0.11": (
        "Each kind of failure has its number: -32700, -32600, -32601, -32602, -32603 and -32001 to -32004."
    ),
    "S0.11.busy": "A second execute while one runs is -32602 with data {reason: process_running, pid}.",
    "S0.11.hint": "Every error carries data.reason, a stable slug, and data.hint, what to do next.",
    "S0.12": (
        "With ALLOWED_COMMANDS set, the first word of every simple command must be on the list, else -32002; "
        "also where the list holds other programs that start some, but no shell."
    ),
    "S0.12.empty": "An empty ALLOWED_COMMANDS allows everything.",
    "S0.12.opaque": (
        "With a list without a shell, a line the grammar does not understand is refused with -32002."
    ),
    "S0.12.shells": (
        "A list with a shell on it allows everything; documentation and start say so, and the first word of "
        "a line alone is judged."
    ),
    "S0.13": "A session runs one process at a time.",
    "S0.13.concurrent": "`concurrent: true` lifts that.",
    "S0.13.private": "A process that is not detached is private to its session.",
    "S0.13.detached": "A detached process can be attached by every session of its principal.",
    # reconnecting
    "S0.14": (
        "On disconnect a session's processes are cancelled after the reconnect grace (10 s, configurable)."
    ),
    "S0.14.clock": (
        "The reconnect grace counts only while the server lives, after a crash from the end of its recovery."
    ),
    "S0.14.resume": (
        "Within it ?session_id=&cursor= resumes: connected {resumed: true, processes}, output from "
        "the cursor."
    ),
    "S0.14.once": "A resumed connection sees no second process.started.",
    "S0.14.detach": "`detach: true` keeps a process running without its session.",
    "S0.15": "One session over MAX_SESSIONS (100) gets an error -32001 with id null and close code 1013.",
    # speed and patience
    "S0.16": (
        "A line reaches the client less than 10 ms after it was written: at the median with up to 10 "
        "streams, at p99 with one."
    ),
    "S0.16.process": "A slow client never slows a process.",
    "S0.16.memory": "A slow client never grows the server's memory.",
    "S0.16.closed": "5,000 closed WebSockets leave less than 20 MB behind, at every door.",
    "S0.16.kept": "A client is not dropped while our send buffer is full.",
    "S0.17": (
        "JSON Lines pass through, one object per notification, up to max_line_bytes; a longer one says what "
        "to set."
    ),
    "S0.18": "The plain example client runs unchanged: connect, execute, read until completed.",
    "S0.18.timeout": "Its pattern 'wait, then CANCEL after a timeout' works.",
    "S0.18.silence": "Its pattern 'give up after 120 s without output' works.",
    "S0.18.reconnect": "Its pattern 'reconnect and try again' works.",
    # more methods
    "S0.19.attach": "`attach` answers, then sends output from the cursor, then process.completed.",
    "S0.19.attach-ended": "`attach` works the same on a process that has already ended.",
    "S0.19.list": "`list` names the processes this session may see.",
    "S0.19.list.project": (
        "`list` finds processes by project, key and short id, and every view of a process shows them."
    ),
    "S0.19.list.time": (
        "`list` finds processes by when they were started, and those that lived in a span of time."
    ),
    "S0.19.list.same": (
        "`list` finds what ran the same command in the same folder, however long the history is."
    ),
    "S0.19.get": "`get` describes one process.",
    "S0.19.read": "`read` returns recorded output from a cursor.",
    "S0.19.read.times": "`read` says with `times` when each piece of output was written.",
    "S0.19.write": "`write` sends text to the stdin pipe or the terminal.",
    "S0.19.write.binary": "`write` may be one binary frame: a line of JSON, then the bytes as they are.",
    "S0.19.close-stdin": "`close_stdin` ends the stdin pipe.",
    "S0.19.resize": "`resize` changes the terminal's size.",
    "S0.19.signal": "`signal` sends a named signal.",
    "S0.19.signal-group": (
        "`signal` with `whole_group` reaches the process group that the process leads, and no other."
    ),
    "S0.19.release": "`release` lets go of delivered output, and of no process's that did not ask for it.",
    "S0.19.close-output": "`close_output` closes a pipe for its writer, who gets SIGPIPE.",
    "S0.19.wait": "`wait` answers when the process is complete, or when its time is up.",
    "S0.19.control": "`control` accepts process_id and grace.",
    "S0.19.busy": "Requests are answered while a process streams.",
    "S0.19.events": (
        "`events` tells what happens to the caller's processes, as it happens and in its order, "
        "filtered as asked for."
    ),
    "S0.19.relabel": "`relabel` sets and removes tags one by one, running or ended, for good.",
    "S0.19.started_by": (
        "A process says where its start came from: door, host, call, and the process from whose "
        "tree; for as long as its record is kept."
    ),
    "S0.19.rerun": (
        "`rerun` starts a process's command again as it was started; values that were stored nowhere "
        "are given again, or it is refused."
    ),
    "S0.19.copy_whole": (
        "A copied folder has the same names, contents, permissions, times and links at the other "
        "end, wherever the two ends are."
    ),
    "S0.19.copy_again": (
        "The same copy again sends nothing; what was changed since, in size, time or (where asked) "
        "content, is sent."
    ),
    "S0.19.copy_resumed": (
        "A copy that was cut, by SIGKILL of any side or by the line, goes on when it is repeated, "
        "and a file is never there by half."
    ),
    "S0.19.copy_bounds": (
        "A copy holds a bounded part of a file in memory at every side, and has many pieces under way."
    ),
    "S0.19.copy_wall": (
        "No copy reads or writes outlive's own files nor follows a link in a tree, whatever is "
        "swapped meanwhile."
    ),
    "S0.19.copy_direction": (
        "What was opened to be read is not written, what was opened to be written is not read, and "
        "no digest tells it byte by byte."
    ),
    "S0.19.copy_ends": (
        "A folder is not copied into itself, whatever names, machines, links or mounts lead there, "
        "and nothing is made then."
    ),
    "S0.19.copy_callers": (
        "Only a caller that may run any command there copies; lists judge `outlive cp`, and the "
        "audit log has each copy."
    ),
    "S0.19.remove": (
        "`remove` forgets an ended process; one that runs only with `force`, which ends it first."
    ),
    "S0.20": "Every notification carries jsonrpc '2.0' and process_id.",
    "S0.20.end": (
        "process.output carries `end`, the bytes of its stream delivered so far; both ends make the cursor."
    ),
    "S0.20.cursor": "Every other notification of a process carries `cursor`.",
    "S0.20.spelling": "The spelling is `cancelled`.",
    "S0.20.gap": (
        "A range the log no longer holds is told by process.gap {process_id, type, from, to, cursor}."
    ),
    "S0.21": "Keep-alive is by WebSocket ping; no application message needs an answer from the client.",
    # bad input
    "S0.bad.json": "Malformed JSON is -32700 with the id in its bytes, else null; the connection goes on.",
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
    "S0.bad.long-command": (
        "A command of a megabyte and more runs; length never meets the kernel's argument limit."
    ),
    "S0.bad.ignores-term": "A tree that ignores TERM is gone after the grace period, whole.",
    "S0.bad.invalid-utf8": "Invalid UTF-8 loses nothing but itself: replaced in text, exact in the log.",
    "S0.bad.endless-line": "100 MB without a newline neither grow memory nor lose a byte of the log.",
    "S0.bad.slow-client": (
        "A client that stops reading costs nobody else anything and drains byte-exact later."
    ),
    "S0.bad.vanished-client": (
        "A client that vanishes leaves its process to the reconnect grace, nothing leaks."
    ),
    "S0.bad.hung-supervisor": "A hung supervisor is met with a clear error and a hint, and loses nothing.",
    # who is let in, from the first day
    "A.loopback": "The server listens on loopback addresses only, unless it is told otherwise.",
    "A.origin": "Every Origin but the server's own is refused with 403, on routes and upgrades.",
    "A.origin.metadata": (
        "Fetch metadata counts as an Origin: a page that sends none is foreign, but for a link to a "
        "static page."
    ),
    "A.token.user": "A token made with --as-user acts as its own user, as far as its scope goes.",
    "A.host": "A foreign Host is refused with 421, on routes and upgrades.",
    "A.host.forwarded": "Host and Origin are compared by name: a forwarded port works on every door.",
    "A.host.target": (
        "The host of an absolute-form target counts as Host; where the two disagree the request is refused."
    ),
    "A.host.public": "A public name counts with any port, HOST:PORT with that one only.",
    "A.folder": "The state folder is 0700.",
    "A.socket": "The keeper's socket refuses other uids.",
}
