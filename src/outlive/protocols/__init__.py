"""Bytes to messages and back: one module or package for each protocol, named like its frontend.

No I/O, no decisions.

Sockets and tasks are in `frontends` and `server`; what a message does is decided in `engine`.
"""
