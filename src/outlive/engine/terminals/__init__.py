"""Terminals: shells that stay, whose commands are captured one by one."""

from outlive.engine.terminals.contract import NewTerminal, TerminalHost
from outlive.engine.terminals.directory import Terminals
from outlive.engine.terminals.host import EngineTerminals

__all__ = ["EngineTerminals", "NewTerminal", "TerminalHost", "Terminals"]
