"""Text of others on one line that no terminal obeys (`printable`), and the words for what is hidden. Pure."""


def printable(text: str) -> str:
    r"""Return a text with each character that has no shape of its own spelled out: `\x1b`, `\n`, `\u202e`.

    These are control characters (C0 and C1), line ends, signs that change the direction of writing
    (UAX 9), other invisible signs, and what Unicode has not assigned. Bytes that are no text
    (`surrogateescape`) are spelled as bytes. A tab stays, and so does every kind of blank.
    """
    if text.isprintable():
        return text
    import unicodedata  # noqa: PLC0415 -- start-up time: nearly every text is printable

    return "".join(
        letter
        if letter.isprintable() or letter == "\t" or unicodedata.category(letter) == "Zs"
        else _spelled(letter)
        for letter in text
    )


def _spelled(letter: str) -> str:
    if "\udc80" <= letter <= "\udcff":
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return letter.encode("unicode_escape").decode("ascii")


def hidden_words(count: int) -> str:
    """Return a count of secrets in the words for people and models."""
    return f"{count} secret hidden" if count == 1 else f"{count} secrets hidden"
