"""The official MCP conformance suite against the real server, extended by the suite's own fixtures (tests
only).
"""
