"""Idempotency-Key: a request that is sent twice starts one command (draft-ietf-httpapi-idempotency-key-header).

Key and body are kept with the process, as hashes in the place of its connection and its request, so that they are
known after a restart, too, and as long as the process is.
"""

import asyncio
import hashlib
from weakref import WeakValueDictionary

from outlive.core.command import Command
from outlive.core.process import Owner
from outlive.engine import Process, ProcessFilter
from outlive.frontends.rest.context import RestContext
from outlive.frontends.rest.problems import HttpRefusal

_MARK = "key:"


class IdempotentStarts:
    """Starts commands, each key's once."""

    def __init__(self, context: RestContext) -> None:
        """Nothing is remembered here but which keys are being started right now."""
        self._context = context
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def start(self, command: Command, key: str | None, body: bytes) -> tuple[Process, bool]:
        """Return the process, and whether it was started now.

        Raises:
            HttpRefusal: `key_reused`: the key started something else before.
            OutliveError: As `Engine.start`.
        """
        engine = self._context.engine
        if key is None:
            return await engine.start(command, owner=self._context.owner()), True
        mark = _MARK + hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
        fingerprint = hashlib.sha256(body).hexdigest()
        lock = self._locks.setdefault(mark, asyncio.Lock())
        async with lock:
            known = await self._find(self._context.owner(connection_id=mark))
            if known is None:
                owner = self._context.owner(connection_id=mark, request_id=fingerprint)
                return await engine.start(command, owner=owner), True
            if known.record.owner.request_id != fingerprint:
                raise HttpRefusal("key_reused", "This Idempotency-Key was used with another body.")
            return known, False

    async def _find(self, owner: Owner) -> Process | None:
        wanted = ProcessFilter(principal=owner.principal, connection_id=owner.connection_id)
        records = await self._context.engine.list(wanted, limit=1)
        return await self._context.engine.find(records[0].process_id) if records else None
