"""docs/architecture.md speaks of the house as it stands: few words of its own, and files that are there."""

import re

from tests.docs.pages import ROOT, page, section, table_rows, words

_TEXT = re.sub(r"^```.*?^```$", "", page("docs/architecture.md"), flags=re.MULTILINE | re.DOTALL)
_PACKAGE = ROOT / "src" / "outlive"


def test_the_words_of_the_house_are_few() -> None:
    listed = [row[0] for row in table_rows(section(_TEXT, "## Words"), "word")]
    assert 20 <= len(listed) <= 40
    assert len(set(listed)) == len(listed)


def test_every_file_that_is_named_exists() -> None:
    """With folders before it the end of the path counts, below the package.

    A file name alone may be anywhere.
    """
    files = [path.as_posix() for path in _PACKAGE.rglob("*") if path.is_file()]
    named = {word for word in words(_TEXT) if re.fullmatch(r"[\w./-]+\.(?:py|c|bash|md)", word)}
    assert len(named) > 20
    missing = [
        name
        for name in sorted(named)
        if not (ROOT / name).exists() and not any(path.endswith(f"/{name}") for path in files)
    ]
    assert missing == []


def test_every_folder_that_is_named_exists() -> None:
    named = {word for word in words(_TEXT) if re.fullmatch(r"[a-z_]+(?:/[a-z_]+)+", word) and "." not in word}
    missing = [
        name
        for name in sorted(named)
        if not any((base / name).exists() or (base / f"{name}.py").exists() for base in (_PACKAGE, ROOT))
    ]
    assert missing == []
