"""The way to the driver of Ray, without Ray."""

import asyncio
import os
import socket
import sys

import uvloop

from outlive.core.needs import Amounts
from outlive.extensions.ray.leased import LeasedPlacement
from outlive.extensions.ray.leases import LeaseOrder, LeaseReport, LeasingNode
from outlive.extensions.ray.ray_placement import RayDriver
from outlive.placement.fleet import Demand, FleetNode

_ORDER = LeaseOrder(number=1, process_id="p1", node="n1", amounts=Amounts.of(cpu=1))


def test_an_order_to_a_driver_that_was_just_killed_is_lost_without_an_error() -> None:
    """Its socket is closed before the server has noticed: whoever gives a place back just then must not hear
    of it.
    """

    async def order_until_it_is_closed() -> None:
        driver = RayDriver(address="", owner="", log_file=os.devnull)
        ours, theirs = socket.socketpair()
        _, writer = await asyncio.open_unix_connection(sock=ours)
        driver._writer = writer
        theirs.close()
        while not writer.is_closing():
            driver.send(_ORDER)
            await asyncio.sleep(0)
        driver.send(_ORDER)

    uvloop.run(order_until_it_is_closed())  # as servers run; asyncio's own transports pass over it


class _Short(RayDriver):
    """Its driver ends when it has got an order."""

    async def _start(self, descriptor: int) -> asyncio.subprocess.Process:
        line = f"import socket; socket.socket(fileno={descriptor}).recv(1 << 16)"
        return await asyncio.create_subprocess_exec(sys.executable, "-c", line, pass_fds=(descriptor,))


async def test_the_next_driver_gets_what_waits_for_an_answer_and_its_end_places_nothing_more() -> None:
    driver = _Short(address="", owner="", log_file=os.devnull)
    one = Amounts.of(cpu=1)
    placement = LeasedPlacement(FleetNode(name="local", capacity=Amounts()), driver)
    placement.node_changed(FleetNode(name="n1", capacity=one))
    placement.reported(LeaseReport(nodes=(LeasingNode(name="n1", capacity=one, free=one),), leases=()))
    placement.acquire("p1", Demand(amounts=one))
    assert (placement.is_leasing("p1"), placement.nodes.is_there("n1")) == (True, True)
    async with asyncio.timeout(20):
        await driver._drive(placement)
    assert not placement.nodes.is_there("n1")
