"""TLS for the TCP listeners: the context, and the names that a certificate carries.

Every mistake in the files becomes a `ConfigInvalid` with a sentence. Which certificate is used is decided by
`config`; connections are `http_server`'s.
"""

import ssl
from collections.abc import Callable
from typing import NoReturn

from outlive.core.errors import ConfigInvalid

_MISMATCH = "KEY_VALUES_MISMATCH"  # OpenSSL's reason


def server_context(certificate: str, key: str, client_ca: str = "") -> ssl.SSLContext:
    """Return the context with which listeners speak TLS (1.2 and later).

    Args:
        certificate: PEM file: the server's certificate, then those between it and the authority.
        key: PEM file of its private key, without a passphrase.
        client_ca: PEM file of the authorities of client certificates; empty asks clients for none.

    Raises:
        ConfigInvalid: A file is missing, holds something else, or the key is another certificate's.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    _readable(certificate, "--tls-cert")
    _readable(key, "--tls-key")
    _attempt(lambda: context.load_cert_chain(certificate, key, password=_no_passphrase), certificate, key)
    if client_ca:
        _readable(client_ca, "--tls-client-ca")
        _attempt(lambda: context.load_verify_locations(client_ca), client_ca, "")
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def certificate_names(certificate: str) -> frozenset[str]:
    """Return the DNS names and addresses that a certificate is for, as a Host header shows them.

    None if it has none.
    """
    # The only way to read a certificate in the standard library without a handshake; private, but older than
    # Python 3.
    decode = getattr(ssl, "_ssl")._test_decode_cert  # noqa: B009, SLF001
    try:
        fields = decode(certificate)
    except (ssl.SSLError, OSError, ValueError):
        return frozenset()
    names = set()
    for kind, text in fields.get("subjectAltName", ()):
        if kind == "DNS":
            names.add(text.lower())
        elif kind == "IP Address":
            names.add(_bracketed(text.strip()))
    return frozenset(names)


def _bracketed(address: str) -> str:
    if ":" not in address:
        return address
    import ipaddress  # noqa: PLC0415 -- start-up time: few have one

    return f"[{ipaddress.ip_address(address)}]"


def _readable(path: str, flag: str) -> None:
    try:
        with open(path, "rb"):
            return
    except OSError as error:
        raise ConfigInvalid(
            "config_invalid", f"{flag} {path} cannot be read: {error.strerror}.", hint="Name a PEM file."
        ) from error


def _attempt(load: Callable[[], None], path: str, key: str) -> None:
    try:
        load()
    except ssl.SSLError as error:
        if error.reason == _MISMATCH:
            text = f"The key in {key} does not belong to the certificate in {path}."
            raise ConfigInvalid("config_invalid", text, hint="Name the key that it was made with.") from error
        where = f"{path} and {key}" if key else path
        text = f"TLS cannot be set up from {where}: {error.reason or error}."
        raise ConfigInvalid("config_invalid", text, hint="Both are PEM files.") from error
    except _PassphraseWanted as error:
        text = f"The key in {key} has a passphrase."
        raise ConfigInvalid(
            "config_invalid", text, hint="A server cannot ask for it: remove it with `openssl pkey`."
        ) from error


class _PassphraseWanted(Exception):
    """A key cannot be read without its passphrase."""


def _no_passphrase() -> NoReturn:
    # Without this callback OpenSSL would ask on the terminal, and the start would hang.
    raise _PassphraseWanted
