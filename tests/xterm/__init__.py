"""xterm.js against the real server: without a screen (what a person sees), and on a page in a real
Chromium.
"""
