"""The documentation page of all settings, generated from the table of options: docs/settings.md.

A test compares the page with this output. The sentences about single options stand beside their declarations.
"""

from outlive.config.options import Option
from outlive.config.settings import all_options

_HEAD = """# Settings

Every option of `outlive serve`. Strongest first: the flag, the environment (an empty variable counts as unset), the
project's file, the user's file, the system's file, the default. `outlive config show --origin` shows every value here
and where it comes from. `--state-dir` and its variable are understood by every verb. Sizes take K, M, G and T (powers of
1024), times ms, s, m, h and d.

## Files

| file | what for |
|---|---|
| `.outlive.toml` in the working folder or the nearest one above | a project: it may only tighten |
| `~/.config/outlive/config.toml` (`$XDG_CONFIG_HOME`) | the user |
| `/etc/outlive/config.toml` | the machine |

TOML; a key is the flag with underscores: `jsonrpc_port = 8003`, `retention = "7d"`, `allowed_commands = ["git", "ls"]`.
An unknown key is an error. `OUTLIVE_CONFIG=FILE` takes one file instead of the user's and the machine's. Write access to
a folder must not be enough to allow anything there: of the options marked below a project's file may choose a lower
value, fewer allowed or more blocked words, or the stricter side of a switch, and no other option at all. A project's
file that belongs to another user is ignored.

## Options

This page is made from `src/outlive/config`:
`python -m outlive.config.reference > docs/settings.md`.

| flag | environment | default | a project | what it does |
|---|---|---|---|---|
"""  # noqa: E501 -- lines of a table, or of another language
# The column "a project": in which direction a project's file may change the option.
_PROJECT = {
    None: "",
    "lower": "lower",
    "subset": "fewer",
    "superset": "more",
    "on": "on",
    "off": "off",
    "narrower": "fewer",
    "stronger": "stronger",
    "stricter": "stricter",
    "hides": "more",
}


def render_reference() -> str:
    """Return the page as Markdown."""
    return _HEAD + "".join(map(_row, all_options()))


def _row(option: Option) -> str:
    """Return one line of the table."""
    flag = option.flag if option.is_switch else f"{option.flag} {option.kind.upper()}"
    names = ", ".join(f"`{name}`" for name in option.env)
    default = f"`{option.default}`" if option.default else ""
    return f"| `{flag}` | {names} | {default} | {_PROJECT[option.project]} | {option.sentence} |\n"


if __name__ == "__main__":
    import sys  # only here: importing this module writes nothing

    sys.stdout.write(render_reference())
