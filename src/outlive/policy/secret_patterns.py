"""What keys and passwords look like: the list of `SecretPattern`s. Pure; `redaction` searches with them.

A pattern begins with a literal anchor, which stays visible: it shows what kind of secret was there. Only the
secret behind it is redacted. No anchor contains a newline, and whatever a pattern can match is shorter than
`REACH_BYTES`.

The operator's own patterns for secrets (`redact_extra`): parsed, refused, or compiled. Pure.

They are regular expressions that never need backtracking, so no text can make a search slow: a pattern begins
with a literal; behind it follow characters and classes with bounds; and no part can take what the next one
needs. A pattern of any other kind is refused with a sentence; none is taken for something else than `re`
would take it for. `redaction` searches with them.
"""

import re
import warnings
from collections.abc import Sequence

from outlive.core.errors import ConfigInvalid
from outlive.core.values import dataclass

REACH_BYTES = 16 * 1024  # the longest secret, an RSA key of 16 384 bits in PEM, is 12.7 KB
_PEM_BYTES = 15 * 1024
_TOKEN = r"[A-Za-z0-9_-]"  # noqa: S105 -- a class of characters


@dataclass(frozen=True, slots=True)
class SecretPattern:
    """One kind of secret.

    Attributes:
        name: What it is.
        anchors: Literals; each occurrence may be the beginning of a secret.
        before: Elements (a class of characters, least, most) between anchor and secret.
        secret: The element that is redacted.
        after: What has to follow, "" for nothing.
        is_word: Only if there is no letter or digit before the anchor.
    """

    name: str
    anchors: Sequence[bytes]
    secret: tuple[str, int, int]
    before: Sequence[tuple[str, int, int]] = ()
    after: str = ""
    is_word: bool = True

    @property
    def text(self) -> bytes:
        """The expression of `whole`."""
        kind, least, most = self.secret
        return self._expression(f"({kind}{{{least},{most}}}){self.after}")

    def whole(self) -> re.Pattern[bytes]:
        """Return a pattern that matches from an anchor on; group 1 is redacted."""
        return re.compile(self.text)

    def unfinished(self) -> re.Pattern[bytes]:
        """Return a pattern that matches if the text ends within the secret.

        Group 1 begins where the secret does.
        """
        kind, _, most = self.secret
        return re.compile(self._expression(rf"({kind}{{0,{most}}})\Z"))

    def _expression(self, rest: str) -> bytes:
        anchors = "|".join(re.escape(anchor.decode()) for anchor in self.anchors)
        before = "".join(f"{kind}{{{least},{most}}}" for kind, least, most in self.before)
        guard = "(?<![A-Za-z0-9])" if self.is_word else ""
        return f"{guard}(?:{anchors}){before}{rest}".encode()


_VALUE = (("[\"']", 0, 1), (r"[ \t]", 0, 4), ("[:=]", 1, 1), (r"[ \t]", 0, 4), ("[\"']", 0, 1))

