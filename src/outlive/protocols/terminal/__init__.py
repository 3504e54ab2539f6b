"""Terminals as bytes and values: marks of the shell, commands as they are typed, a screen from bytes.

Pure.
"""
