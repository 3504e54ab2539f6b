"""Every option once: name, unit, default, sentence, environment names and flag.

Flags > environment > files > defaults.

Pure: the environment and the working folder are arguments. Reads no file (`discovery.config_files` does) and
imports no web library, because every start of a server waits until the settings are resolved (decision 10).
"""

from outlive.config.options import Option
from outlive.config.resolution import (
    ConfigFile,
    EffectiveSetting,
    Origin,
    Resolution,
    effective_settings,
    misspelt_names,
    resolve,
)
from outlive.config.settings import Settings, all_options

__all__ = [
    "ConfigFile",
    "EffectiveSetting",
    "Option",
    "Origin",
    "Resolution",
    "Settings",
    "all_options",
    "effective_settings",
    "misspelt_names",
    "resolve",
]
