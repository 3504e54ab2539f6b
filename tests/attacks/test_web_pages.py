"""Web pages without an Origin header, targets that name a host, and names behind forwarded ports."""

import http.client

import pytest

from tests.attacks.attacking import create_token
from tests.attacks.forwarding import forwarded
from tests.attacks.raw_http import raw_request
from tests.attacks.routes import all_routes
from tests.support.fixtures import ServerFactory
from tests.support.raw import upgrade
from tests.support.server import OutliveServer

pytestmark = pytest.mark.thorough

_UPGRADE = (
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version: 13",
)
_IMAGE = ("Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image")
_LINK = ("Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Sec-Fetch-User: ?1")
_FRAME = ("Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe")


@pytest.mark.promise("A.origin.metadata")
@pytest.mark.parametrize("site", ["cross-site", "same-site", "Cross-Site", "anything"])
def test_a_page_that_sends_no_origin_is_foreign_by_fetch_metadata_on_every_route(
    besieged: OutliveServer, site: str
) -> None:
    port = besieged.ready["ports"]["rest"]
    for method, path in all_routes():
        if method == "WEBSOCKET":
            status = upgrade(besieged.port, path=path, headers={"Sec-Fetch-Site": site}).status
        else:
            status = raw_request(port, f"{method} {path} HTTP/1.1", f"Sec-Fetch-Site: {site}", *_IMAGE).status
        assert status == 403, (method, path)


@pytest.mark.promise("A.origin.metadata")
def test_a_link_on_a_foreign_page_opens_static_pages_only_and_nothing_frames_them(
    besieged: OutliveServer,
) -> None:
    port = besieged.ready["ports"]["rest"]
    cross = "Sec-Fetch-Site: cross-site"
    for path in ("/", "/docs", "/openapi.json"):
        opened = raw_request(port, f"GET {path} HTTP/1.1", cross, *_LINK)
        assert opened.status == 200, path
        assert "frame-ancestors 'none'" in opened.headers["content-security-policy"]
        assert opened.headers["x-frame-options"] == "DENY"
        assert "access-control-allow-origin" not in opened.headers
        assert raw_request(port, f"GET {path} HTTP/1.1", cross, *_FRAME).status == 403
        assert raw_request(port, f"POST {path} HTTP/1.1", cross, *_LINK).status == 403
        assert raw_request(port, f"GET {path} HTTP/1.1", cross, *_LINK[:1]).status == 403
        origin = "Origin: http://evil.example"
        assert raw_request(port, f"GET {path} HTTP/1.1", cross, origin, *_LINK).status == 403
    for path in ("/v1/processes", "/metrics", "/api/async/processes/list/", "/readyz"):
        assert raw_request(port, f"GET {path} HTTP/1.1", cross, *_LINK).status == 403


@pytest.mark.promise("A.origin.metadata")
def test_an_address_that_a_person_types_is_no_page(besieged: OutliveServer) -> None:
    port = besieged.ready["ports"]["rest"]
    assert raw_request(port, "GET /v1/processes HTTP/1.1", "Sec-Fetch-Site: none", *_LINK).status == 200


@pytest.mark.promise("A.origin.metadata")
def test_a_page_of_the_servers_own_address_is_a_page_without_an_origin_too(besieged: OutliveServer) -> None:
    """Another program may have served it there before: GET of one's own origin carries no Origin."""
    port = besieged.ready["ports"]["rest"]
    own = ("Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty")
    assert raw_request(port, "GET /v1/processes HTTP/1.1", *own).status == 401
    shown = f"Authorization: Bearer {create_token(besieged, 'read')}"
    assert raw_request(port, "GET /v1/processes HTTP/1.1", *own, shown).status == 200


@pytest.mark.promise("A.host.target")
@pytest.mark.parametrize(
    "target", ["http://evil.example", "http://localhost@evil.example", "http://localhost.evil:1"]
)
def test_the_host_of_an_absolute_target_counts_as_host(besieged: OutliveServer, target: str) -> None:
    port = besieged.ready["ports"]["rest"]
    assert raw_request(port, f"GET {target}/v1/processes HTTP/1.1").status == 421
    host = target.partition("://")[2]
    assert raw_request(port, f"GET {target}/v1/processes HTTP/1.1", host=host).status == 421
    assert raw_request(port, f"GET {target}/ws/mcp HTTP/1.1", *_UPGRADE).status == 421


@pytest.mark.promise("A.host.target")
def test_an_absolute_target_that_is_ours_is_answered_like_its_path(besieged: OutliveServer) -> None:
    port = besieged.ready["ports"]["rest"]
    own = f"localhost:{port}"
    assert raw_request(port, f"GET http://{own}/v1/processes?limit=1 HTTP/1.1", host=own).status == 200
    assert raw_request(port, f"GET HTTP://LOCALHOST:{port} HTTP/1.1", host=own).json["name"] == "outlive"
    assert raw_request(port, f"GET http://{own}/ws/mcp HTTP/1.1", *_UPGRADE, host=own).status == 101
    # Two of our own names are still two: which one the caller meant is not guessed.
    assert raw_request(port, f"GET http://127.0.0.1:{port}/ HTTP/1.1", host=own).status == 421


@pytest.mark.promise("A.host.forwarded")
def test_a_forwarded_port_works_on_every_door(besieged: OutliveServer) -> None:
    token = create_token(besieged, "run")
    shown = {"Authorization": f"Bearer {token}"}
    ports = besieged.ready["ports"]
    with forwarded(ports["jsonrpc"]) as port:
        assert port != ports["jsonrpc"]
        assert upgrade(port, host=f"localhost:{port}", headers=shown).status == 101
        origin = {"Origin": f"http://localhost:{port}", **shown}
        assert upgrade(port, host=f"localhost:{port}", headers=origin).status == 101
    with forwarded(ports["bridge"]) as port:
        assert upgrade(port, path="/", host=f"127.0.0.1:{port}", headers=shown).status == 101
    for door, path in (("rest", "/v1/processes"), ("rest", "/api/async/processes/list/")):
        with forwarded(ports[door]) as port:
            connection = http.client.HTTPConnection("localhost", port, timeout=20)
            connection.request("GET", path, headers=shown)
            assert connection.getresponse().status == 200
            connection.close()
    with forwarded(ports["mcp"]) as port:
        connection = http.client.HTTPConnection("localhost", port, timeout=20)
        body = b'{"jsonrpc":"2.0","id":0,"method":"initialize"}'
        connection.request("POST", "/mcp", body, {"Content-Type": "application/json", **shown})
        assert connection.getresponse().status == 200
        connection.close()


@pytest.mark.promise("A.host.public")
def test_a_public_name_means_what_it_says(serve: ServerFactory) -> None:
    server = serve(OUTLIVE_PUBLIC_NAME="box.example:9443,other.example,[fd00::1]:9443")
    port = server.ready["ports"]["rest"]
    for host, status in (
        ("box.example:9443", 200),
        ("BOX.example:9443", 200),
        ("box.example", 421),  # it stands for port 80
        ("box.example:9444", 421),
        ("other.example", 200),
        ("other.example:1234", 200),
        ("[fd00::1]:9443", 200),
        ("[fd00::1]", 421),
    ):
        assert raw_request(port, "GET / HTTP/1.1", host=host).status == status, host
