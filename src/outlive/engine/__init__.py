"""The one facade of all doors: start, control, find, list, read, follow, wait. Knows no frontend."""

from outlive.engine.engine import Engine
from outlive.engine.process import Process
from outlive.store.output_log import OutputChunk
from outlive.store.rows import ProcessFilter

__all__ = ["Engine", "OutputChunk", "Process", "ProcessFilter"]
