"""What each error slug means, in one sentence: for the documentation (docs/errors.md is made from this).

Apart from `errors`, which every keeper and every short program loads; nobody needs these while running.
"""

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["MEANINGS"]

MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "command_not_allowed": "A program of the command line is not on the operator's list.",
        "command_opaque": "The line holds more than the operator's list can judge.",
        "command_denied": "A rule of the operator's denies the command.",
        "approval_denied": "The command needed a person's approval, and was denied it.",
        "approval_expired": "The command needed a person's approval, and nobody gave it in time.",
        "approval_settled": "The process does not wait for an approval, or not any more.",
        "approval_limit": "Too many commands wait for an approval.",
        "foreign_origin": "A web page of somebody else's asked.",
        "foreign_host": "The Host header names no address of this server.",
        "foreign_user": "The socket belongs to another user.",
        "key_missing": "The server wants a key, and none or a wrong one came.",
        "token_missing": "This caller has to show a token, and showed none.",
        "token_invalid": "The token is unknown, has expired or was revoked.",
        "inside_process": "A process that outlive has started asks, without a token of its own.",
        "token_not_found": "There is no token of that name.",
        "scope_missing": "The caller may look, or start, but not do this.",
        "not_owner": "The process belongs to another principal.",
        "invalid_params": "A parameter, or a word of the command line, makes no sense.",
        "invalid_cursor": "The text is no cursor, or lies behind the end of the output.",
        "process_ambiguous": "Several processes could be meant.",
        "process_running": "Something still runs that would have to have ended.",
        "process_not_found": "There is no such process, or not for this caller.",
        "no_process": "No process runs in this session.",
        "process_ended": "The process has ended, and this can only be done to one that runs.",
        "process_queued": "The process waits for its group's turn or for an approval, and has not been started.",
        "stdin_closed": "The process has no input, or it was closed.",
        "stdin_lost": "The descriptor that the command was to read is not there any more.",
        "secrets_lost": "The secrets of the command were in memory only, and went with a server or a keeper that ended.",
        "sandbox_unavailable": "This machine cannot keep what the profile promises, so nothing was started.",
        "profile_too_weak": "The profile that was asked for is weaker than this caller may choose.",
        "stdin_full": "The process has not read its input for 30 s; the details tell what is in.",
        "no_terminal": "The process does not run in a terminal.",
        "cwd_missing": "The working folder is missing, or is no folder.",
        "not_found": "There is no such program.",
        "permission_denied": "Program or folder may not be used by this user.",
        "argument_too_long": "An argument, or all of them with the environment, is longer than the kernel takes.",
        "start_failed": "The operating system did not start the program; the message says why.",
        "connection_limit": "All sessions of the server are taken.",
        "rate_limited": "The principal asks more often than the server allows.",
        "process_limit": "There are too many processes, or too many open questions.",
        "disk_full": "The state folder's file system is full.",
        "keeper_unavailable": "The keeper does not answer; commands go on meanwhile.",
        "keeper_restarted": "The keeper restarted in the middle: whether it was done is not known.",
        "server_lost": "The server went away in the middle: whether it was done is not known.",
        "server_unavailable": "No server answers.",
        "timeout": "Something did not answer within its deadline.",
        "stream_timeout": "A stream had to be given up.",
        "parse_error": "The message is no JSON.",
        "invalid_request": "The message is JSON, but not what the protocol asks for.",
        "method_not_found": "There is no such method.",
        "binary_frame": "A binary frame came where text is due.",
        "cursor_expired": "The log no longer holds the output at this place.",
        "store_corrupt": "A file of the state folder is not what it should be, or cannot be read or written.",
        "config_invalid": "A setting is missing, unknown or impossible.",
        "state_folder": "The state folder cannot be used.",
        "port_taken": "Another program listens on the port.",
        "server_running": "A server of this state folder runs already.",
        "unsupported_platform": "This is no Linux, or lacks what outlive cannot do without.",
        "internal_error": "A fault of outlive's; the message has a reference to the server's log.",
    }
)
