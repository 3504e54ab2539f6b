"""The terminal bridge: extensions of VS Code that connect or are connected to, and their terminals (promises
S3.1 to S3.9).

`door` accepts, `dialler` connects; `connection` is one connection, whose `messages` are pure;
`terminal_owners` remembers terminals, `host` offers them.
"""
