"""The page is opened as a person opens it, in a real Chromium.

Other pages of this machine see and do nothing with it.
"""

from pathlib import Path

import pytest

from tests.attacks.attacking import Requests, create_token
from tests.support.browsing import Browser, pages
from tests.support.server import OutliveServer, run_outlive
from tests.web.opened import open_page

pytestmark = pytest.mark.thorough


@pytest.mark.promise("U.code", "U.shell")
def test_the_file_opens_the_page_which_lives_on_when_the_server_is_killed(
    window: Browser, own_server: OutliveServer
) -> None:
    Requests(own_server).start("sleep 60", name="seen-here")
    open_page(window, own_server)
    window.until_text("seen-here")
    secret = window.value("sessionStorage.getItem('outlive.token')")
    assert secret.startswith("olv_")
    assert secret not in window.value("document.documentElement.outerHTML")
    assert window.value("document.cookie") == ""
    own_server.kill()
    own_server.start()
    window.reload()
    window.until_text("seen-here")
    assert run_outlive("token", "revoke", "page-1", state_dir=own_server.state_dir).returncode == 0
    window.until_text("does not count")
    assert window.value("sessionStorage.length") == 0


@pytest.mark.promise("U.code")
def test_a_page_of_another_window_types_a_token_once(window: Browser, own_server: OutliveServer) -> None:
    Requests(own_server).start("sleep 60", name="typed-for")
    window.open(f"http://127.0.0.1:{own_server.ready['ports']['mcp']}/")
    window.until_text("type a token")
    token = window.page.get_by_label("Token")
    token.fill("wrong")
    window.page.get_by_role("button", name="Open").click()
    window.until_text("does not count")
    made = run_outlive("token", "create", "--as-user", "--scope", "read", state_dir=own_server.state_dir)
    token.fill(made.stdout.strip())
    token.press("Enter")
    window.until_text("typed-for")
    window.reload()
    window.until_text("typed-for")


# What a page tries that knows where outlive listens: all that it can without the token of another origin's
# window.
_HOSTILE = """
async ([address, processId, code]) => {
    const found = {};
    const attempt = async (name, work) => {
        try { found[name] = await work(); } catch (error) { found[name] = "refused"; }
    };
    const read = async (path, options) => {
        const answer = await fetch(address + path, options);
        return answer.status + " " + (await answer.text()).includes(processId);
    };
    const json = { "Content-Type": "application/json" };
    const start = { method: "POST", headers: json, body: '{"command": "touch broken-in"}' };
    await attempt("list", () => read("v1/processes"));
    await attempt("with cookies", () => read("v1/processes", { credentials: "include" }));
    await attempt("start", () => read("v1/processes", start));
    await attempt("blind start", () => fetch(address + "v1/processes", { ...start, mode: "no-cors", headers: {} }).then((a) => a.type));
    await attempt("approve", () => read("v1/approvals/" + processId + "/approve", { ...start, body: '{"digest": "0"}' }));
    await attempt("code", () => read("ui/session", { method: "POST", body: "code=" + code }));
    await attempt("codes", () => read("ui/codes", { method: "POST" }));
    const socket = (path) => new Promise((resolve) => {
        const made = new WebSocket(address.replace("http", "ws") + path);
        made.onopen = () => resolve("open");
        made.onclose = ({ code }) => resolve("closed " + code);
    });
    await attempt("events", () => socket("ws/mcp"));
    await attempt("terminal", () => socket("ws/terminal/" + processId));
    const frame = document.createElement("iframe");
    frame.src = address;
    await new Promise((resolve) => { frame.onload = resolve; document.body.append(frame); });
    return found;
}
"""  # noqa: E501 -- lines of a table, or of another language


@pytest.mark.promise("U.code.form", "U.shell", "S4.10.hello")
def test_a_hostile_page_of_another_port_reads_starts_approves_and_frames_nothing(
    window: Browser, own_server: OutliveServer, tmp_path: Path
) -> None:
    process_id = Requests(own_server).start("sleep 60", name="private")["process_id"]
    address = open_page(window, own_server)
    window.until_text("private")
    unused = run_outlive("ui", "--print", state_dir=own_server.state_dir)
    code = Path(unused.stdout.strip()).read_text().partition('name="code" value="')[2].partition('"')[0]
    with pages(tmp_path / "pages") as origin:
        (tmp_path / "pages/evil.html").write_text("<!doctype html><title>evil</title><body>evil</body>")
        # The same window, which has shown the page, and whose browser has every credential there is.
        window.open(f"{origin.replace('localhost', '127.0.0.1')}/evil.html")
        found = window.page.evaluate(_HOSTILE, [address, process_id, code])
        framed = window.page.frame_locator("iframe").locator("body")
        assert "foreign_origin" in framed.inner_text(), "the frame shows why it shows nothing"
        assert window.value("sessionStorage.length + localStorage.length + document.cookie.length") == 0
    statuses = {name: str(told).split(" ")[0] for name, told in found.items()}
    assert statuses == {
        "list": "401",
        "with cookies": "refused",
        "start": "401",
        "blind start": "opaque",
        "approve": "401",
        "code": "401",
        "codes": "401",
        "events": "closed",
        "terminal": "closed",
    }
    assert not any("true" in str(told) for told in found.values())
    listed = Requests(own_server, create_token(own_server, "admin"))("GET", "/v1/processes")
    assert listed.status == 200
    mine = Requests(own_server)("GET", "/v1/processes").body["processes"]
    assert [one["process_id"] for one in mine] == [process_id], "nothing was started"
