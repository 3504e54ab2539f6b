"""The extension for VS Code: the bundle that users install, in plain Node with a stub of VS Code, and in a
real code-server.
"""
