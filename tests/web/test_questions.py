"""What waits for input is answered in a real Chromium; a password is shown nowhere."""

import contextlib
import http.client
from typing import TYPE_CHECKING

import pytest

from tests.attacks.attacking import Requests
from tests.support.browsing import Browser, expect
from tests.support.server import OutliveServer
from tests.web.opened import open_page

if TYPE_CHECKING:
    from playwright.sync_api import Route

pytestmark = pytest.mark.thorough


def _type(server: OutliveServer, process_id: str, text: str) -> None:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.ready["ports"]["rest"])) as sent:
        sent.request("POST", f"/v1/processes/{process_id}/stdin", body=text.encode())
        assert sent.getresponse().status == 200


def _answer_unseen(window: Browser, server: OutliveServer, process_id: str) -> None:
    """Answer elsewhere, and wait until the next thing is asked; the page does not look meanwhile."""
    window.value("""window.isHidden = true;
        Object.defineProperty(document, 'hidden', {get: () => window.isHidden, configurable: true})""")
    _type(server, process_id, "typed elsewhere\r")
    Requests(server)("GET", f"/v1/processes/{process_id}/wait?until=question&timeout=20")


def _look(window: Browser) -> None:
    """Let the page be seen again."""
    window.value("window.isHidden = false; document.dispatchEvent(new Event('visibilitychange'))")


@pytest.mark.promise("U.questions")
def test_a_question_is_seen_and_answered(window: Browser, own_server: OutliveServer) -> None:
    asking = Requests(own_server)
    open_page(window, own_server)
    window.page.get_by_role("link", name="Questions").click()
    window.until_text("Nothing waits for input.")
    line = "read -p 'your name? ' name; echo hello $name"
    process_id = asking.start(line, name="curious", pty=True, stdin="pipe")["process_id"]
    assert "curious" in window.until_text("your name?")
    answer = window.page.get_by_role("article", name="Question of curious").get_by_label("Answer")
    expect(answer).to_have_attribute("type", "text")
    assert window.page.title() == "(1) outlive"
    answer.fill("Ada")
    answer.press("Enter")
    window.until_text("Nothing waits for input.")
    assert "hello Ada" in asking.output(process_id)


@pytest.mark.promise("U.questions")
def test_a_password_is_typed_unseen(window: Browser, own_server: OutliveServer) -> None:
    asking = Requests(own_server)
    line = "read -s -p 'Password: ' secret; echo; echo $secret | sha256sum"
    process_id = asking.start(line, pty=True, stdin="pipe")["process_id"]
    open_page(window, own_server)
    window.go("#/questions")
    window.until_text("Password:")
    answer = window.page.get_by_label("Answer, not shown")
    expect(answer).to_have_attribute("type", "password")
    answer.fill("sesame-7")
    window.page.get_by_role("button", name="Send").click()
    window.until_text("Nothing waits for input.")
    told = asking.output(process_id)
    assert "sesame-7" not in told + window.text
    assert "  -" in told


@pytest.mark.promise("U.questions")
def test_what_was_typed_for_one_question_is_no_answer_to_the_next(
    window: Browser, own_server: OutliveServer
) -> None:
    asking = Requests(own_server)
    line = "read -s -p 'Password: ' secret; read -p 'your name? ' name; echo hello $name"
    process_id = asking.start(line, pty=True, stdin="pipe")["process_id"]
    open_page(window, own_server)
    window.go("#/questions")
    window.until_text("Password:")
    window.page.get_by_label("Answer, not shown").fill("half-of-a-sec")
    _answer_unseen(window, own_server, process_id)
    _look(window)
    window.until_text("your name?")
    answer = window.page.get_by_label("Answer", exact=True)
    expect(answer).to_have_attribute("type", "text")
    expect(answer).to_have_value("")
    answer.fill("Ada")
    answer.press("Enter")
    window.until_text("Nothing waits for input.")
    assert "hello Ada" in asking.output(process_id)


@pytest.mark.promise("U.questions")
def test_an_answer_to_what_is_not_asked_any_more_is_not_sent(
    window: Browser, own_server: OutliveServer
) -> None:
    asking = Requests(own_server)
    line = "read -p 'Look? ' a; read -p 'Remove? ' b; echo it was $b."
    process_id = asking.start(line, pty=True, stdin="pipe")["process_id"]
    open_page(window, own_server)
    window.go("#/questions")
    window.until_text("Look?")
    window.page.get_by_label("Answer", exact=True).fill("yes")
    _answer_unseen(window, own_server, process_id)
    window.page.get_by_role("button", name="Send").click()
    window.until_text("does not ask that any more")
    _look(window)
    window.until_text("Remove?")
    answer = window.page.get_by_label("Answer", exact=True)
    answer.fill("no")
    answer.press("Enter")
    window.until_text("Nothing waits for input.")
    assert "it was no." in asking.output(process_id)


@pytest.mark.promise("U.questions")
def test_an_answer_begun_stays_where_the_question_was_shown_late(
    window: Browser, own_server: OutliveServer
) -> None:
    """What is on the screen may be newer than the look that has found the question."""
    asking = Requests(own_server)
    line = "read -p 'one? ' a; read -p 'two? ' b; echo it was $b."
    process_id = asking.start(line, pty=True, stdin="pipe")["process_id"]
    asking("GET", f"/v1/processes/{process_id}/wait?until=question&timeout=20")
    looks: list[str] = []

    def late(route: "Route") -> None:
        looks.append(route.request.url)
        if len(looks) == 1:
            _type(own_server, process_id, "x\r")
            while "two?" not in asking.output(process_id):
                pass
        route.continue_()

    window.page.route("**/output?*", late)
    open_page(window, own_server)
    window.go("#/questions")
    window.until_text("two?")
    answer = window.page.get_by_label("Answer", exact=True)
    answer.fill("no")
    window.value("new Promise((done) => setTimeout(done, 2500))")  # two looks of the page
    expect(answer).to_have_value("no")
    answer.press("Enter")
    window.until_text("Nothing waits for input.")
    assert "it was no." in asking.output(process_id)


