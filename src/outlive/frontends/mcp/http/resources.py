"""The output of processes as MCP resources: `OutputResources`, one `outlive://process/ID/output` for each
process of the caller.

What is listed and read is what the tools show, read from the log when a client asks. Which output has changed
since is `subscriptions`', the methods are `methods`'.
"""

import re
from collections.abc import Mapping, Sequence

from outlive.core.errors import ProcessNotFound
from outlive.engine import Process, ProcessFilter
from outlive.frontends.mcp.tools.calls import Caller, shown_bytes
from outlive.frontends.mcp.tools.documents import output_text
from outlive.frontends.mcp.tools.runner import is_visible
from outlive.frontends.mcp.tools.toolbox import Toolbox
from outlive.policy.access import Scope
from outlive.protocols.mcp.results import status_word
from outlive.server.shown_output import shown_output

MIME_TYPE = "text/plain"
URI_TEMPLATE = "outlive://process/{process_id}/output"
_URI = re.compile(r"outlive://process/([A-Za-z0-9_-]{1,64})/output", re.ASCII)
_MAX_LISTED = 100  # the newest: a person picks from them, and a program has the template for all others
_MAX_NAME = 80  # characters of a command: one line of a host's list


class OutputResources:
    """The resources of one engine. Every method raises AccessDenied for a caller that may not read."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._queries = toolbox.engine.queries
        self._settings = toolbox.settings

    async def list(self, caller: Caller) -> Sequence[Mapping[str, str]]:
        """Return the newest processes of the caller that its connection may see, newest first, as MCP
        Resource objects.

        Cancellation: safe.
        """
        caller.access.require(Scope.READ)
        wanted = ProcessFilter(principal=caller.principal)
        records = await self._queries.list(wanted, limit=_MAX_LISTED)
        return [
            {
                "uri": URI_TEMPLATE.format(process_id=record.process_id),
                "name": " ".join(record.command.split())[:_MAX_NAME] or record.process_id,
                "description": f"Output of a process, {status_word(record)}",
                "mimeType": MIME_TYPE,
            }
            for record in records
            if record.is_detached or record.owner.connection_id == caller.connection_id
        ]

    async def read(self, uri: str, caller: Caller) -> str:
        """Return both streams as the process tools show them.

        Raises:
            ProcessNotFound: The caller has no such process.
            StoreCorrupt: The disk does not give its output.

        Cancellation: safe; nothing is consumed.
        """
        process = await self.find(uri, caller)
        return output_text(await shown_output(process, limit_bytes=shown_bytes(self._settings, caller)))

    async def find(self, uri: str, caller: Caller) -> Process:
        """Return the process whose output an address names.

        Raises:
            ProcessNotFound: It names none, or one that the caller does not have; the two look the same.
        """
        caller.access.require(Scope.READ)
        match = _URI.fullmatch(uri)
        if match is not None:
            process = await self._queries.find(match[1])
            if is_visible(process, caller):
                return process
        raise ProcessNotFound("process_not_found", "There is no such resource.")
