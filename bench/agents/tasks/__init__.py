"""The tasks: 21 that the goal is measured on, and more of other kinds that no text of ours was written
for.
"""

from bench.agents.steps import Task
from bench.agents.tasks import builds, dialogs, everyday, held_out, lives, outputs

__all__ = ["TASKS"]

TASKS: dict[str, Task] = {
    task.name: task
    for module in (builds, outputs, dialogs, lives, held_out, everyday)
    for task in module.TASKS
}