PATTERNS: Sequence[SecretPattern] = (
    # docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html, "Unique identifiers"
    SecretPattern("AWS access key id", (b"AKIA", b"ASIA"), ("[A-Z0-9]", 16, 16)),
    SecretPattern(
        "AWS secret access key",
        (b"aws_secret_access_key", b"AWS_SECRET_ACCESS_KEY"),
        ("[A-Za-z0-9/+=]", 32, 128),
        before=_VALUE,
    ),
    SecretPattern(
        "AWS session token",
        (b"aws_session_token", b"AWS_SESSION_TOKEN"),
        ("[A-Za-z0-9/+=]", 64, 4096),
        before=_VALUE,
    ),
    SecretPattern(  # as the API and the SDKs spell them: SecretAccessKey, sessionToken, awsSecretAccessKey
        "AWS secret access key or session token",
        (b"ecretAccessKey", b"essionToken"),
        ("[A-Za-z0-9/+=]", 32, 4096),
        before=_VALUE,
        is_word=False,
    ),
    # docs.github.com, "About authentication to GitHub", "GitHub's token formats"
    SecretPattern("GitHub token", (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"), ("[A-Za-z0-9]", 36, 255)),
    SecretPattern("GitHub fine-grained token", (b"github_pat_",), ("[A-Za-z0-9_]", 22, 255)),
    # docs.gitlab.com/security/tokens, "Token prefixes"
    SecretPattern("GitLab token", (b"glpat-", b"gldt-", b"glrt-", b"glptt-"), (_TOKEN, 20, 255)),
    # api.slack.com/authentication/token-types
    SecretPattern(
        "Slack token",
        (b"xoxb-", b"xoxp-", b"xoxa-", b"xoxr-", b"xoxs-", b"xoxe-", b"xapp-"),
        ("[A-Za-z0-9-]", 10, 255),
    ),
    # cloud.google.com/docs/authentication/api-keys
    SecretPattern("Google API key", (b"AIza",), (_TOKEN, 35, 35)),
    # docs.stripe.com/keys
    SecretPattern("Stripe key", (b"sk_live_", b"rk_live_"), ("[A-Za-z0-9]", 10, 255)),
    # platform.openai.com/docs/api-reference/authentication; docs.anthropic.com/en/api/getting-started
    # "sk-" alone ends "task-" and "disk-"; the older keys have these eight letters in their middle
    SecretPattern(
        "OpenAI or Anthropic key",
        (b"sk-ant-", b"sk-proj-", b"sk-svcacct-", b"sk-admin-", b"sk-or-v1-"),
        (_TOKEN, 20, 255),
    ),
    SecretPattern("OpenAI key, second half", (b"T3BlbkFJ",), ("[A-Za-z0-9]", 20, 20), is_word=False),
    # docs.npmjs.com/about-access-tokens; github.blog, "npm's new authentication token format"
    SecretPattern("npm token", (b"npm_",), ("[A-Za-z0-9]", 36, 255)),
    # warehouse.pypa.io: a macaroon whose beginning never changes
    SecretPattern("PyPI token", (b"pypi-AgEI",), (_TOKEN, 16, 1024)),
    # RFC 7519: the header is shown, claims and signature are not
    SecretPattern(
        "JSON Web Token",
        (b"eyJ",),
        ("[A-Za-z0-9_.-]", 8, 8192),
        before=((_TOKEN, 8, 1024), (r"\.", 1, 1), ("e", 1, 1), ("y", 1, 1), ("J", 1, 1)),
    ),
    # RFC 6750, section 2.1; RFC 7617, section 2. "Basic" is a word like others: only behind the header's name
    SecretPattern("bearer token", (b"Bearer ", b"bearer "), ("[A-Za-z0-9._~+/=-]", 20, 4096)),
    SecretPattern(
        "basic credentials",
        (
            b"uthorization: Basic ",
            b'uthorization": "Basic ',
            b'uthorization":"Basic ',
            b"uthorization: basic ",
        ),
        ("[A-Za-z0-9+/=]", 8, 1024),
        is_word=False,
    ),
    # RFC 7468, section 10; RFC 4716; openssh PROTOCOL.key. A key cut off before its end is hidden all the
    # same
    SecretPattern(
        "private key",
        (
            b"BEGIN PRIVATE KEY-----",
            b"BEGIN RSA PRIVATE KEY-----",
            b"BEGIN EC PRIVATE KEY-----",
            b"BEGIN DSA PRIVATE KEY-----",
            b"BEGIN OPENSSH PRIVATE KEY-----",
            b"BEGIN ENCRYPTED PRIVATE KEY-----",
            b"BEGIN PGP PRIVATE KEY BLOCK-----",
        ),
        (r"[A-Za-z0-9+/=\s\\:,.()]", 16, _PEM_BYTES),
    ),
    # our own: `outlive token create`
    SecretPattern("outlive token", (b"olv_",), (_TOKEN, 20, 255)),
)

# RFC 3986, section 3.2.1: the password alone. Not in the list: its anchor is in every log, but an "@" only in
# few.
PASSWORD_IN_ADDRESS = SecretPattern(
    "password in an address",
    (b"://",),
    (r"[^\s/:@\"'<>\\]", 1, 256),
    before=((r"[^\s/:@\"'<>\\]", 0, 64), (":", 1, 1)),
    after="@",
    is_word=False,
)


MOST_PATTERNS = 100  # each one costs a search of every text in which a secret may begin
_LEAST_ANCHOR_BYTES = 3  # shorter beginnings are in every line
_MOST_PARTS = 50
_MOST_READINGS = 64  # of one byte by one pattern: even a hostile text costs 50 ms for what is read at once
_UNBOUNDED = 4096  # the most that "+" and "*" take
_REPEAT = re.compile(r"\{(\d{1,5})(?:(,)(\d{0,5}))?\}")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
_ESCAPES = frozenset("dDwWsStrn")
_MEANINGS = {
    "|": "alternatives are written as patterns of their own",
    "^": "a pattern begins with its literal beginning, wherever that is in a line",
    "$": "a pattern ends where its last part does",
    "*": "there is nothing that could be repeated",
    "+": "there is nothing that could be repeated",
    "?": "there is nothing that could be left out",
    "{": "a brace that is meant as such is written \\{",
}


@dataclass(frozen=True, slots=True)
class _Part:
    """A character or a class, how often it occurs, and which bytes it takes."""

    text: str
    takes: frozenset[int]
    least: int = 1
    most: int = 1

    @property
    def is_literal(self) -> bool:
        return self.least == self.most == len(self.takes) == 1

    def times(self, least: int) -> str:
        # Possessive: it never gives back what it took. `_check_apart` makes sure that this changes no result.
        return f"{self.text}{{{least},{self.most}}}+"


@dataclass(frozen=True, slots=True)
class ExtraPattern:
    """One kind of secret.

    Attributes:
        anchor: Its literal beginning, which stays visible.
        whole: Matches from an anchor on; group 1 is redacted.
        unfinished: Matches where the text ends too early; group 1 begins where the secret does.
    """

    anchor: bytes
    whole: re.Pattern[bytes]
    unfinished: re.Pattern[bytes]


def parse_pattern(text: str) -> ExtraPattern:
    """Return a pattern; what is in parentheses is redacted, or everything behind the literal beginning.

    Raises:
        ValueError: The text is no pattern, or not of this kind; the sentence says what is wrong.
    """
    parts, opened, closed = _read(text)
    if opened is None:
        opened = next((place for place, part in enumerate(parts) if not part.is_literal), len(parts))
        closed = len(parts)
    anchor_end = opened
    for place, part in enumerate(parts[:opened]):
        if not part.is_literal:
            anchor_end = place
            break
    anchor = bytes(next(iter(part.takes)) for part in parts[:anchor_end])
    if len(anchor) < _LEAST_ANCHOR_BYTES or b"\n" in anchor:
        raise ValueError(
            f"it has to begin with {_LEAST_ANCHOR_BYTES} or more characters that are always the same, on "
            "one line"
        )
    before, secret, after = parts[anchor_end:opened], parts[opened:closed], parts[closed:]
    if not sum(part.least for part in secret):
        raise ValueError("there has to be something that is hidden, behind the beginning and never empty")
    if sum(part.most for part in parts) > REACH_BYTES:
        raise ValueError(
            f"it can become longer than {REACH_BYTES} bytes: give its parts bounds, as in {{20,200}}"
        )
    if len(parts) - anchor_end > _MOST_PARTS:
        raise ValueError(f"it has more than {_MOST_PARTS} parts behind its beginning")
    _check_apart(parts[anchor_end:])
    _check_density(anchor, parts[anchor_end:])
    begin = re.escape(anchor) + _row(before).encode()
    whole = re.compile(begin + f"({_row(secret)}){_row(after)}".encode())
    return ExtraPattern(anchor, whole, re.compile(begin + f"({_beginning([*secret, *after])})".encode()))


def parse_patterns(name: str, texts: Sequence[str]) -> tuple[ExtraPattern, ...]:
    """Return the patterns of the setting with this name.

    Raises:
        ConfigInvalid: There are too many, or one of them is no pattern.
    """
    if len(texts) > MOST_PATTERNS:
        text = f"{name}: there are {len(texts)} patterns, and {MOST_PATTERNS} at most can be looked for."
        raise ConfigInvalid(
            "config_invalid", text, hint="Let one pattern stand for several: classes like [abc]."
        )
    found = []
    for text in texts:
        try:
            found.append(parse_pattern(text))
        except ValueError as error:
            sentence = f"{name}: the pattern {text[:80]!r} cannot be used: {error}."
            hint = "For example acme_[A-Za-z0-9]{32}; docs/redaction.md says what a pattern looks like."
            raise ConfigInvalid("config_invalid", sentence, hint=hint) from None
    return tuple(found)


def _read(text: str) -> tuple[list[_Part], int | None, int]:
    """Return the parts, and the positions of the parentheses among them (None: there are none)."""
    parts: list[_Part] = []
    opened: int | None = None
    closed: int | None = None
    place = 0
    while place < len(text):
        char = text[place]
        if char in "()":
            if (char == "(") != (opened is None) or closed is not None or text.startswith("(?", place):
                raise ValueError("there is one pair of plain parentheses at most, around what is hidden")
            if char == "(":
                opened = len(parts)
            else:
                closed = len(parts)
            place += 1
            if char == ")" and text[place : place + 1] in {"*", "+", "?", "{"}:
                raise ValueError("what is in parentheses cannot be repeated: repeat what is in them")
            continue
        found, place = _atom(text, place)
        if len(found) == 1:
            least, most, place = _repeat(text, place)
            parts.append(_Part(found[0].text, found[0].takes, least, most))
        else:
            parts += found
    if opened is not None and closed is None:
        raise ValueError("a parenthesis is not closed")
    return parts, opened, len(parts) if closed is None else closed


def _atom(text: str, place: int) -> tuple[list[_Part], int]:
    """Return one character (as one or more bytes) or one class, and the position behind it."""
    char = text[place]
    if char in _MEANINGS:
        raise ValueError(f"{char!r} at place {place + 1} cannot be used: {_MEANINGS[char]}")
    if char == "[":
        match = _CLASS.match(text, place)
        if match is None:
            raise ValueError(f"the class that begins at place {place + 1} has no end")
        return [_part(match[0])], match.end()
    if char == "\\":
        escaped = text[place + 1 : place + 2]
        if not escaped or (escaped.isalnum() and escaped not in _ESCAPES) or not escaped.isascii():
            raise ValueError(f"\\{escaped} at place {place + 1} is not known here")
        return [_part(char + escaped)], place + 2
    if char == ".":
        return [_part(char)], place + 1
    literal = [_Part(re.escape(bytes([byte])).decode("latin-1"), frozenset([byte])) for byte in char.encode()]
    if len(literal) > 1 and text[place + 1 : place + 2] in {"*", "+", "?", "{"}:
        raise ValueError(f"{char!r} is several bytes and cannot be repeated: only ASCII can")
    return _ascii_only(literal), place + 1


def _ascii_only(parts: list[_Part]) -> list[_Part]:
    """Write bytes beyond ASCII as escapes, so that the whole pattern is ASCII: it is encoded at the end."""
    return [
        _Part(f"\\x{next(iter(part.takes)):02x}", part.takes) if min(part.takes) > 127 else part
        for part in parts
    ]


def _part(text: str) -> _Part:
    if not text.isascii():
        raise ValueError(f"{text[:40]!r}: a class is of ASCII characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)
            compiled = re.compile(text.encode())
    except FutureWarning:  # [[:alpha:]], [a--b], [a&&b]: sets, which a later version of `re` may understand
        sentence = f"{text[:40]!r}: signs that may get a meaning in classes are written with \\"
        raise ValueError(sentence) from None
    except re.error as error:
        raise ValueError(f"{text[:40]!r}: {error.msg}") from None
    takes = frozenset(byte for byte in range(256) if compiled.fullmatch(bytes([byte])))
    if not takes:
        raise ValueError(f"{text[:40]!r} takes nothing")
    return _Part(text, takes)


def _repeat(text: str, place: int) -> tuple[int, int, int]:
    """Return how often the part before `place` occurs, and the position behind that."""
    sign = text[place : place + 1]
    least, most, end = 1, 1, place
    if sign in {"*", "+", "?"}:
        least, most, end = int(sign == "+"), 1 if sign == "?" else _UNBOUNDED, place + 1
    elif sign == "{":
        match = _REPEAT.match(text, place)
        if match is None:
            raise ValueError(f"the braces at place {place + 1} hold no {{5}}, {{5,}} or {{5,9}}")
        least = int(match[1])
        most = least if match[2] is None else int(match[3]) if match[3] else max(least, _UNBOUNDED)
        end = match.end()
    if most < least or not most:
        raise ValueError(f"the braces at place {place + 1} allow nothing")
    if end > place and text[end : end + 1] in {"*", "+", "?", "{"}:
        raise ValueError(f"{text[end]!r} at place {end + 1} cannot follow a repetition")
    return least, most, end


def _check_apart(parts: Sequence[_Part]) -> None:
    """Refuse a part that can take what a later one needs: it would have to give bytes back."""
    for place, part in enumerate(parts):
        if part.least == part.most:
            continue
        for later in parts[place + 1 :]:
            if part.takes & later.takes:
                raise ValueError(
                    f"{part.text} can take what {later.text} behind it needs: nobody could say where one "
                    "ends. Let them have no character in common, or give the first one a fixed number"
                )
            if later.least:
                break


def _check_density(anchor: bytes, parts: Sequence[_Part]) -> None:
    """Refuse a pattern that a text of nothing but beginnings would make read the same bytes over and over."""
    # The smallest distance between two occurrences of the beginning.
    period = next(size for size in range(1, len(anchor) + 1) if anchor[size:] == anchor[: len(anchor) - size])
    if period < _LEAST_ANCHOR_BYTES:
        raise ValueError("its beginning repeats itself: take one that does not, or more of it")
    repeated = [part for part in parts if part.most > 1]
    if any(not any(byte in part.takes for part in repeated) for byte in anchor):
        return  # what follows the beginning ends before the next beginning does
    most = _MOST_READINGS * period
    if sum(part.most for part in parts) > most:
        raise ValueError(
            f"its beginning can occur in what follows it, again and again: let that have {most} bytes at "
            f"most in all, as in {{8,{most}}}, or leave a character of the beginning out of it"
        )


def _beginning(parts: Sequence[_Part]) -> str:
    """Return a pattern that matches a text which ends anywhere within these parts."""
    rest = ""
    for part in reversed(parts):
        further = f"|{part.times(part.least)}{rest}" if rest else ""
        rest = rf"(?:{part.times(0)}\Z{further})"
    return rest


def _row(parts: Sequence[_Part]) -> str:
    return "".join(part.times(part.least) for part in parts)
