"""Five thousand processes, really started, in the page's list and tree: all are found, few are drawn, and
nothing is fetched twice.
"""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from outlive.client import AsyncClient
from tests.support.browsing import Browser, expect
from tests.support.server import OutliveServer
from tests.web.opened import open_page

pytestmark = [pytest.mark.rare, pytest.mark.timeout(400)]

_MANY = 5000
_AT_ONCE = 64  # starts on their way: the server takes that many of one caller
_DRAWN = "document.querySelectorAll('.row').length"
_MOST_DRAWN = 60  # a window's rows, and some beside them
_MOST_NODES = 4000  # in the document: a row has some forty
_ROWS = "document.querySelector('.rows')"


async def _start(state_dir: Path) -> None:
    async with AsyncClient(state_dir, start_server=False) as client:
        turn = asyncio.Semaphore(_AT_ONCE)

        async def one(number: int) -> None:
            async with turn:
                await client.start(
                    ["true" if number % 2 else "false"],
                    name=f"many-{number}",
                    tags={"tenth": str(number % 10)},
                    project=f"/srv/p{number % 20}",
                )

        await asyncio.gather(*map(one, range(_MANY)))


@pytest.mark.promise("U.list", "U.tree")
def test_five_thousand_are_listed_sorted_filtered_and_few_are_drawn(
    window: Browser, own_server: OutliveServer
) -> None:
    # A browser's thread runs no other event loop.
    with ThreadPoolExecutor(1) as beside:
        beside.submit(asyncio.run, _start(own_server.state_dir)).result()
    address = open_page(window, own_server)
    window.until_text(f"{_MANY} shown")
    assert 0 < window.value(_DRAWN) < _MOST_DRAWN
    nodes = "document.querySelectorAll('*').length"
    assert window.value(nodes) < _MOST_NODES
    asked = (
        "(() => { const s = WebSocket.prototype.send; window.sent = [];"
        " WebSocket.prototype.send = function (t) { window.sent.push(JSON.parse(t).method); return "
        "s.call(this, t); }; })()"
    )
    window.value(asked)
    window.value(
        f"(async () => {{ for (let turn = 0; turn < 100; turn += 1) {{ {_ROWS}.scrollTop += 2600;"
        " await new Promise(requestAnimationFrame); } })()"
    )
    assert window.value(_DRAWN) < _MOST_DRAWN
    names = window.page.locator(".what > b")
    expect(names.filter(has_text=re.compile("^many-0$"))).to_be_visible()
    window.value(f"{_ROWS}.scrollTop = 0")
    window.page.get_by_role("searchbox", name="Filter").fill("tenth=3 many-12")
    window.until_text("11 shown")
    window.go("#/list?exit=failed&sort=name")
    window.until_text("2500 shown")
    assert names.all_inner_texts()[:6] == [f"many-{number}" for number in range(0, 12, 2)]
    window.go("#/list?as=tree&tag=tenth%3D3")
    assert "/srv/p3" in window.until_text("500 shown")
    assert window.value(_DRAWN) < _MOST_DRAWN
    assert not {"list", "get", "events"} & set(window.value("window.sent")), (
        "what is known is not asked for again"
    )
    # Opened anew, the address shows the same.
    window.open(f"{address}#/list?q=many-4999")
    window.until_text("1 shown")
