"""Searching and tailing a gigabyte: the answers are right, and the server's memory does not grow with the
log.
"""

import pytest

from tests.rest.rest_caller import RestCaller
from tests.support.processes import memory_peak_bytes
from tests.support.server import OutliveServer

_MIB = 1024 * 1024
# 16 million lines of 64 bytes, and two of nine between them.
_WRITE = (
    "yes {line} | head -n 8000000; echo needle 1; yes {line} | head -n 7990000; echo needle 2; yes "
    "{line} | head -n 10000"
)


@pytest.mark.promise("R.large")
@pytest.mark.slow
@pytest.mark.alone
def test_a_gigabyte_is_searched_and_tailed_in_bounded_memory(own_server: OutliveServer) -> None:
    rest = RestCaller(own_server.rest_url)
    process = rest.start(_WRITE.format(line="x" * 63))
    process_id = process["process_id"]
    while rest.call("GET", f"/v1/processes/{process_id}/wait", timeout=20).json["timed_out"]:
        pass
    assert rest.output(process_id, tail=1)["cursor"] == f"{16_000_000 * 64 + 18}.0"
    before = memory_peak_bytes(own_server.pid)
    found = rest.output(process_id, grep="needle", context=2)
    assert [match["line"] for match in found["matches"]] == ["needle 1", "needle 2"]
    assert all(len(match["before"]) == len(match["after"]) == 2 for match in found["matches"])
    assert len(rest.output(process_id, grep="x", matches=10)["matches"]) == 10
    assert rest.output(process_id, grep="NEEDLE", ignore_case="true", stream="stdout")["matches"]
    assert rest.raw(process_id, tail=100) == (b"x" * 63 + b"\n") * 100
    assert rest.raw(process_id, tail=100, stream="stdout") == (b"x" * 63 + b"\n") * 100
    assert memory_peak_bytes(own_server.pid) - before < 50 * _MIB
