"""The extension in a real VS Code: code-server, with a headless Chromium before it
(scripts/code-server.sh).
"""
