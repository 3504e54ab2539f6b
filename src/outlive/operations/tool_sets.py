"""The sets of MCP tools: their names, and what each is for. Pure data.

The setting `mcp_tools`, `outlive mcp --mcp-tools` and `outlive install --tools` take these names. Which tools
a set has is known to `frontends.mcp.tools.table`; this module stands apart from it because the command line
imports it at its start.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

ToolSet = Literal["lean", "documents", "terminals", "all"]

# In the order in which help texts list them.
TOOL_SETS: Mapping[ToolSet, str] = MappingProxyType(
    {
        "lean": "seven small ones, for agents",
        "documents": "those that the documents describe",
        "terminals": "shells that stay",
        "all": "lean, documents and terminals together",
    }
)


def listed_tool_sets() -> str:
    """Return all sets with their purposes, as a help text lists them."""
    return ", ".join(f"{name} ({about})" for name, about in TOOL_SETS.items())
