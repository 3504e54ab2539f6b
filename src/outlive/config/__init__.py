"""Every option once: name, unit, default, sentence, environment names and flag; flags > environment > files > defaults.

Pure: the environment and the working folder are arguments. Never reads a file and never imports a web library:
resolving the settings stands before everything else in the start-up time (decision 10).
"""

from outlive.config.files import ConfigFile
from outlive.config.options import Option
from outlive.config.resolution import Origin, Resolution, misspelt_names, resolve
from outlive.config.settings import OPTIONS, Settings

__all__ = [
    "OPTIONS",
    "ConfigFile",
    "Option",
    "Origin",
    "Resolution",
    "Settings",
    "misspelt_names",
    "resolve",
]
