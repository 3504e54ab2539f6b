"""Terminals: the marks and the screen as pure parsers, shells of the engine's, and the three doors."""
