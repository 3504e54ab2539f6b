"""The documentation page of all settings, made from the table of options: docs/settings.md."""

from outlive.config.options import Option
from outlive.config.settings import OPTIONS

__all__ = ["render_reference"]

_HEAD = """# Settings

Every option of `outlive serve`. A flag wins over the environment, the environment over the default; an empty variable
counts as unset. `--state-dir` and its variable are understood by every verb. Sizes take K, M, G and T (powers of 1024),
times ms, s, m, h and d.

This page is made from `src/outlive/config/settings.py`:
`python -m outlive.config.reference > docs/settings.md`.

| flag | environment | default | what it does |
|---|---|---|---|
"""


def render_reference() -> str:
    """Return the page as Markdown."""
    return _HEAD + "".join(map(_row, OPTIONS))


def _row(option: Option) -> str:
    flag = option.flag if option.is_switch else f"{option.flag} {option.kind.upper()}"
    names = ", ".join(f"`{name}`" for name in option.env)
    default = f"`{option.default}`" if option.default else ""
    return f"| `{flag}` | {names} | {default} | {option.sentence} |\n"


if __name__ == "__main__":
    import sys  # only here: nobody who imports this module writes

    sys.stdout.write(render_reference())
