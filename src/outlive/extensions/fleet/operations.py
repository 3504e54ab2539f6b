"""Other servers on which commands run: what may be done to them, and how they are shown.

The same at every door. Pure.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from outlive.operations.answers import AnswerMembers, Moment
from outlive.operations.operation import decides, reads
from outlive.operations.requests import Amount, Bytes, Tags

NODE_NAME = r"^[a-z0-9][a-z0-9_.-]{0,62}$"
NodeName = Annotated[
    str,
    Meta(pattern=NODE_NAME, description="Its name: small letters, digits, dots, - and _."),
]


class NodeAdd(msgspec.Struct, kw_only=True, frozen=True):
    """A server on which commands may run from now on, also after a restart; one of that name is changed."""

    name: NodeName
    url: Annotated[
        str, Meta(min_length=1, max_length=2048, description="wss://host:8003, of its JSON-RPC port.")
    ]
    token: Annotated[
        str, Meta(max_length=4096, description="A token of its own, kept where only this user reads.")
    ] = ""
    ca: Annotated[
        str,
        Meta(
            max_length=4096,
            description="PEM file of the authority of its certificate; the system's by default.",
        ),
    ] = ""
    labels: Annotated[Tags, Meta(description="Labels beside those that it has itself.")] = {}
    cpu: Annotated[Amount | None, Meta(description="Processors, where it is to give fewer than it has.")] = (
        None
    )
    memory: Annotated[Bytes | None, Meta(description="Bytes, likewise.")] = None
    gpu: Annotated[Amount | None, Meta(description="GPUs, likewise.")] = None

    def __repr__(self) -> str:
        """Return the kind of request alone: the token stands in no text."""
        return "<NodeAdd>"


class NodesRequest(msgspec.Struct, kw_only=True, frozen=True):
    """Every node."""


class NodeDrain(msgspec.Struct, kw_only=True, frozen=True):
    """A node, or `local`, that takes no more commands."""

    name: NodeName


class NodeResume(msgspec.Struct, kw_only=True, frozen=True):
    """A drained node, or `local`, that takes commands again."""

    name: NodeName


class NodeRemoval(msgspec.Struct, kw_only=True, frozen=True):
    """A node that is forgotten."""

    name: NodeName
    force: Annotated[
        bool,
        Meta(
            description="Also where processes of ours run there: they go on, and are not reached from here."
        ),
    ] = False


class NodeLabels(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """How a machine is labelled that is invited."""

    labels: Annotated[Tags, Meta(description="Labels beside those that it has itself.")] = {}


class NodeInvite(NodeLabels, kw_only=True, frozen=True):
    """A machine that may join as a node by dialling in, once, with the code that the answer holds."""

    name: NodeName


class NodeJoin(msgspec.Struct, kw_only=True, frozen=True):
    """A server that has invited this machine, which dials it from now on, and runs its commands."""

    url: Annotated[
        str, Meta(min_length=1, max_length=2048, description="wss://host:8003, of its JSON-RPC port.")
    ]
    code: Annotated[str, Meta(min_length=1, max_length=256, description="The code of the invitation.")]
    ca: Annotated[
        str,
        Meta(
            max_length=4096,
            description="PEM file of the authority of its certificate; the system's by default.",
        ),
    ] = ""
    labels: Annotated[Tags, Meta(description="Labels of this machine beside those of the invitation.")] = {}

    def __repr__(self) -> str:
        """Return the kind of request alone: the code stands in no text."""
        return "<NodeJoin>"


class NodeLeave(msgspec.Struct, kw_only=True, frozen=True):
    """A server that this machine runs no more commands for."""

    gateway: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=2048,
            description="Its name in `gateways`, its address, or its host where no other has it.",
        ),
    ]


class NodeAdopt(msgspec.Struct, kw_only=True, frozen=True):
    """A node whose processes are followed from here as well, also those that another server has started
    there.
    """

    name: NodeName
    ended: Annotated[bool, Meta(description="Also those that have ended and are not forgotten there.")] = (
        False
    )


class AmountView(AnswerMembers, kw_only=True, frozen=True, omit_defaults=True):
    """So much of each; what there is none of is left out."""

    cpu: Annotated[float, Meta(description="Processors.")] = 0
    memory: Annotated[int, Meta(description="Bytes.")] = 0
    gpu: float = 0


class RoomView(AnswerMembers, kw_only=True, frozen=True):
    """What a machine has for commands that say what they need."""

    capacity: AmountView
    free: Annotated[AmountView, Meta(description="Less than nothing where more runs than it has.")]
    labels: dict[str, str]
    draining: Annotated[bool, Meta(description="It takes no more commands; what it runs goes on.")]
    placed: Annotated[int, Meta(description="How many commands are counted there.")]


class NodeAnswer(AnswerMembers, kw_only=True, frozen=True):
    """Another server that runs commands for this one."""

    name: str
    address: str
    state: Literal["away", "connected"]
    since: Moment
    reason: Annotated[str | None, Meta(description="Why it is away.")]
    hint: str | None
    processes: Annotated[int, Meta(description="How many of this server's are followed there.")]
    room: Annotated[RoomView | None, Meta(description="Null until it has said what it has.")]
    added: Annotated[bool, Meta(description="At run time (`outlive node add`), rather than by a setting.")]


class GatewayView(AnswerMembers, kw_only=True, frozen=True):
    """A server that this machine has joined as a node."""

    name: Annotated[
        str,
        Meta(
            description=(
                "Its host, with the port where that is not 8003; what it starts here belongs to "
                "`gateway:NAME`."
            )
        ),
    ]
    address: str
    node: Annotated[str, Meta(description="What this machine is called there.")]
    state: Literal["away", "connected"]
    since: Moment
    reason: Annotated[str | None, Meta(description="Why it is away.")]


class Invitation(AnswerMembers, kw_only=True, frozen=True):
    """What lets one machine join as a node."""

    name: str
    code: Annotated[str, Meta(description="Shown once; a machine that has it joins under that name.")]
    expires_at: Moment


class ChangeOutcome(msgspec.Struct, kw_only=True, frozen=True):
    """What a change has brought beside the list of nodes."""

    invitation: Invitation | None = None
    adopted: list[str] | None = None


NOTHING = ChangeOutcome()


class NodeList(AnswerMembers, kw_only=True, frozen=True):
    """The nodes by name, this machine, and the caller's commands that wait for a place, the next first."""

    nodes: list[NodeAnswer]
    local: RoomView
    waiting: list[str]
    unfit: Annotated[list[str], Meta(description="Those of them that no machine that is known could run.")]
    gateways: Annotated[list[GatewayView], Meta(description="The servers that this machine has joined.")]
    invitation: Annotated[
        Invitation | None, Meta(description="The answer to `node_invite` alone has it.")
    ] = None
    adopted: Annotated[
        list[str] | None,
        Meta(description="The processes that are known here from now on; the answer to `node_adopt` alone."),
    ] = None


