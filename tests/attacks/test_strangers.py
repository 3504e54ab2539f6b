"""Another user, a forwarded request, a web page, a name that points here: what none of them may do."""

import socket

import pytest

from outlive.frontends.mcp.http.door import PATHS
from tests.attacks.attacking import Requests, ask, create_token, knock_as_nobody, needs_second_user
from tests.attacks.routes import PUBLIC, all_routes
from tests.support.raw import upgrade
from tests.support.server import OutliveServer

pytestmark = [pytest.mark.walls, pytest.mark.thorough]

_PROXY_HEADERS = [
    {"Forwarded": "for=192.0.2.1"},
    {"X-Forwarded-For": "192.0.2.1"},
    {"X-Forwarded-Proto": "https"},
    {"X-FORWARDED-HOST": "localhost"},
    {"Via": "1.1 proxy"},
    {"X-Real-IP": "127.0.0.1"},
]


@pytest.mark.promise("A.peer", "W.principal")
@needs_second_user
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_another_user_on_loopback_is_let_in_with_a_token_only(besieged: OutliveServer, host: str) -> None:
    """Of every port and every route there is; only what is public is answered."""
    ports, routes = besieged.ready["ports"], all_routes()
    # First, since an address that has shown wrong credentials is soon told to wait (429), as below.
    token = create_token(besieged, "read")
    answers = knock_as_nobody(ports["rest"], routes, host=host, token=token)
    assert answers["GET", "/v1/processes"] == 200
    # What dials in as a node shows a code or a credential: there no token counts.
    assert [one for one, status in answers.items() if status == 401] == [("WEBSOCKET", "/node")]
    for door, port in ports.items():
        for token in ("", "olv_" + "A" * 43):
            let_in = {
                route
                for route, status in knock_as_nobody(port, routes, host=host, token=token).items()
                if status not in {401, 429}
            }
            assert let_in <= PUBLIC, (door, token)


@pytest.mark.promise("A.peer")
@pytest.mark.parametrize("headers", _PROXY_HEADERS, ids=lambda headers: next(iter(headers)))
def test_a_forwarded_request_has_to_show_a_token(besieged: OutliveServer, headers: dict[str, str]) -> None:
    refused = Requests(besieged)("GET", "/v1/processes", headers=headers)
    assert (refused.status, refused.slug) == (401, "token_missing")
    assert upgrade(besieged.port, headers=headers).status == 401
    token = create_token(besieged, "read")
    assert Requests(besieged, token)("GET", "/v1/processes", headers=headers).status == 200


@pytest.mark.promise("A.origin", "S4.10")
@pytest.mark.parametrize("origin", ["http://evil.example", "http://localhost.evil.com", "null"])
def test_a_foreign_page_gets_403_on_every_route_and_upgrade_there_is(
    besieged: OutliveServer, origin: str
) -> None:
    token = create_token(besieged, "admin")
    for method, path in all_routes():
        for shown in ({}, {"Authorization": f"Bearer {token}"}):
            headers = {"Origin": origin, **shown}
            if method == "WEBSOCKET":
                status = upgrade(besieged.port, path=path, headers=headers).status
            else:
                status = ask(besieged.ready["ports"]["rest"], method, path, headers=headers).status
            assert status == 403, (method, path, shown)


@pytest.mark.promise("A.host")
@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.com", "127.0.0.1.nip.io"])
def test_a_name_that_was_made_to_point_here_gets_421_on_every_route_and_upgrade_there_is(
    besieged: OutliveServer, host: str
) -> None:
    for method, path in all_routes():
        if method == "WEBSOCKET":
            status = upgrade(besieged.port, path=path, host=host).status
        else:
            status = ask(besieged.ready["ports"]["rest"], method, path, headers={"Host": host}).status
        assert status == 421, (method, path)


@pytest.mark.promise("A.peer", "A.origin")
def test_a_page_of_the_server_itself_has_to_show_a_token_on_every_route(besieged: OutliveServer) -> None:
    """But where it may say hello: `test_local_pages`."""
    port = besieged.ready["ports"]["rest"]
    for method, path in all_routes():
        if path in PATHS or (method, path) in PUBLIC:
            continue
        if method == "WEBSOCKET":
            headers = {"Origin": f"http://localhost:{besieged.port}"}
            status = upgrade(besieged.port, path=path, headers=headers).status
        else:
            status = ask(port, method, path, headers={"Origin": f"http://localhost:{port}"}).status
        assert status == 401, (method, path)


@pytest.mark.promise("A.peer")
def test_a_v4_mapped_client_of_ours_is_known_as_ours(besieged: OutliveServer) -> None:
    """Its socket is one of IPv6, its addresses are IPv4's: the kernel lists it among IPv6."""
    try:
        connection = socket.socket(socket.AF_INET6)
        connection.connect(("::ffff:127.0.0.1", besieged.ready["ports"]["rest"]))
    except OSError as error:
        pytest.skip(f"no mapped addresses here: {error}")
    with connection:
        connection.sendall(b"GET /v1/processes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert b" 200 " in connection.recv(4096).split(b"\r\n")[0]
