"""The terminal frontend: `ws://<host>/ws/terminal/{process_id}`, a process's raw output and input for
terminal emulators.

`door` has the route; a `viewer` is one connection and carries its input to the process, `terminal_output`
decides which output comes next for it. The form of messages belongs to `protocols.terminal_messages`.
"""

from outlive.frontends.terminal.door import TerminalFrontend

__all__ = ["TerminalFrontend"]
