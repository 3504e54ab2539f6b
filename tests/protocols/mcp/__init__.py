"""Shapes and texts of the MCP tools."""
