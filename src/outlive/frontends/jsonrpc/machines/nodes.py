"""The methods about nodes: one for each of `operations.nodes.NODE_REQUESTS`, each answered with all nodes."""

from typing import Any

import msgspec

from outlive.frontends.jsonrpc.context import Concurrency, Context, Method, Result
from outlive.operations.nodes import NODE_REQUESTS, NodeList, NodeRequest
from outlive.operations.table import OPERATIONS


async def _nodes(context: Context, params: NodeRequest, _label: str | None) -> Result[Any]:
    """Return all nodes as members, which the connection encodes."""
    return Result(msgspec.to_builtins(await context.engine.nodes.answer(params, by=context.owner())))


NODES = {
    name: Method(
        name=name,
        scope=OPERATIONS[name].scope,
        shape=request,
        result=NodeList,
        answer=_nodes,
        # A heartbeat asks for the list; what changes nodes waits for the disk.
        concurrency=Concurrency.IN_ORDER if name == "nodes" else Concurrency.LONG,
    )
    for name, request in NODE_REQUESTS.items()
}
