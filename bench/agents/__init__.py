"""Scripted agents that do tasks over MCP servers: what a server costs a model in calls and tokens, and what
it finds.
"""
