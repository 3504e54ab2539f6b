"""Terminals: shells that stay, whose commands are captured one by one."""

from outlive.engine.terminals.directory import NewTerminal, TerminalHost, Terminals, no_host
from outlive.engine.terminals.host import EngineTerminals, terminals_of

__all__ = ["EngineTerminals", "NewTerminal", "TerminalHost", "Terminals", "no_host", "terminals_of"]
