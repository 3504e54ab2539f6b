"""`GpuShares`: which of this machine's GPUs a command gets, so that two of them do not meet on one while
another idles. Pure.

How many are free all together is counted in `fleet`. What a command was given stands in its record, from
which this is made again by the next server.
"""

from collections.abc import Sequence

from outlive.core.needs import THOUSANDTHS


class GpuShares:
    """The GPUs by the names that drivers take (`CUDA_VISIBLE_DEVICES`), and what is given of each, in
    thousandths.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._free = dict.fromkeys(names, THOUSANDTHS)
        self._given: dict[str, dict[str, int]] = {}

    def take(self, process_id: str, gpu_milli: int) -> tuple[str, ...] | None:
        """Return the GPUs of a command from now on, None where they are not free as it needs them.

        Asking again changes nothing.

        It gets whole ones to itself; a part is given of the one that has the least left, so that whole ones
        stay whole.
        """
        known = self._given.get(process_id)
        if known is not None:
            return tuple(known)
        count, part = divmod(gpu_milli, THOUSANDTHS)
        whole = [name for name, free in self._free.items() if free == THOUSANDTHS]
        given = dict.fromkeys(whole[:count], THOUSANDTHS)
        if part:
            fits = [(free, name) for name, free in self._free.items() if free >= part and name not in given]
            if fits:
                given[min(fits)[1]] = part
        if sum(given.values()) < gpu_milli:
            return None
        self._give(process_id, given)
        return tuple(given)

    def adopt(self, process_id: str, names: Sequence[str], gpu_milli: int) -> None:
        """Count what a command was given that runs already.

        A GPU that is not there any more does not count.
        """
        if process_id in self._given:
            return
        shares = [min(THOUSANDTHS, gpu_milli - place * THOUSANDTHS) for place in range(len(names))]
        given = {name: share for name, share in zip(names, shares, strict=True) if name in self._free}
        self._give(process_id, given)

    def free(self, process_id: str) -> None:
        """Take back what a command was given. Safe to repeat."""
        for name, share in self._given.pop(process_id, {}).items():
            self._free[name] += share

    def _give(self, process_id: str, given: dict[str, int]) -> None:
        self._given[process_id] = given
        for name, share in given.items():
            self._free[name] -= share
