"""The terminal door: `ws://<host>/ws/terminal/{process_id}`, a process's raw output and input for terminal emulators.

`door` is what the application builds; a `viewer` is one connection, `terminal_output` what comes next for it, `keyboard` what it
types on its way to the process. Messages as bytes are `protocols.terminal_socket`.
"""

from outlive.frontends.terminal.door import TerminalFrontend

__all__ = ["TerminalFrontend"]
