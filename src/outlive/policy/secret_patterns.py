"""What keys and passwords look like: the list of `SecretPattern`s. Pure; `redaction` searches with them.

A pattern begins with a literal anchor, which stays visible: it shows what kind of secret was there. Only the secret behind it is
redacted. No anchor contains a newline, and whatever a pattern can match is shorter than `REACH_BYTES`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

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

    def whole(self) -> re.Pattern[bytes]:
        """Return a pattern that matches from an anchor on; group 1 is redacted."""
        kind, least, most = self.secret
        return self._compiled(f"({kind}{{{least},{most}}}){self.after}")

    def unfinished(self) -> re.Pattern[bytes]:
        """Return a pattern that matches if the text ends within the secret; group 1 begins where the secret does."""
        kind, _, most = self.secret
        return self._compiled(rf"({kind}{{0,{most}}})\Z")

    def _compiled(self, rest: str) -> re.Pattern[bytes]:
        anchors = "|".join(re.escape(anchor.decode()) for anchor in self.anchors)
        before = "".join(f"{kind}{{{least},{most}}}" for kind, least, most in self.before)
        guard = "(?<![A-Za-z0-9])" if self.is_word else ""
        return re.compile(f"{guard}(?:{anchors}){before}{rest}".encode())


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
    # RFC 7468, section 10; RFC 4716; openssh PROTOCOL.key. A key cut off before its end is hidden all the same
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

# RFC 3986, section 3.2.1: the password alone. Not in the list: its anchor is in every log, but an "@" only in few.
PASSWORD_IN_ADDRESS = SecretPattern(
    "password in an address",
    (b"://",),
    (r"[^\s/:@\"'<>\\]", 1, 256),
    before=((r"[^\s/:@\"'<>\\]", 0, 64), (":", 1, 1)),
    after="@",
    is_word=False,
)
