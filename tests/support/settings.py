"""The server's settings in tests: the defaults, and what a test changes."""

from outlive.config import Settings
from outlive.config.resolution import resolve
from outlive.core.values import replace

_DEFAULTS = resolve({}, {"HOME": "/nonexistent"}, working_folder="/").settings


def settings_with(**changed: object) -> Settings:
    """Return the defaults with some of them changed."""
    return replace(_DEFAULTS, **changed)  # type: ignore[arg-type] # settings by name
