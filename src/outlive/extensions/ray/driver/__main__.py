"""The driver's program: it reads orders from the socket that it was given, and writes answers, and each
second a report.

It ends when the server's end of the socket is closed. Whatever Ray does to it is the server's to notice: it
ends, and the server starts it again.
"""

import argparse
import os
import queue
import socket
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable

import ray

from outlive.extensions.ray.driver.hosts import RayHosts
from outlive.extensions.ray.driver.leases import NAMESPACE, RayLeases
from outlive.extensions.ray.leases import DriverMessage, LeaseAnswer, LeaseOrder, decode_order, line

_REPORT_S = 1.0
# Each waits for Ray's control server most of the time, up to 2.5 s where the room is not there.
_THREADS = 8


class _Orders:
    """The orders that were not carried out yet; those of one process one after the other, in any thread."""

    def __init__(self) -> None:
        self._of: dict[str, deque[LeaseOrder]] = {}
        self._ready: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._lock = threading.Lock()

    def put(self, order: LeaseOrder) -> None:
        """Add an order."""
        with self._lock:
            waiting = self._of.get(order.process_id)
            if waiting is None:
                self._of[order.process_id] = deque([order])
                self._ready.put(order.process_id)
            else:
                waiting.append(order)

    def take(self) -> LeaseOrder:
        """Wait for an order; `done` is to be called with its process."""
        process_id = self._ready.get()
        with self._lock:
            return self._of[process_id][0]

    def done(self, process_id: str) -> None:
        """Let the process's next order be taken."""
        with self._lock:
            waiting = self._of[process_id]
            waiting.popleft()
            if waiting:
                self._ready.put(process_id)
            else:
                del self._of[process_id]


class _Driver:
    """The threads of this process around one connection to the server."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self.orders = _Orders()

    def read(self) -> None:
        """Take orders until the server is gone, and end this process then."""
        with self._connection.makefile("rb") as lines:
            for raw in lines:
                self.orders.put(decode_order(raw))
        os._exit(0)

    def work(self, leases: RayLeases) -> None:
        """Carry out orders, for ever."""
        while True:
            order = self.orders.take()
            try:
                reason = leases.carry_out(order)
            except Exception as error:  # noqa: BLE001 - Ray raises many kinds: the server asks again
                traceback.print_exc()
                reason = f"{type(error).__name__}: {error}"
            self.say(
                DriverMessage(
                    answer=LeaseAnswer(number=order.number, is_done=not reason, reason=reason[:500])
                )
            )
            self.orders.done(order.process_id)

    def say(self, message: DriverMessage) -> None:
        """Send a message; this process ends where the server is gone."""
        with self._sending:
            try:
                self._connection.sendall(line(message))
            except OSError:
                os._exit(0)


def _begin(target: Callable[..., None], *args: object) -> None:
    threading.Thread(target=target, args=args, daemon=True).start()


def main() -> None:
    """Run until the server or Ray is gone."""
    parser = argparse.ArgumentParser(prog="python -m outlive.extensions.ray.driver")
    parser.add_argument("--socket", type=int, required=True, help="the descriptor of a connected socket")
    parser.add_argument("--address", required=True, help="of Ray's control server")
    parser.add_argument("--owner", required=True, help="the server's name among those that lease")
    asked = parser.parse_args()
    driver = _Driver(socket.socket(fileno=asked.socket))
    _begin(driver.read)
    ray.init(
        address=asked.address,
        namespace=NAMESPACE,
        log_to_driver=False,
        configure_logging=False,
    )
    leases = RayLeases(asked.owner)
    for _ in range(_THREADS):
        _begin(driver.work, leases)
    hosts = RayHosts(asked.owner)
    while True:
        driver.say(DriverMessage(report=leases.look()))
        for found in hosts.look():
            driver.say(DriverMessage(found=found))
        time.sleep(_REPORT_S)


if __name__ == "__main__":
    main()
