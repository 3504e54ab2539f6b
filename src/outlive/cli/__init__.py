"""The command line: `outlive serve | keeper | doctor`. Everything heavy is imported by the verb that needs it."""

__all__: list[str] = []
