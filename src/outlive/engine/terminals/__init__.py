"""Terminals: shells that stay, whose commands are captured one by one."""

from outlive.engine.terminals.contract import NewTerminal, TerminalHost
from outlive.engine.terminals.directory import Terminals, no_host

__all__ = ["NewTerminal", "TerminalHost", "Terminals", "no_host"]
