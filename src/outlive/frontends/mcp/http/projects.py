"""Where hosts work: `Projects`, what relays have sent of their hosts, in memory only (promise S4.13.project).

A relay sends its host's folder, environment and tool set once, and gets a name for them, which it shows with
every request. The name is a keyed digest of the content: another server, which knows nothing of it, refuses
the name, and the relay sends the content again. Nothing of it is written down: an environment holds secrets.
"""

import hashlib
import hmac
import os
from collections import OrderedDict
from typing import Annotated

import msgspec

from outlive.core.documents import checked_json
from outlive.frontends.mcp.tools.calls import Project
from outlive.operations.requests import ProjectFolder
from outlive.operations.tool_sets import ToolSet
from outlive.protocols.mcp.messages import MAX_ENVIRONMENT_BYTES

# A host has one project for each of its windows. The oldest is forgotten first, and sent again when it is
# needed.
_MAX_OF_PRINCIPAL = 128


class ProjectRequest(msgspec.Struct, kw_only=True, frozen=True):
    """What a relay sends of its host: absolute paths, the environment, and the tool set that it was
    configured for.

    `relay` is random, the same for as long as the relay lives.
    """

    cwd: ProjectFolder
    root: ProjectFolder
    env: dict[str, str] = {}
    tools: ToolSet | None = None
    relay: Annotated[str, msgspec.Meta(max_length=64)] = ""

    def __post_init__(self) -> None:
        """Refuse what no command could be given."""
        # Here, once: at a start it would be refused after the caller has been given the impression of a
        # working session.
        if any("\0" in text for text in (self.cwd, self.root, *self.env, *self.env.values())):
            raise ValueError("NUL characters cannot be passed to a process")
        if sum(len(name) + len(value) + 2 for name, value in self.env.items()) > MAX_ENVIRONMENT_BYTES:
            raise ValueError(f"env has more than {MAX_ENVIRONMENT_BYTES} bytes")

    def __repr__(self) -> str:
        """Return the kind alone: an environment stands in no text."""
        return f"<{type(self).__name__}>"


class Projects:
    """The projects of each principal by their names. Only the event loop uses it."""

    def __init__(self) -> None:
        self._key = os.urandom(32)  # a name must not confirm a guess of what an environment holds
        self._known: dict[str, OrderedDict[str, Project]] = {}

    def add(self, body: bytes, principal: str) -> str:
        """Take what a relay has sent, and return its name.

        Raises:
            ValueError: The body is not a `ProjectRequest`.
        """
        asked = msgspec.json.decode(checked_json(body), type=ProjectRequest)
        project = Project(
            root=asked.root, cwd=asked.cwd, env=asked.env, tool_set=asked.tools, relay=asked.relay
        )
        # Per principal: a name that another principal has learned finds nothing, and fills no room but its
        # own.
        known = self._known.setdefault(principal, OrderedDict())
        # Of the whole body: the same host sends the same bytes, and gets the name that it has, after a
        # reconnect too.
        name = hmac.digest(self._key, body, hashlib.sha256).hex()
        known[name] = project
        known.move_to_end(name)
        if len(known) > _MAX_OF_PRINCIPAL:
            known.popitem(last=False)
        return name

    def find(self, name: str, principal: str) -> Project | None:
        """Return the project of a name; None for one that this server was not told of.

        None as well for one that was forgotten: the relay sends it again, and no host notices.
        """
        known = self._known.get(principal)
        project = None if known is None else known.get(name)
        if known is not None and project is not None:
            known.move_to_end(name)  # in use: others are forgotten before it
        return project
