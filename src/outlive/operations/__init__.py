"""Every operation once: what it is called, what it takes, what it may answer, and one sentence of help. Pure.

An operation's request is a frozen msgspec struct. A member's type carries its bounds and its sentence of
help, so that each frontend checks the same things and describes them in the same words: JSON-RPC decodes the
struct, REST decodes it and publishes its schema, MCP publishes the schema as a tool's arguments, and the
reference pages are made from it.

A frontend adds a member by a subclass, and only one that no other frontend has. No module here does any input
or output.
"""
