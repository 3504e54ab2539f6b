"""One rule of the deny, ask and allow lists: `Rule`, globs over the words of one simple command. Pure.

The first word names the program. The others are compared with the command's words, one by one: `*` and `?`
match within a word, `**` matches any number of words, a last `*` any words that follow. A rule of one word is
about the program, whatever follows. Text is never compared as a whole: what the words of a command are is
known from `grammar`, or from the caller's argv.
"""

import re
from fnmatch import fnmatchcase, translate

from outlive.core.values import dataclass
from outlive.policy.patterns import ProgramFile
from outlive.policy.starters import SHELL_BUILTINS, is_multi_call

_GLOB = re.compile(r"[*?\[]")
_QUOTES = re.compile(r"['\"`\\]")
_OPERATORS = frozenset({"&", "&&", "|", "||", ";"})
_OPTION = re.compile(r"(.*?)\s+;\s*(.*)", re.DOTALL)  # "sort * ; write = true"
_WRITES = re.compile(r"write\s*=\s*(true|false)")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCommand:
    """One simple command as rules see it.

    `open_words` are the positions of words that the shell may replace by any number of others. `ends_open`:
    unknown words will follow (xargs). `is_line`: a shell looks its program up, builtins first. `is_inner`:
    another command of the same line would start it, so only deny and ask apply. `writes`: the shell writes
    its output into a file. `reads` and `into` are the files behind redirections.
    """

    argv: tuple[str, ...]
    open_words: tuple[int, ...] = ()
    is_line: bool = False
    is_inner: bool = False
    ends_open: bool = False
    writes: bool = False
    reads: tuple[str, ...] = ()
    into: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The program's name, without a folder before it."""
        return self.argv[0].rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class _RuleWord:
    """What one word of a command must be; `shape` None matches any number of words."""

    text: str
    shape: re.Pattern[str] | None

    @property
    def is_literal(self) -> bool:
        return _GLOB.search(self.text) is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule: `text` as it was written, `program` its first word.

    `writes`: it also allows output into files.
    """

    text: str
    program: str
    words: tuple[_RuleWord, ...]
    is_path: bool  # whether the first word is a path, not only a name
    names_one_program: bool  # whether the first word is no pattern
    writes: bool = False

    @classmethod
    def parse(cls, text: str) -> "Rule":
        """Read a rule.

        Raises:
            ValueError: The text is no rule; the sentence says why.
        """
        text, writes = _without_option(text)
        program, *words = text.split() or [""]
        if not program:
            raise ValueError("a rule begins with a program's name")
        if _QUOTES.search(text):
            raise ValueError(f"{text!r}: a rule has no quotes; ? stands for a blank within a word")
        if not _OPERATORS.isdisjoint(words) or program in _OPERATORS:
            raise ValueError(f"{text!r}: a rule is about one program and its words, not about a line")
        if "**" in program:
            raise ValueError(f"{text!r}: ** stands for further words, not for a program")
        shapes = [_word(word, is_last=place == len(words)) for place, word in enumerate(words, 1)]
        return cls(
            text=" ".join((program, *words, *(("; write = true",) if writes else ()))),
            program=program,
            words=tuple(shapes) or _WHATEVER,
            is_path="/" in program,
            names_one_program=_GLOB.search(program) is None,
            writes=writes,
        )

    def may_match(
        self, command: JudgedCommand, file: ProgramFile | None, own: ProgramFile | None = None
    ) -> bool:
        """Return whether a command can match the rule, under any name of its program: for deny and ask.

        Args:
            command: The command to judge.
            file: The file to which its first word leads; None if there is none.
            own: The file to which the rule's first word leads; None if there is none, or the word is a
                pattern.
        """
        if not self._may_be_program(command, file, own):
            return False
        if self.words is _WHATEVER:
            return True
        open_words = frozenset(place - 1 for place in command.open_words)
        return _match(self.words, command.argv[1:], open_words, surely=False, ends_open=command.ends_open)

    def surely_matches(
        self, command: JudgedCommand, file: ProgramFile | None, own: ProgramFile | None = None
    ) -> bool:
        """Return whether a command matches the rule, whatever the shell makes of its words: for allow."""
        if command.ends_open or (command.writes and not self.writes):
            return False
        if not self._is_program(command, file, own):
            return False
        if self.words is _WHATEVER:
            return True
        open_words = frozenset(place - 1 for place in command.open_words)
        return _match(self.words, command.argv[1:], open_words, surely=True)

    def _may_be_program(
        self, command: JudgedCommand, file: ProgramFile | None, own: ProgramFile | None
    ) -> bool:
        if self.names_one_program:
            if self.program == (command.argv[0] if self.is_path else command.name):
                return True
            if file is None:
                return False
            # Another name of the same file counts, unless the file is another program under each name
            # (busybox).
            if own is not None and file.identity == own.identity and not is_multi_call(file.real):
                return True
            return self.program in (file.paths if self.is_path else file.names)
        if self.is_path:
            known = (command.argv[0],) if file is None else (command.argv[0], *file.paths)
        else:
            known = (command.name,) if file is None else (command.name, *file.names)
        return any(fnmatchcase(one, self.program) for one in known)

    def _is_program(self, command: JudgedCommand, file: ProgramFile | None, own: ProgramFile | None) -> bool:
        word = command.argv[0]
        if not self.is_path:
            if "/" in word or not command.is_line:
                return file is not None and file.is_own and _matches(command.name, self.program)
            # A builtin, or what the shell finds in the server's own PATH (`command_reader` makes sure it has
            # no other).
            return _matches(word, self.program)
        if file is None or (command.is_line and word in SHELL_BUILTINS):
            return False
        return (
            _matches(file.found, self.program)
            or _matches(file.real, self.program)
            or (own is not None and own.found == file.found)
        )


_ANY_WORDS = _RuleWord("**", None)
_WHATEVER = (_ANY_WORDS,)


def _without_option(text: str) -> tuple[str, bool]:
    """Return a rule without the option behind its semicolon, and whether that option lets it write.

    Raises:
        ValueError: Something else is behind the semicolon.
    """
    found = _OPTION.fullmatch(text)
    if found is None:
        return text, False
    option = _WRITES.fullmatch(found[2].strip())
    if option is None:
        raise ValueError(f"{text!r}: behind the semicolon of a rule only write = true can stand")
    return found[1], option[1] == "true"


def _word(text: str, *, is_last: bool) -> _RuleWord:
    if text == "**" or (text == "*" and is_last):
        return _ANY_WORDS
    return _RuleWord(text, re.compile(translate(text)))


def _matches(text: str, glob: str) -> bool:
    return text == glob or fnmatchcase(text, glob)


def _match(
    shapes: tuple[_RuleWord, ...],
    words: tuple[str, ...],
    open_words: frozenset[int],
    *,
    surely: bool,
    ends_open: bool = False,
) -> bool:
    """Return whether words match in at least one of the ways in which the open ones may be replaced.

    `surely`: in each of them; then only a shape for any words matches an open one.
    """
    reached = {0}  # numbers of shapes that may be used up before the present word
    for place, word in enumerate(words):
        following: set[int] = set()
        for used in _over_any(shapes, reached):
            if place in open_words and not surely:  # it may become no word, or any number of words
                following.add(used)
                while used < len(shapes) and _may_become(word, shapes[used]):
                    used += 1  # noqa: PLW2901 -- walks on from here
                    following.add(used)
            elif used < len(shapes):
                shape = shapes[used].shape
                if shape is None:
                    following.add(used)
                elif place not in open_words and shape.match(word) is not None:
                    following.add(used + 1)
        reached = following
        if not reached:
            return False
    return ends_open or len(shapes) in _over_any(shapes, reached)


def _over_any(shapes: tuple[_RuleWord, ...], reached: set[int]) -> set[int]:
    """Add the positions behind shapes that match any number of words, none included."""
    grown = set(reached)
    for used in reached:
        while used < len(shapes) and shapes[used].shape is None:
            used += 1  # noqa: PLW2901 -- walks on from here
            grown.add(used)
    return grown


def _may_become(word: str, shape: _RuleWord) -> bool:
    """Return whether the shell may replace an open word, taken as a pattern, by one that fits the shape."""
    if shape.shape is None or not shape.is_literal or "[" in word:
        return True
    return fnmatchcase(shape.text, word.replace("~", "*"))
