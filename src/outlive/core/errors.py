"""The errors a caller may meet: one root, a few families, each with a stable slug and a hint.

Each protocol owns one table from slug to its own number; this module knows no protocol.
"""

from collections.abc import Mapping
from types import MappingProxyType


class OutliveError(Exception):
    """The root: `code` is the stable slug, `message` is safe to show, `hint` says what to do next."""

    def __init__(
        self, code: str, message: str, *, hint: str = "", details: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(message)
        if code not in SLUGS:
            raise AssertionError(f"unknown error slug {code!r}: add it to SLUGS")
        self.code = code
        self.message = message
        self.hint = hint or SLUGS[code][1]
        self.details: Mapping[str, object] = MappingProxyType(dict(details or {}))


class CommandRefused(OutliveError):
    """Policy does not allow the command."""


class AccessDenied(OutliveError):
    """The caller has no access, or may not touch this process."""


class InvalidRequest(OutliveError):
    """The request's parameters make no sense."""


class ProcessNotFound(OutliveError):
    """This caller has no process of that name."""


class InvalidState(OutliveError):
    """The process is not in a state in which this can be done."""


class LimitExceeded(OutliveError):
    """A limit of the server or of the machine is reached."""


class StartFailed(OutliveError):
    """The operating system did not start the program."""


class BackendUnavailable(OutliveError):
    """The keeper (or another place of execution) does not answer."""


class ProtocolViolation(OutliveError):
    """A message is not what the protocol allows."""


class CursorExpired(OutliveError):
    """The log was released past the cursor."""


class StoreCorrupt(OutliveError):
    """A file of the state folder is damaged."""


class ConfigInvalid(OutliveError):
    """A setting is missing, unknown or impossible."""


# slug -> (family, default hint): the one list of everything that can be refused; each protocol maps it to its
# numbers.
SLUGS: Mapping[str, tuple[type[OutliveError], str]] = MappingProxyType(
    {
        "command_not_allowed": (CommandRefused, "Ask the operator to add the program to ALLOWED_COMMANDS."),
        "command_opaque": (
            CommandRefused,
            (
                "With an allow list write only words, quotes, &&, ||, ;, |, &, redirections and $NAME: no "
                "substitutions."
            ),
        ),
        "command_denied": (
            CommandRefused,
            "`outlive policy check` names the rule; ask the operator to change it.",
        ),
        "approval_denied": (CommandRefused, "A person said no: do something else, or ask that person."),
        "approval_expired": (CommandRefused, "Start it again while an administrator is there to approve it."),
        "not_in_line": (InvalidState, "`outlive ps` shows what waits for its turn."),
        "approval_settled": (InvalidState, "`outlive approvals` lists what waits."),
        "approval_changed": (
            InvalidState,
            "Look at what waits (`outlive approvals`); have it asked anew where a file has changed.",
        ),
        "approval_limit": (LimitExceeded, "Approve or deny what waits (`outlive approvals`)."),
        "foreign_origin": (
            AccessDenied,
            "Connect without an Origin header, or from the server's own address.",
        ),
        "foreign_host": (AccessDenied, "Use the address the server listens on, for example 127.0.0.1."),
        "foreign_user": (AccessDenied, "Only the user who started the server may use this socket."),
        "key_missing": (AccessDenied, "Send Authorization: Bearer <key>, or X-API-Key: <key>."),
        "token_missing": (
            AccessDenied,
            (
                "Create one with `outlive token create`, and send Authorization: Bearer <token> "
                "(OUTLIVE_TOKEN for our client)."
            ),
        ),
        "token_invalid": (AccessDenied, "`outlive token list` shows those that count; create another one."),
        "inside_process": (
            AccessDenied,
            "Start the command with `outlive run --grant run`, or let the operator set --callbacks run.",
        ),
        "caller_undetermined": (LimitExceeded, "The machine is busy: try again, or show a token."),
        "token_not_found": (ProcessNotFound, "`outlive token list` shows those that there are."),
        "scope_missing": (
            AccessDenied,
            "Use a token with a wider scope: `outlive token create --scope run`.",
        ),
        "not_owner": (AccessDenied, "The process belongs to another principal."),
        "invalid_params": (InvalidRequest, "Give what the message names a value that is possible."),
        "invalid_cursor": (InvalidRequest, "Take the cursor from the last message."),
        "no_unfiltered": (
            InvalidState,
            "Run the line without its final filter: output is kept and shortened anyway.",
        ),
        "key_taken": (InvalidRequest, "Use another key: this one names a process that runs another command."),
        "name_invalid": (
            InvalidRequest,
            (
                "Begin with a letter; letters, digits, _, . and - may follow, 63 characters in all, and no "
                "id may look like it."
            ),
        ),
        "name_taken": (InvalidState, 'Use another name, end that process, or pass "replace": true.'),
        "process_ambiguous": (InvalidRequest, "Several processes run here: pass process_id."),
        "process_running": (InvalidState, 'Wait for it, cancel it, or pass "concurrent": true.'),
        "process_not_found": (ProcessNotFound, "List the processes, and use an id from there."),
        "no_process": (ProcessNotFound, "Nothing runs in this connection: start something with execute."),
        "terminal_busy": (
            InvalidState,
            "terminal_read shows it, terminal_write answers it or sends ctrl-c.",
        ),
        "terminal_not_found": (ProcessNotFound, "terminal_list shows those that are open."),
        "terminal_not_ours": (
            InvalidRequest,
            "Only a terminal of the engine gives this: terminal_create without a target.",
        ),
        "no_terminal_host": (
            InvalidRequest,
            "Create the terminal in the engine, or connect what has the target.",
        ),
        "command_incomplete": (InvalidRequest, "Close the quotes, brackets and blocks that it opens."),
        "process_ended": (InvalidState, "The process has ended; its output can still be read."),
        "process_queued": (InvalidState, "Wait for its turn, raise the group's limit, or cancel it."),
        "stdin_closed": (InvalidState, 'Start the process with "stdin": "pipe" to write to it.'),
        "stdin_lost": (StartFailed, "Lend the descriptor to the keeper, and start it again."),
        "secrets_lost": (StartFailed, "Start it again with its secrets: they are kept in memory only."),
        "sandbox_unavailable": (
            StartFailed,
            "`outlive doctor` tells which profiles this machine offers, and what the others lack.",
        ),
        "profile_too_weak": (
            CommandRefused,
            "Ask for the server's default profile or a stronger one; only an administrator may go below it.",
        ),
        "line_too_long": (LimitExceeded, "Write shorter lines, or have the command read a file or a pipe."),
        "stdin_full": (LimitExceeded, "The process does not read its input: wait and write again."),
        "no_terminal": (InvalidState, 'Only a process started with "pty": true has a window size.'),
        "not_holder": (InvalidState, 'Take the terminal over first: {"type":"hold","over":true}.'),
        "terminal_limit": (LimitExceeded, "Close some terminals."),
        "extension_away": (BackendUnavailable, "Nothing was sent: try again when VS Code is connected."),
        "extension_lost": (BackendUnavailable, "Look at the terminal before you repeat this."),
        "extension_failed": (InvalidState, "See the message: it is the extension's own."),
        "cwd_missing": (StartFailed, "Create the folder or pass another cwd."),
        "not_found": (StartFailed, "Check the program's name and the PATH in env."),
        "permission_denied": (StartFailed, "The file is not executable for this user."),
        "argument_too_long": (
            StartFailed,
            "One argument may have 128 KiB: use the command form (any length) or a file.",
        ),
        "start_failed": (StartFailed, "See the message of the operating system."),
        "docker_unavailable": (StartFailed, "Start the Docker daemon, or say where it is: DOCKER_HOST."),
        "docker_timeout": (BackendUnavailable, "The daemon may be busy: try again."),
        "image_missing": (StartFailed, "Get it with `docker pull`, or start the server with --docker-pull."),
        "container_failed": (StartFailed, "See the message: it is the Docker daemon's own."),
        "mount_failed": (StartFailed, "Create the folder, or mount another one."),
        "mount_refused": (
            CommandRefused,
            "Work in a folder of its own, and mount no more than what is needed.",
        ),
        "connection_limit": (LimitExceeded, "Close a connection, or raise MAX_SESSIONS."),
        "rate_limited": (LimitExceeded, "Ask less often, or raise --max-request-rate."),
        "path_refused": (AccessDenied, "Copy what your programs write: outlive's own files are its own."),
        "file_missing": (InvalidState, "Check the path, and on which machine it is."),
        "file_failed": (InvalidState, "See the message of the operating system."),
        "file_changed": (InvalidState, "Copy it again when nothing writes to it."),
        "copy_unknown": (InvalidState, "Open it again: file_open. What was written is still there."),
        "batch_limit": (LimitExceeded, "It was not done: ask for it in another batch."),
        "copy_limit": (LimitExceeded, "Send the pieces in their order."),
        "node_busy": (InvalidState, "Drain it, and wait until nothing runs there."),
        "no_room": (LimitExceeded, "Ask for less, or let it wait for its turn."),
        "process_limit": (LimitExceeded, "Wait until processes end, or raise the limit of open files."),
        "audit_unavailable": (
            BackendUnavailable,
            "Secrets are shown only if the audit log can record it: make it writable, or ask without raw.",
        ),
        "disk_full": (
            LimitExceeded,
            "Free some space in the state folder's file system: `outlive prune` removes what has ended.",
        ),
        "read_only": (
            LimitExceeded,
            "Make the state folder's file system writable again (mount -o remount,rw).",
        ),
        "disk_silent": (
            BackendUnavailable,
            "It goes on by itself once the disk answers (`fsfreeze --unfreeze`).",
        ),
        "folder_gone": (BackendUnavailable, "Stop the server and start it again: it makes the folder anew."),
        "keeper_unavailable": (BackendUnavailable, "Try again; `outlive doctor` tells what is wrong."),
        "keeper_restarted": (
            BackendUnavailable,
            "The keeper restarted before it answered: look at the process before you repeat this.",
        ),
        "node_unavailable": (
            BackendUnavailable,
            "The command goes on there; `outlive doctor` tells what keeps the node away.",
        ),
        "start_unanswered": (
            BackendUnavailable,
            "Do not start it again: it is listed, and known to run or not once the answer is there.",
        ),
        "server_lost": (
            BackendUnavailable,
            "The server went away before it answered: look at the process before you repeat this.",
        ),
        "server_unavailable": (
            BackendUnavailable,
            "Start it with `outlive serve`, or let the client start it.",
        ),
        "timeout": (
            BackendUnavailable,
            "It may run, or have been done: look at it before you ask for it again.",
        ),
        "stream_timeout": (BackendUnavailable, "Attach again with the last cursor."),
        "parse_error": (ProtocolViolation, "Send one JSON object (or an array of them) per text frame."),
        "invalid_request": (
            ProtocolViolation,
            'A request looks like {"jsonrpc":"2.0","id":1,"method":"execute","params":{"command":"date"}}.',
        ),
        "protocol_mismatch": (
            ProtocolViolation,
            "Install the same version of outlive on both sides, and start that server anew.",
        ),
        "method_not_found": (
            ProtocolViolation,
            "Use execute, control, attach, list, get, read, write, wait.",
        ),
        "binary_frame": (
            ProtocolViolation,
            (
                "Send requests as text frames; only `write` and `file_write` may bring bytes behind a line "
                "of JSON."
            ),
        ),
        "cursor_expired": (CursorExpired, "Continue from the oldest cursor that the details name."),
        "store_corrupt": (StoreCorrupt, "`outlive doctor` tells which file is damaged."),
        "config_invalid": (ConfigInvalid, "See `outlive serve --help`."),
        "state_folder": (ConfigInvalid, "Choose a folder of your own with --state-dir."),
        "state_format": (
            ConfigInvalid,
            "Use the version of outlive that made the folder, or name another one with --state-dir.",
        ),
        "port_taken": (ConfigInvalid, "Choose another port, or 0 for any free one."),
        "server_running": (ConfigInvalid, "Use the running server, or another --state-dir."),
        "unsupported_platform": (ConfigInvalid, "outlive needs Linux."),
        "internal_error": (OutliveError, "Report it with the reference; the server's log has the details."),
    }
)


def error_from_slug(
    code: str, message: str, *, hint: str = "", details: Mapping[str, object] | None = None
) -> OutliveError:
    """Rebuild an error, with its family, from the report of another process."""
    if code not in SLUGS:
        return OutliveError("internal_error", message, hint=hint, details=details)
    return SLUGS[code][0](code, message, hint=hint, details=details)