NodeChange = NodeAdd | NodeDrain | NodeResume | NodeRemoval | NodeAdopt | NodeInvite | NodeJoin | NodeLeave
NodeRequest = NodesRequest | NodeChange
_NODES, _NODE = "/v1/nodes", "/v1/nodes/{name}"
_DISK = (507,)
# Each is answered with all nodes.
OPERATIONS = (
    reads(
        "nodes",
        "List the machines that commands run on, and what is free there.",
        NodesRequest,
        NodeList,
        pace="brief",  # a heartbeat asks for it
    ),
    decides(
        "node_add",
        "Run commands on another server from now on, or reach it otherwise.",
        NodeAdd,
        NodeList,
        route=f"POST {_NODES}",
        problems=_DISK,
        example={"name": "build", "url": "wss://build.example:8003", "labels": {"zone": "eu"}},
    ),
    decides(
        "node_drain",
        "Place no more commands on a node; what runs there goes on.",
        NodeDrain,
        NodeList,
        route=f"POST {_NODE}/drain",
        problems=_DISK,
    ),
    decides(
        "node_resume",
        "Place commands on a drained node again.",
        NodeResume,
        NodeList,
        route=f"POST {_NODE}/resume",
        problems=_DISK,
    ),
    decides(
        "node_remove",
        "Forget a node that was added.",
        NodeRemoval,
        NodeList,
        route=f"DELETE {_NODE}",
        problems=(409,),
    ),
    decides(
        "node_adopt",
        "Follow what other servers have started on a node, as if it were this one's.",
        NodeAdopt,
        NodeList,
        route=f"POST {_NODE}/adopt",
        problems=_DISK,
    ),
    decides(
        "node_invite",
        "Make a code with which a machine joins as a node by dialling in.",
        NodeInvite,
        NodeList,
        route=f"POST {_NODE}/invite",
        problems=_DISK,
        example={"labels": {"zone": "eu"}},
        body=NodeLabels,
    ),
    decides(
        "node_join",
        "Make this machine a node of the server that has invited it.",
        NodeJoin,
        NodeList,
        route="POST /v1/gateways",
        problems=_DISK,
        example={"url": "wss://gateway.example:8003", "code": "olv_join_…"},
    ),
    decides(
        "node_leave",
        "Run no more commands for a server that this machine has joined.",
        NodeLeave,
        NodeList,
        route="DELETE /v1/gateways/{gateway}",
    ),
)
