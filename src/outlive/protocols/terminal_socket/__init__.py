"""A terminal over WebSocket as bytes and values: the query of the address, control messages, where history begins. No I/O.

Output and input are binary frames of raw bytes, as @xterm/addon-attach sends and takes them; `messages` are the text frames of
the subprotocol outlive.terminal.v1. Sockets and tasks are in `frontends.terminal`; docs/ws-terminal.md describes all of it.
"""
