"""Tests of the MCP door over real HTTP, against a real server."""
