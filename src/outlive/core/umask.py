"""A umask as callers write it: three octal digits, "022". Pure."""

UMASK_PATTERN = r"^0?[0-7]{3}$"  # for schemas, in the dialect of JSON Schema


def parse_umask(text: str | None) -> int | None:
    """Return the number of a text that matches the pattern; None stays None."""
    return None if text is None else int(text, 8)


def umask_text(umask: int) -> str:
    """Return a umask as callers write it."""
    return f"{umask:03o}"
