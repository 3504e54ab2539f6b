"""An extension in one file: the operation `echo`, the verb `outlive echo`, and the place `nice`, where
commands run with less of the processor (`outlive run --backend nice -- make`).

`pip install ./examples/extension`, and start the server anew.
"""

from typing import Annotated

import msgspec

from outlive.backends.contract import Backend
from outlive.backends.routing import Route
from outlive.cli.output import show
from outlive.cli.parameters import SERVER, ServerFlags, place, takes
from outlive.cli.processes import connected
from outlive.cli.program import Verb
from outlive.core.process import Owner
from outlive.core.spec import Spec
from outlive.extensions.contract import Extension
from outlive.extensions.server_part import ServerPart
from outlive.operations.answers import AnswerMembers
from outlive.operations.operation import reads
from outlive.server.operations import Carrier

_NICE = 10  # of 19, as nice(1) has it where nothing else is said


class EchoRequest(msgspec.Struct, kw_only=True, frozen=True):
    """What is echoed."""

    text: Annotated[str, msgspec.Meta(description="Any text.", max_length=1000)]


class Echo(AnswerMembers, kw_only=True, frozen=True):
    """It, and for whom."""

    text: str
    principal: str


OPERATIONS = (reads("echo", "Return a text.", EchoRequest, Echo, pace="brief", example={"text": "hi"}),)


class ToyPart(ServerPart):
    """Echoes, and has commands be nice."""

    def carriers(self) -> dict[str, Carrier]:
        """Return what carries `echo` out."""
        return {"echo": self._echo}

    def backends(self, local: Backend) -> dict[str, Route]:
        """Return the place `nice`, whose processes are the keeper's as all of this machine are."""
        return {"nice": Route(kind="local", backend=local, adapt=_nicer)}

    async def _echo(self, asked: EchoRequest, by: Owner) -> Echo:
        return Echo(text=asked.text, principal=by.principal)


def _nicer(spec: Spec) -> Spec:
    return spec._replace(nice=max(spec.nice or 0, _NICE))


@takes(place("text", "TEXT", about="What is echoed."), *SERVER)
def echo(*, text: str, server: ServerFlags) -> int:
    """Print a text that the server has returned."""
    with connected(server) as client:
        show(client.call("echo", {"text": text})["text"])
    return 0


VERBS = {"Toys": (Verb("echo", "Print a text by way of the server.", "outlive_toy:echo"),)}
EXTENSION = Extension(
    name="toy", operations="outlive_toy:OPERATIONS", server="outlive_toy:ToyPart", verbs="outlive_toy:VERBS"
)
