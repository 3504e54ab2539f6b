"""Terminals: shells that stay, whose commands are captured one by one."""

from outlive.engine.terminals.contract import NewTerminal, TerminalHost
from outlive.engine.terminals.directory import Terminals

__all__ = ["NewTerminal", "TerminalHost", "Terminals"]
