"""`NodeKeys`: what a machine shows that connects as a node by itself: the code of its invitation, and later a
credential.

Both are kept as hashes. A code counts once, for ten minutes. A credential is changed at each connection: the
old one counts until the machine is known to have kept the new one, so that a crash on either side costs no
node, and a copy of it is worth nothing as soon as the original has connected once more (decision 211).
"""

import asyncio
import hmac
import secrets
import time
from collections.abc import Callable, Mapping

from outlive.core.errors import AccessDenied, LimitExceeded
from outlive.core.values import dataclass, replace
from outlive.engine.processes.places import Places
from outlive.extensions.fleet.node_files import KeptInvitation, NodeEntry, NodeFiles
from outlive.policy.access import PREFIX, digest_of


class DeclaredNodes:
    """The entries by name. A change is on disk before it counts. On the engine's loop only.

    Attributes:
        entries: What is declared; changed by this class alone.
        changing: Held by a caller from its look at an entry to the end of its change.
    """

    def __init__(self, files: NodeFiles, places: Places) -> None:
        self._files = files
        self._places = places
        self.entries: dict[str, NodeEntry] = {}
        self.changing = asyncio.Lock()

    async def open(self) -> None:
        """Take over what was declared earlier."""
        for entry in await asyncio.to_thread(self._files.read):
            self.entries[entry.name] = entry
            self._places.nodes.declare(entry)

    async def keep(self, entry: NodeEntry) -> None:
        """Declare a node so from now on.

        Raises:
            LimitExceeded: `disk_full`; what was declared before counts.
        """
        try:
            await asyncio.to_thread(self._files.put, entry)
        except OSError as error:
            raise LimitExceeded("disk_full", f"The node cannot be kept: {error.strerror}.") from error
        self.entries[entry.name] = entry
        self._places.nodes.declare(entry)

    async def drop(self, name: str) -> None:
        """Forget what was declared of a node."""
        await asyncio.to_thread(self._files.remove, name)
        self.entries.pop(name, None)
        self._places.nodes.undeclare(name)


INVITED_S = 600.0  # long enough to walk to the other machine, too short to be found in a note later
# As long as a token's: nothing is left to guess. With the prefix of tokens none of them counts as no secret
# at another door.
_CODE, _CREDENTIAL = f"{PREFIX}join_", f"{PREFIX}node_"
_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKey:
    """What was shown, recognised: whose it is, its hash, and whether it is the code of an invitation."""

    node: str
    digest: str
    is_code: bool


class NodeKeys:
    """Makes, recognises and changes them. On the engine's loop only."""

    def __init__(self, declared: DeclaredNodes, *, clock: Callable[[], float] = time.time) -> None:
        """Take the nodes; `clock` gives seconds since the epoch, as an invitation's end is kept over a
        restart.
        """
        self._declared = declared
        self._clock = clock

    def invitation(self) -> tuple[str, KeptInvitation]:
        """Return a new code, which is shown once, and what is kept of it."""
        code = _CODE + secrets.token_urlsafe(_SECRET_BYTES)
        return code, KeptInvitation(digest=digest_of(code), expires_s=self._clock() + INVITED_S)

    def find(self, secret: str) -> NodeKey | None:
        """Return what a secret is; None when it is unknown, used up or expired.

        How long this takes shows nothing of it.
        """
        digest, found = digest_of(secret), None
        for name, entry in self._declared.entries.items():
            for one in entry.credentials:
                if hmac.compare_digest(one, digest):
                    found = NodeKey(node=name, digest=digest, is_code=False)
            code = entry.invitation
            if (
                code is not None
                and hmac.compare_digest(code.digest, digest)
                and self._clock() < code.expires_s
            ):
                found = NodeKey(node=name, digest=digest, is_code=True)
        return found

    def name_of(self, secret: str) -> str | None:
        """Return the name of the node that a secret lets in; None as for `find`."""
        found = self.find(secret)
        return None if found is None else found.node

    async def renew(self, key: NodeKey) -> str:
        """Return a new credential for the machine that has shown `key`, which counts beside what it has
        shown.

        Raises:
            AccessDenied: `token_invalid`: meanwhile `key` counts no more.
            LimitExceeded: `disk_full`.
        """
        credential = _CREDENTIAL + secrets.token_urlsafe(_SECRET_BYTES)
        async with self._declared.changing:
            entry = self._declared.entries.get(key.node)
            code = None if entry is None else entry.invitation
            if entry is None or not self.is_current(key):
                raise AccessDenied("token_invalid", "The code or the credential counts no more.")
            if key.is_code and code is not None:
                # The machine that has been the node so far goes on being it until the new one has kept its
                # credential.
                kept = replace(
                    entry,
                    credentials=(*entry.credentials[:1], digest_of(credential)),
                    invitation=replace(code, gave=digest_of(credential)),
                )
            else:
                is_used = code is not None and code.gave == key.digest
                kept = replace(
                    entry,
                    credentials=(key.digest, digest_of(credential)),
                    invitation=None if is_used else code,
                )
            await self._declared.keep(kept)
        return credential

    async def kept(self, key: NodeKey, credential: str, labels: Mapping[str, str]) -> NodeKey:
        """Record that the machine has kept its new credential: nothing else counts for the node any more.

        Return its key.

        Args:
            key: What the machine had shown.
            credential: What it was given for that.
            labels: Labels that it gives itself from now on, in the place of those of before; those of its
                invitation come first.

        Raises:
            AccessDenied: `token_invalid`: meanwhile the node was removed, or another machine has joined in
            its place.
            LimitExceeded: `disk_full`: both go on counting.
        """
        new = NodeKey(node=key.node, digest=digest_of(credential), is_code=False)
        async with self._declared.changing:
            entry = self._declared.entries.get(key.node)
            if entry is None or not self.is_current(new):
                raise AccessDenied(
                    "token_invalid", "The node was removed, or another machine has joined in its place."
                )
            code = entry.invitation
            if key.is_code or (code is not None and code.gave in {key.digest, new.digest}):
                code = None
            await self._declared.keep(
                replace(entry, credentials=(new.digest,), invitation=code, own_labels=dict(labels))
            )
        return new

    def is_current(self, key: NodeKey) -> bool:
        """Return whether it counts: a machine that connected with it may stay."""
        entry = self._declared.entries.get(key.node)
        if entry is None:
            return False
        if not key.is_code:
            return key.digest in entry.credentials
        code = entry.invitation
        return code is not None and code.digest == key.digest and self._clock() < code.expires_s
