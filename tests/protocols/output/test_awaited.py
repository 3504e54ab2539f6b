"""Which output meets a wish: letter case, beginnings of words, regular expressions, colours."""

import pytest

from outlive.protocols.output.awaited import AwaitedText


@pytest.mark.promise("S4.13.waits")
@pytest.mark.parametrize(
    ("wish", "output", "is_met"),
    [
        ("ready", "VITE ready in 300 ms", True),
        ("ready", "Server is READY.", True),
        ("ready", "readyz answers", True),
        ("ready", "Error: address already in use", False),
        ("Listening", "listening on :3000", True),
        ("Listening", "unlistening", False),
        ("Error", "TypeError: x is not a function", False),
        ("Error", "2 errors", True),
        ("Error", "Error: listen EADDRINUSE", True),
        ("Continue? [y/N]", "Continue? [y/N] ", True),
        ("Continue? [y/N]", "continued", False),
        ("Continue?", "continuing", False),
        ("Continue?", "Continue? ", True),
        ("https?://", "see http://localhost", True),
        ("x*", "any other output", False),
        ("[y/N]", "any other output", False),
        ("[y/N]", "Sure? [Y/n]", True),
        (">>> ", "Python 3.11\n>>> ", True),
        (">>> ", ">> ", False),
        ("...", "loaded", False),
        ("200", "GET / HTTP/1.1 200 OK", True),
        ("200", "1200 modules", False),
        ("ready in \\d+ ms", "ready in 300 ms", True),
        ("ready|listening", "address already in use", False),
        ("ready|listening", "now Listening", True),
        ("f(x", "f(x) = 1", True),
        ("up\n", "it is up", True),
        ("ready", "\x1b[32mready\x1b[0m", True),
        ("Local: http", "\x1b[1mLocal\x1b[22m: http://localhost", True),
        ("ready", "loading\x1b[2K\x1b[1Gready", True),
        ("ready", "\x1b[31malready\x1b[0m", False),
    ],
)
def test_a_wish_is_met_by_its_words(wish: str, output: str, is_met: bool) -> None:
    assert AwaitedText(wish).is_in(output.encode()) is is_met
