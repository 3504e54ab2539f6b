"""The MCP tools, whatever carries them: promises S1 and S4 (tools part).

`table` says everything about each tool; `toolbox` carries a call out by it, and shows what outlasts its call
as a task. The functions that answer stand in `documents` and `lean`, the terminals' in `server.operations`;
`runner` starts, waits and ends. Arguments, schemas and texts are `protocols.mcp`; what may run is decided in
`policy`.
"""

from outlive.frontends.mcp.tools.calls import Caller, Outcome, Progress, UnknownTool
from outlive.frontends.mcp.tools.toolbox import Tasks, Toolbox

__all__ = ["Caller", "Outcome", "Progress", "Tasks", "Toolbox", "UnknownTool"]
