"""The MCP tools: schemas as data, argument checks, results and every literal text.

Pure; calls are in `frontends.mcp`.
"""
