"""The one table from error slugs (`core.errors.SLUGS`) to JSON-RPC numbers, promise S0.11.

A test fails when a slug is missing here. Numbers from -32000 to -32099 are the server's own (JSON-RPC 2.0, section 5.1).
"""

from collections.abc import Mapping
from types import MappingProxyType

# Our own numbers, which clients of S0 know.
_CONNECTION_LIMIT = -32001
_NOT_ALLOWED = -32002
_NO_PROCESS = -32003
_STREAM_TIMEOUT = -32004
# Those of the specification.
_INVALID_REQUEST = -32600
_METHOD_NOT_FOUND = -32601
_INVALID_PARAMS = -32602
_FAILED = -32603
_PARSE_ERROR = -32700

ERROR_NUMBERS: Mapping[str, int] = MappingProxyType(
    {
        # Access and policy: the caller may not do this.
        "command_not_allowed": _NOT_ALLOWED,
        "command_opaque": _NOT_ALLOWED,
        "foreign_origin": _NOT_ALLOWED,
        "foreign_host": _NOT_ALLOWED,
        "foreign_user": _NOT_ALLOWED,
        "key_missing": _NOT_ALLOWED,
        "token_missing": _NOT_ALLOWED,
        "token_invalid": _NOT_ALLOWED,
        "inside_process": _NOT_ALLOWED,
        "caller_undetermined": _FAILED,
        "token_not_found": _NO_PROCESS,
        "not_owner": _NOT_ALLOWED,
        "scope_missing": _NOT_ALLOWED,
        # The request itself makes no sense, or names a process that is not there.
        "invalid_params": _INVALID_PARAMS,
        "invalid_cursor": _INVALID_PARAMS,
        "process_ambiguous": _INVALID_PARAMS,
        "process_running": _INVALID_PARAMS,
        "process_not_found": _NO_PROCESS,
        "no_process": _NO_PROCESS,
        "terminal_busy": _INVALID_PARAMS,
        "terminal_not_found": _NO_PROCESS,
        "terminal_not_ours": _INVALID_PARAMS,
        "no_terminal_host": _INVALID_PARAMS,
        "command_incomplete": _INVALID_PARAMS,
        "process_ended": _NO_PROCESS,
        "process_queued": _NO_PROCESS,
        # Approvals.
        "command_denied": _NOT_ALLOWED,
        "approval_denied": _NOT_ALLOWED,
        "approval_expired": _NOT_ALLOWED,
        "approval_changed": _NO_PROCESS,
        "approval_settled": _NO_PROCESS,
        "approval_limit": _FAILED,
        # The process or its terminal does not allow it.
        "stdin_closed": _INVALID_PARAMS,
        "stdin_full": _FAILED,
        "stdin_lost": _FAILED,
        "secrets_lost": _FAILED,
        "sandbox_unavailable": _FAILED,
        "profile_too_weak": _NOT_ALLOWED,
        "no_terminal": _INVALID_PARAMS,
        "terminal_limit": _FAILED,
        "extension_away": _FAILED,
        "extension_lost": _FAILED,
        "extension_failed": _FAILED,
        # The start failed: program, folder, container.
        "cwd_missing": _FAILED,
        "not_found": _FAILED,
        "permission_denied": _FAILED,
        "argument_too_long": _FAILED,
        "start_failed": _FAILED,
        "docker_unavailable": _FAILED,
        "docker_timeout": _FAILED,
        "image_missing": _FAILED,
        "container_failed": _FAILED,
        "mount_failed": _FAILED,
        "mount_refused": _NOT_ALLOWED,
        # Limits of the server and of the machine.
        "connection_limit": _CONNECTION_LIMIT,
        "rate_limited": _FAILED,
        "process_limit": _FAILED,
        "audit_unavailable": _FAILED,
        "disk_full": _FAILED,
        "read_only": _FAILED,
        "folder_gone": _FAILED,
        # A part that has to answer did not: keeper, node, server.
        "keeper_unavailable": _FAILED,
        "node_unavailable": _FAILED,
        "keeper_restarted": _FAILED,
        "start_unanswered": _FAILED,
        "server_lost": _FAILED,
        "server_unavailable": _FAILED,
        "timeout": _FAILED,
        "stream_timeout": _STREAM_TIMEOUT,
        # The message is not what the protocol allows.
        "parse_error": _PARSE_ERROR,
        "invalid_request": _INVALID_REQUEST,
        "method_not_found": _METHOD_NOT_FOUND,
        "binary_frame": _INVALID_REQUEST,
        # What is stored, and the configuration.
        "cursor_expired": _INVALID_PARAMS,
        "store_corrupt": _FAILED,
        "config_invalid": _FAILED,
        "state_folder": _FAILED,
        "port_taken": _FAILED,
        "server_running": _FAILED,
        "unsupported_platform": _FAILED,
        "internal_error": _FAILED,
    }
)