# Whether the button of a question can be pressed at the moment at which another question has gone.
_WATCH_SEND = """
window.wasDisabled = null;
new MutationObserver(() => {
    if (window.wasDisabled !== null || document.body.innerText.includes("one?")) return;
    window.wasDisabled = document.querySelector("article button").disabled;
}).observe(document.body, { childList: true, subtree: true, characterData: true });
"""


@pytest.mark.promise("U.questions")
def test_right_after_a_question_has_gone_nothing_is_sent_to_the_one_in_its_place(
    window: Browser, own_server: OutliveServer
) -> None:
    asking = Requests(own_server)
    open_page(window, own_server)
    window.go("#/questions")
    first = asking.start("read -p 'one? '", pty=True, stdin="pipe")["process_id"]
    window.until_text("one?")
    asking.start("read -p 'two? '", pty=True, stdin="pipe")
    window.until_text("two?")
    send = window.page.get_by_role("button", name="Send")
    expect(send).to_have_count(2)
    window.value(_WATCH_SEND)
    _type(own_server, first, "typed elsewhere\r")
    expect(send).to_have_count(1)
    assert window.value("wasDisabled") is True
    send.click()  # it waits until that is possible
    window.until_text("Nothing waits for input.")


@pytest.mark.promise("U.list", "U.questions")
def test_what_ended_while_its_question_was_read_has_ended_in_the_list(
    window: Browser, own_server: OutliveServer
) -> None:
    asking = Requests(own_server)
    open_page(window, own_server)
    window.until_text("shown")
    window.value("""const had = window.fetch;
        window.held = [];
        window.fetch = async (...words) => {
            const answer = await had(...words);
            if (String(words[0]).includes("/output?")) await new Promise((done) => held.push(done));
            return answer;
        }""")
    process_id = asking.start("read -p 'your name? '", name="curious", pty=True, stdin="pipe")["process_id"]
    window.until(lambda: window.value("held.length"))
    asking("POST", f"/v1/processes/{process_id}/signal", body={"signal": "KILL"})
    row = window.page.get_by_role("row").filter(has_text="curious")
    expect(row).to_contain_text("killed (KILL)")
    window.value("held.forEach((done) => done())")
    window.until(
        lambda: (
            window.value("import('/ui/questions/questions.js').then((one) => one.questions.value.size)") == 0
        )
    )
    expect(row).to_contain_text("killed (KILL)")


@pytest.mark.promise("U.questions", "N.prompt")
def test_an_idle_shell_is_no_question_and_what_asks_in_it_is(
    window: Browser, own_server: OutliveServer
) -> None:
    asking = Requests(own_server)
    shell = asking.start("exec bash --norc -i", name="idle", pty=True, stdin="pipe")["process_id"]
    open_page(window, own_server)
    window.go("#/questions")
    asking.start("read -p 'Sure? ' it", name="asks", pty=True, stdin="pipe")
    assert "idle" not in window.until_text("Sure?")
    line = "bash -c 'read -p \"Continue? [Y/n] \" it; echo it was $it'\n"
    _type(own_server, shell, line)
    assert "idle" in window.until_text("2 waiting for input")
    question = window.page.get_by_role("article", name="Question of idle")
    question.get_by_label("Answer").fill("Y")
    question.get_by_role("button", name="Send").click()
    window.until_text("1 waiting for input")
    _type(own_server, shell, "exit\n")
    assert "it was Y" in asking.output(shell)


@pytest.mark.promise("U.questions.hidden")
def test_a_hidden_page_does_not_look_whether_a_question_was_answered(
    window: Browser, own_server: OutliveServer
) -> None:
    asking = Requests(own_server)
    clock = asking.start("while sleep 0.1; do echo; done")["process_id"]
    process_id = asking.start("read -p 'your name? '", name="curious", pty=True, stdin="pipe")["process_id"]
    open_page(window, own_server)
    window.value("location.hash = '#/questions'")
    window.until_text("your name?")
    window.value("""window.asked = [];
        const had = WebSocket.prototype.send;
        WebSocket.prototype.send = function (text) { window.asked.push(String(text)); return had.call(this, text); };
        Object.defineProperty(document, 'hidden', {get: () => window.isHidden, configurable: true})""")  # noqa: E501 -- lines of a table, or of another language

    def pass_lines(count: int) -> None:
        before = asking("GET", f"/v1/processes/{clock}").body["stdout_bytes"]
        window.until(lambda: asking("GET", f"/v1/processes/{clock}").body["stdout_bytes"] >= before + count)

    window.until(lambda: window.value("asked.length") >= 2)  # it looks each second
    window.value("window.isHidden = true")
    pass_lines(12)  # what was on its way is answered
    window.value("asked.length = 0")
    pass_lines(25)
    assert window.value("asked") == []
    asking("POST", f"/v1/processes/{process_id}/signal", body={"signal": "KILL"})
    _look(window)
    window.until_text("Nothing waits for input.")


@pytest.mark.promise("U.questions")
def test_a_page_that_only_looks_types_nothing(window: Browser, own_server: OutliveServer) -> None:
    Requests(own_server).start("read name", pty=True, stdin="pipe", name="asks-in-vain")
    open_page(window, own_server, "--scope", "read")
    window.until_text("asks-in-vain")
    expect(window.page.get_by_role("link", name="Questions")).to_have_count(0)
    window.go("#/questions")
    window.until_text("types nothing")
