"""Bytes to messages and back, no I/O: one module for each protocol, named like its frontend."""
