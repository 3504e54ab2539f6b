"""The MCP tools, whatever carries them: promises S1 and S4 (tools part).

`contract` is what the doors build; `commands` answers the command tools, `processes` the process tools; `runner`
starts, waits and ends; `tasks` shows what outlasts its call as a task.
Schemas, texts and shapes are `protocols.mcp`; what may run is decided in `policy`.
"""

from outlive.frontends.mcp.tools.calls import Caller, Outcome, Progress, ToolSet, ToolSettings, UnknownTool
from outlive.frontends.mcp.tools.contract import Toolbox
from outlive.frontends.mcp.tools.tasks import Tasks

__all__ = ["Caller", "Outcome", "Progress", "Tasks", "ToolSet", "ToolSettings", "Toolbox", "UnknownTool"]
