"""A terminal over WebSocket as bytes and values: what the address asks for, control messages, where history begins. No I/O.

Output and input are binary frames of raw bytes, as @xterm/addon-attach sends and takes them; `messages` are the text
frames of the subprotocol outlive.terminal.v1. Sockets and tasks are `frontends/terminal`; docs/ws-terminal.md has it all.
"""
