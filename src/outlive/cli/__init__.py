"""The command line `outlive`, verb by verb (docs/cli.md).

Everything heavy is imported by the verb that needs it.
"""
