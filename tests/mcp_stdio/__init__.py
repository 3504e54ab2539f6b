"""Tests of `outlive mcp`, the MCP relay on standard input and output."""
