"""One rule: how it is written, and which words of which programs it is about."""

import re
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.policy.patterns import ProgramFile
from outlive.policy.rules import JudgedCommand, Rule
from tests.policy.files import BUSYBOX, LS, OTHER_LS, VI, VIM


def _command(*argv: str, open_words: tuple[int, ...] = (), is_line: bool = True) -> JudgedCommand:
    return JudgedCommand(argv=argv, open_words=open_words, is_line=is_line)


def _both(rule: str, *argv: str, open_words: tuple[int, ...] = ()) -> tuple[bool, bool]:
    """Return whether a rule may match, and surely does."""
    command = _command(*argv, open_words=open_words)
    parsed = Rule.parse(rule)
    return parsed.may_match(command, None), parsed.surely_matches(command, None)


@pytest.mark.parametrize(
    ("rule", "argv", "matches"),
    [
        ("ls", "ls", True),
        ("ls", "ls -la x", True),
        ("ls", "lsof", False),
        ("*", "anything at all", True),
        ("make test", "make test", True),
        ("make test", "make test evil", False),
        ("make test", "make", False),
        ("git push *", "git push", True),
        ("git push *", "git push origin main", True),
        ("git push *", "git pull", False),
        ("git ** --force *", "git push origin --force x", True),
        ("git ** --force *", "git --force", True),
        ("git ** --force *", "git push --forced", False),
        ("git ** x", "git a x b x", True),
        ("git ** x", "git a x b", False),
        ("rm -r?", "rm -rf", True),
        ("rm -r?", "rm -r", False),
        ("pip3* install *", "pip3.11 install x", True),
        ("a * c", "a b c", True),
        ("a * c", "a c", False),
        ("a * c", "a b b c", False),
        ("a [xy]", "a y", True),
        ("a [xy]", "a z", False),
        ("a **", "a", True),
        ("a ** **", "a b", True),
    ],
)
def test_a_rule_is_held_against_words_one_by_one(rule: str, argv: str, matches: bool) -> None:
    assert _both(rule, *argv.split()) == (matches, matches)


@pytest.mark.parametrize(
    "text", ["", "   ", "echo 'a'", 'a "b"', "a `b`", "a \\b", "a && b", "a | b", "|", "** x", "x; y ; z"]
)
def test_what_is_no_rule_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=re.compile("rule|program")):
        Rule.parse(text)


@pytest.mark.parametrize(
    ("rule", "argv", "open_words", "may", "surely"),
    [
        ("ls", "ls *.py", (1,), True, True),
        ("ls *", "ls *.py", (1,), True, True),
        ("ls -l *", "ls *.py", (1,), False, False),
        ("ls -l *", "ls *", (1,), True, False),
        ("rm -rf *", "rm *.o", (1,), False, False),
        ("rm -rf *", "rm *", (1,), True, False),
        ("rm -rf *", "rm -* x", (1,), True, False),
        ("rm -rf *", "rm ~/x -rf", (1,), True, False),
        ("rm ** /etc/*", "rm ~/x", (1,), True, False),
        ("rm -rf *", "rm [-]rf", (1,), True, False),
        ("rm x", "rm * x", (1,), True, False),
        ("rm x y", "rm *", (1,), True, False),
        ("rm a? b", "rm b*", (1,), True, False),
        ("cp ** /etc", "cp *.py /etc", (1,), True, True),
        ("cp ** /etc", "cp x *", (2,), True, False),
    ],
)
def test_a_word_that_the_shell_replaces_may_be_what_fits_and_surely_is_nothing(
    rule: str,
    argv: str,
    open_words: tuple[int, ...],
    may: bool,
    surely: bool,
) -> None:
    assert _both(rule, *argv.split(), open_words=open_words) == (may, surely)


def test_words_that_will_follow_may_be_what_is_missing_and_are_never_sure() -> None:
    command = JudgedCommand(argv=("git", "push"), is_inner=True, ends_open=True)
    assert Rule.parse("git push origin").may_match(command, None)
    assert not Rule.parse("git pull origin").may_match(command, None)
    assert not Rule.parse("git push *").surely_matches(command, None)


@pytest.mark.parametrize(
    ("rule", "word", "file", "own", "may"),
    [
        ("vim", "vi", VI, VIM, True),  # another name of the same file
        ("vim.basic", "vi", VI, None, True),  # the name of the real file
        ("vi*", "/usr/bin/vi", VI, None, True),
        ("ls", "/tmp/ls", OTHER_LS, LS, True),
        ("ls", "/tmp/x", ProgramFile(paths=("/tmp/x",), identity=LS.identity), LS, True),
        ("cat", "ls", BUSYBOX, ProgramFile(paths=("/bin/cat", "/bin/busybox"), identity=(1, 30)), False),
        ("busybox", "ls", BUSYBOX, None, True),
        ("ls", "./gone/ls", None, LS, True),
        ("cat", "ls", LS, None, False),
        ("cat", "ls", None, None, False),
        ("/usr/bin/ls", "ls", LS, LS, True),
        ("/usr/bin/vim.basic", "vi", VI, None, True),
        ("/usr/bin/*", "ls", LS, None, True),
        ("/usr/bin/*", "./x", None, None, False),
        ("/opt/*", "/opt/x", None, None, True),
        ("/usr/bin/ls", "/usr/bin/ls", None, None, True),
        ("/usr/bin/ls", "cat", None, None, False),
    ],
)
def test_deny_and_ask_know_a_program_under_each_of_its_names(
    rule: str,
    word: str,
    file: ProgramFile | None,
    own: ProgramFile | None,
    may: bool,
) -> None:
    assert Rule.parse(rule).may_match(_command(word), file, own) is may


