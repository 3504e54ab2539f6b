"""The official MCP clients in JavaScript against the real server: TypeScript SDK v1 and v2, and the
Inspector.
"""
