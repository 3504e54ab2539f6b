"""/v1/nodes: the machines that commands run on: list, add, invite, drain, resume, adopt, remove.

Each answers with all of them.

/v1/gateways: the servers that this machine is a node of: join, leave. Answered in the same way.
"""

import msgspec

from outlive.frontends.rest.routes import Members, RestCall
from outlive.operations.nodes import (
    NodeAdd,
    NodeAdopt,
    NodeDrain,
    NodeInvite,
    NodeJoin,
    NodeLabels,
    NodeLeave,
    NodeRemoval,
    NodeRequest,
    NodeResume,
    NodesRequest,
    OfNode,
)


async def list_nodes(call: RestCall, asked: NodesRequest) -> Members:
    """List the machines that commands run on, and what is free there."""
    return await _answer(call, asked)


async def add(call: RestCall, body: NodeAdd) -> Members:
    """Run commands on another server from now on, or reach it otherwise."""
    return await _answer(call, body)


async def drain(call: RestCall, asked: NodeDrain) -> Members:
    """Place no more commands on a node; what runs there goes on."""
    return await _answer(call, asked)


async def resume(call: RestCall, asked: NodeResume) -> Members:
    """Place commands on a drained node again."""
    return await _answer(call, asked)


async def remove(call: RestCall, asked: NodeRemoval) -> Members:
    """Forget a node that was added."""
    return await _answer(call, asked)


async def adopt(call: RestCall, asked: NodeAdopt) -> Members:
    """Follow what other servers have started on a node, as if it were this one's."""
    return await _answer(call, asked)


async def invite(call: RestCall, asked: OfNode, body: NodeLabels) -> Members:
    """Make a code with which a machine joins as a node by dialling in."""
    return await _answer(call, NodeInvite(name=asked.name, labels=body.labels))


async def join(call: RestCall, body: NodeJoin) -> Members:
    """Make this machine a node of the server that has invited it."""
    return await _answer(call, body)


async def leave(call: RestCall, asked: NodeLeave) -> Members:
    """Run no more commands for a server that this machine has joined."""
    return await _answer(call, asked)


async def _answer(call: RestCall, asked: NodeRequest) -> Members:
    found: Members = msgspec.to_builtins(await call.engine.nodes.answer(asked, by=call.owner()))
    return found