@pytest.mark.parametrize(
    ("rule", "word", "file", "own", "is_line", "surely"),
    [
        ("ls", "ls", LS, LS, True, True),
        ("ls", "ls", None, None, True, True),  # a builtin, or nothing at all
        ("ls", "ls", LS, LS, False, True),
        ("ls", "ls", OTHER_LS, LS, False, False),  # found in a PATH of the caller's
        ("ls", "ls", None, LS, False, False),
        ("ls", "/usr/bin/ls", LS, LS, True, True),
        ("ls", "/tmp/ls", OTHER_LS, LS, True, False),
        ("ls", "./ls", None, LS, True, False),
        ("l*", "ls", LS, None, True, True),
        ("/usr/bin/ls", "ls", LS, LS, True, True),
        ("/usr/bin/ls", "ls", None, LS, True, False),
        ("/usr/bin/*", "ls", LS, None, False, True),
        ("/usr/bin/vim.basic", "vi", VI, None, True, True),
        ("/bin/ls", "ls", LS, LS, True, True),  # where /bin is a link to /usr/bin
        ("/bin/ls", "ls", LS, None, True, False),
        ("/usr/bin/test", "test", ProgramFile(paths=("/usr/bin/test",), identity=(2, 2)), None, True, False),
        ("/usr/bin/test", "test", ProgramFile(paths=("/usr/bin/test",), identity=(2, 2)), None, False, True),
        ("vim", "vi", VI, VIM, True, False),
    ],
)
def test_allow_knows_a_program_as_what_its_name_finds_only(
    rule: str,
    word: str,
    file: ProgramFile | None,
    own: ProgramFile | None,
    is_line: bool,
    surely: bool,
) -> None:
    assert Rule.parse(rule).surely_matches(_command(word, is_line=is_line), file, own) is surely


_WORD = st.text(alphabet="ab-", max_size=2)
_GLOB = st.sampled_from(["a", "b", "?", "a*", "*", "**", "[ab]", "-a"])


def _reference(globs: list[str], words: list[str]) -> bool:
    """Match by trying everything."""
    if not globs:
        return not words
    first, rest = globs[0], globs[1:]
    if first == "**":
        return any(_reference(rest, words[at:]) for at in range(len(words) + 1))
    return bool(words) and fnmatchcase(words[0], first) and _reference(rest, words[1:])


@given(globs=st.lists(_GLOB, min_size=1, max_size=5), words=st.lists(_WORD, max_size=5))
def test_matching_is_what_trying_everything_says(globs: list[str], words: list[str]) -> None:
    rule = Rule.parse(" ".join(("p", *globs)))
    plain = [*globs[:-1], "**" if globs[-1] == "*" else globs[-1]]
    expected = _reference(plain, words)
    command = JudgedCommand(argv=("p", *words), is_line=True)
    assert rule.may_match(command, None) is expected
    assert rule.surely_matches(command, None) is expected


@given(
    globs=st.lists(_GLOB, min_size=1, max_size=4),
    words=st.lists(_WORD, max_size=4),
    place=st.integers(0, 4),
    becomes=st.lists(_WORD, max_size=3),
)
def test_what_an_open_word_becomes_never_surprises(
    globs: list[str], words: list[str], place: int, becomes: list[str]
) -> None:
    """Surely holds for every replacement; what holds for one is possible."""
    place = min(place, len(words))
    rule = Rule.parse(" ".join(("p", *globs)))
    before = JudgedCommand(
        argv=("p", *words[:place], "*", *words[place:]), open_words=(place + 1,), is_line=True
    )
    after = JudgedCommand(argv=("p", *words[:place], *becomes, *words[place:]), is_line=True)
    if rule.surely_matches(before, None):
        assert rule.surely_matches(after, None)
    if rule.surely_matches(after, None):
        assert rule.may_match(before, None)


def test_a_rule_lets_write_where_it_says_so() -> None:
    writing = JudgedCommand(argv=("ls", "-l"), is_line=True, writes=True)
    assert not Rule.parse("ls").surely_matches(writing, LS, LS)
    assert not Rule.parse("ls ; write = false").surely_matches(writing, LS, LS)
    for text in ("ls ; write = true", "ls * ;write=true", "* ; write = true"):
        rule = Rule.parse(text)
        assert rule.writes
        assert rule.surely_matches(writing, LS, LS)
    assert Rule.parse("ls ;  write=true").text == "ls ; write = true"
    assert Rule.parse("ls").may_match(writing, LS, LS)  # deny and ask are about the program
    for text in ("ls ; evil", "ls ;", "ls ; write = yes", "; write = true", "ls ; write = true ; x"):
        with pytest.raises(ValueError, match="rule"):
            Rule.parse(text)
