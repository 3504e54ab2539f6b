"""What is hidden, what is not, and that it does not depend on how a text is cut."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlive.policy.redaction import Redactor, blank
from outlive.policy.secret_patterns import PATTERNS, REACH_BYTES, parse_pattern

# Made up at run time: a scanner of repositories shall not find keys in the tests.
WORD = "aB3dE6gH9jK2mN5pQ8rS1tU4vW7xY0zZ" * 4
SECRETS = {
    "AWS access key id": ("AKIA", "ABCDEFGH23456789"),
    "AWS secret access key": ("aws_secret_access_key = ", WORD[:40]),
    "AWS secret access key, JSON": ('"SecretAccessKey": "', WORD[:40]),
    "AWS session token": ("AWS_SESSION_TOKEN=", WORD),
    "GitHub token": ("ghp_", WORD[:36]),
    "GitHub fine-grained token": ("github_pat_", WORD[:82]),
    "GitLab token": ("glpat-", WORD[:20]),
    "Slack token": ("xoxb-", "123456789012-" + WORD[:24]),
    "Google API key": ("AIza", WORD[:35]),
    "Stripe key": ("sk_live_", WORD[:24]),
    "OpenAI key": (f"sk-{WORD[:20]}T3BlbkFJ", WORD[20:40]),
    "OpenAI project key": ("sk-proj-", WORD[:60]),
    "Anthropic key": ("sk-ant-", "api03-" + WORD[:80]),
    "npm token": ("npm_", WORD[:36]),
    "PyPI token": ("pypi-AgEI", WORD),
    "JSON Web Token": ("eyJhbGciOiJIUzI1NiJ9.eyJ", WORD[:30] + "." + WORD[:40]),
    "bearer token": ("Authorization: Bearer ", WORD[:30]),
    "basic credentials": ("Authorization: Basic ", "dXNlcjpwYXNzd29yZA=="),
    "password in an address": ("postgres://app:", "p4ss-w0rd!"),
    "outlive token": ("olv_", WORD[:43]),
}
KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + f"{WORD[:64]}\n" * 50 + "-----END RSA PRIVATE KEY-----\n"
VALUE = b"hunter2-correct-horse"


def shown(prefix: str, secret: str) -> bytes:
    tail = "@db.example/x" if "://" in prefix else ""
    return f"first line\nkey {prefix}{secret}{tail} behind\n".encode()


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_hidden_and_what_it_was_is_told(name: str) -> None:
    prefix, secret = SECRETS[name]
    text = shown(prefix, secret)
    masked = Redactor().mask(text)
    assert len(masked) == len(text)
    assert secret.encode() not in masked
    assert masked == text.replace(secret.encode(), b"*" * len(secret))
    assert Redactor().mask(masked) == masked
    assert Redactor(patterns=False).mask(text) == text


def test_a_private_key_is_hidden_between_its_lines() -> None:
    masked = Redactor().mask(KEY.encode()).decode()
    assert masked.startswith("-----BEGIN RSA PRIVATE KEY-----\n****")
    assert masked.endswith("*\n-----END RSA PRIVATE KEY-----\n")
    assert masked.count("\n") == KEY.count("\n")
    assert WORD[:8] not in masked
    in_json = json.dumps(KEY).encode()
    assert WORD[:8].encode() not in Redactor().mask(in_json)


@pytest.mark.parametrize(
    "text",
    [
        "task-1 disk-usage risk-free desk-top",
        "http://localhost:8080/path?mail=a@b.example",
        "see https://example.org/a:b and mail me@example.org",
        "Basic authentication is described here; Bearer of bad news",
        "AKIA short, ghp_short, sk-learn, sk-SK, npm_config_registry=https://registry.example/",
        "the eyJ beginning of base64 eyJhbGciOiJIUzI1NiJ9 alone",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "-----BEGIN CERTIFICATE-----\nMIIBxTCCAWugAwIBAgIUabc\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\nMIIBxTCCAWugAwIBAgIUabc\n-----END PUBLIC KEY-----",
        "XAKIAABCDEFGH23456789 is part of a word",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert Redactor().mask_text(text) == text


def test_known_values_are_hidden_in_every_form() -> None:
    value = 'pa"ss\nword-in-lines\nü'
    redactor = Redactor(patterns=False, values=[value.encode()])
    for form in (
        value,
        json.dumps(value),
        json.dumps(value, ensure_ascii=False),
        value.replace("\n", "\r\n"),
    ):
        assert "word" not in redactor.mask_text(f"x {form} y")
    assert redactor.mask_text("word-in-lines") == "*" * 13
    assert Redactor(values=[b"abc", b""]).values == ()  # too short to be hidden
    long = bytes(range(33, 127)) * 700
    assert long[2000:2100] not in Redactor(values=[long]).mask(b"x" + long + b"y")
    assert Redactor(patterns=False).is_idle
    assert Redactor().with_values([VALUE]).mask_text("x" + VALUE.decode()) == "x" + "*" * len(VALUE)
    assert Redactor().mask_text("\ud800 ghp_" + "a" * 36) == "\ud800 ghp_" + "*" * 36


def test_anchors_stand_apart() -> None:
    """No occurrence may hide another: the search finds those that do not overlap."""
    words = {anchor: pattern.is_word for pattern in PATTERNS for anchor in pattern.anchors}
    for one in words:
        for other, is_word in words.items():
            assert one == other or other not in one, (one, other)
            for size in range(1, min(len(one), len(other))):
                if one.endswith(other[:size]):
                    # The second one would have a letter or digit before it, and only count without.
                    assert is_word, (one, other)
                    assert one[-size - 1 : -size].isalnum(), (one, other)
    assert not any(b"\n" in anchor for anchor in words)


# Of an operator's own, one with something behind it, one that begins in the middle of a known one and of
# itself.
EXTRA = [
    parse_pattern(text)
    for text in ("acme_[a-f0-9]{6,12};", 'key="([^"\n]+)"', "hp_[A-Z]{2}([a-z]+)-", "abcabc[0-9]{3}")
]
OWN = (
    "acme_0123abcd;",
    "acme_01ab",
    'key="open sesame"',
    'key="x',
    "ghp_ABabcdef-",
    "abcabcabc123",
    "acme_acme_123456;",
)
PIECES = st.sampled_from(
    [*OWN, *(prefix + secret for prefix, secret in SECRETS.values()), KEY, VALUE.decode(), VALUE.decode()[:9]]
)
NOISE = st.text(st.sampled_from("ab1 .-_:/@=\n\"'eyJAKIghp*ü"), max_size=40)
TEXTS = st.lists(PIECES | NOISE, max_size=6).map(lambda parts: "".join(parts).encode())
REDACTOR = Redactor(values=[VALUE], extra=EXTRA)


@given(TEXTS)
def test_masking_keeps_length_and_lines_and_never_shows_more_the_second_time(text: bytes) -> None:
    masked = REDACTOR.mask(text)
    assert len(masked) == len(text)
    assert [place for place, byte in enumerate(masked) if byte == 10] == [
        place for place, byte in enumerate(text) if byte == 10
    ]
    assert VALUE not in masked
    again = REDACTOR.mask(masked)
    # What is hidden stays so; a star can be the end of a word, so that something behind it is one more
    # secret.
    assert all(now == before or now == ord("*") for before, now in zip(masked, again, strict=True))


@given(TEXTS, st.data())
@settings(max_examples=300)
def test_what_is_decided_stays_so_whatever_comes(text: bytes, data: st.DataObject) -> None:
    """`examine` of a beginning agrees with that of the whole, up to where it says that it does not know."""
    cut = data.draw(st.integers(0, len(text)))
    spans, undecided, value = REDACTOR.examine(text[:cut])
    decided = min(undecided, value)
    whole = REDACTOR.mask(text)
    assert blank(text[:cut], spans)[:decided] == whole[:decided]


@given(TEXTS, st.data())
def test_a_window_with_its_neighbourhood_tells_what_the_whole_tells(text: bytes, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(text)))
    spans, _, _ = REDACTOR.examine(text[max(0, begin - REACH_BYTES) :])
    window = blank(text[max(0, begin - REACH_BYTES) :], spans)
    assert window[min(begin, REACH_BYTES) :] == REDACTOR.mask(text)[begin:]
    if not REDACTOR.is_suspect(text):
        assert REDACTOR.mask(text) == text


@given(TEXTS)
def test_suspicion_misses_nothing(text: bytes) -> None:
    if REDACTOR.examine(text)[0]:
        assert REDACTOR.is_suspect(text)
    assert REDACTOR.may_begin_at_end(text + VALUE[:5])


@pytest.mark.timeout(
    20
)  # it took a minute: automata of long words that repeat themselves grow with their square
def test_a_long_value_that_repeats_itself_costs_nothing_special() -> None:
    value = b"a-secret-of-18-byt" * 10_000
    shown = Redactor(values=[value]).mask(b"before " + value[:60_000] + b" behind")
    assert shown.startswith(b"before ***")
    assert shown.endswith(b"*** behind")
    assert b"secret" not in shown
