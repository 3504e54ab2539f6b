"""What all frontends use: `Engine`, whose parts start, control, find, read and remember processes.

Knows no frontend.
"""

from outlive.engine.controls import AuditedControls
from outlive.engine.engine import Engine
from outlive.engine.lookup import Asker
from outlive.engine.process_registry import ProcessInfo, ProcessRegistry, Termination
from outlive.engine.processes.process import Process, follow
from outlive.engine.settings import EngineSettings
from outlive.store.output_log import OutputChunk, OutputLog
from outlive.store.rows import ProcessFilter

__all__ = [
    "Asker",
    "AuditedControls",
    "Engine",
    "EngineSettings",
    "OutputChunk",
    "OutputLog",
    "Process",
    "ProcessFilter",
    "ProcessInfo",
    "ProcessRegistry",
    "Termination",
    "follow",
]
