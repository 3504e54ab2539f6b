"""A command in the foreground: `outlive run` and `outlive attach` behave like the command itself.

`plan` decides from what the descriptors are; `start` asks for the command; `session` follows it to its end
with the help of `delivery` (its output to ours), `signals` (ours to it, and ending as it did), `keyboard` and
`terminal`.
"""
