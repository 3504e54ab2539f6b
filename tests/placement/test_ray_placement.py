"""The way to the driver of Ray, without Ray."""

import asyncio
import os
import socket

import uvloop

from outlive.core.needs import Amounts
from outlive.placement.leases import LeaseOrder
from outlive.ray_placement import RayDriver

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
