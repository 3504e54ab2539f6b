"""How much a caller must be allowed for each tool: `SCOPES`. A tool without a line here cannot be offered."""

from collections.abc import Mapping
from types import MappingProxyType

from outlive.policy.access import Scope

SCOPES: Mapping[str, Scope] = MappingProxyType(
    {
        "command_execute": Scope.RUN,
        "command_execute_script": Scope.RUN,
        "command_get_status": Scope.READ,
        "command_list_history": Scope.READ,
        "execute_linux_shell_command": Scope.RUN,
        "execute_background_linux_shell_command": Scope.RUN,
        "terminate_process": Scope.RUN,
        "list_processes": Scope.READ,
        "run": Scope.RUN,
        "read": Scope.READ,
        "wait": Scope.READ,
        "send": Scope.RUN,
        "control": Scope.RUN,
        "list": Scope.READ,
        "terminal_list": Scope.READ,
        "terminal_create": Scope.RUN,
        "terminal_execute": Scope.RUN,
        "terminal_read": Scope.READ,
        "terminal_write": Scope.RUN,
        "terminal_resize": Scope.RUN,
        "terminal_close": Scope.RUN,
    }
)
