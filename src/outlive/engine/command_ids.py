"""Names of commands for people and old clients: `cmd_<unix seconds>_<n>`, unique for ever (promise S1.3).

The counter is reserved in blocks: a crash skips numbers, it never repeats one.
"""

from outlive.store.registry import Registry

_COUNTER = "command_id"
_BLOCK = 1000


class CommandIds:
    """Hands out names; only the loop's thread uses it."""

    def __init__(self, registry: Registry) -> None:
        """Nothing is reserved before `open`."""
        self._registry = registry
        self._next = self._reserved = 0

    async def open(self) -> None:
        """Reserve the first block; committed when this returns."""
        self._next = await self._registry.counter(_COUNTER) + 1
        self._reserve()
        await self._registry.flush()

    def new(self, now_s: int) -> str:
        """Return the next name."""
        number = self._next
        self._next += 1
        if self._reserved - self._next < _BLOCK // 2:
            self._reserve()  # committed long before it is needed; the seconds guard what is left to chance
        return f"cmd_{now_s}_{number}"

    def _reserve(self) -> None:
        self._reserved = self._next + _BLOCK
        self._registry.count_to(_COUNTER, self._reserved)
