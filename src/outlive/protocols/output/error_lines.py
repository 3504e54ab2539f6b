r"""Which lines of output report an error (`looks_like_error`), by a table of the forms in which tools do it,
each with a line that it takes and one that it must not take. Pure.

The table is for the middle of a long output, where a missed line hides the cause and a line too many costs a
few words. So a row takes a tool's own form ("main.c:3:5: error: …", "E   assert 1 == 2") and no bare word:
"0 errors", "error_handler.c" and "-Werror" are everywhere in output without errors. Tests read the examples.
"""

import re
from collections.abc import Iterable, Iterator

from ahocorasick_rs import AhoCorasick, BytesAhoCorasick

from outlive.core.values import dataclass, replace
from outlive.protocols.output.binary import is_binary
from outlive.protocols.plain import Line, strip_ansi


@dataclass(frozen=True, slots=True)
class ErrorForm:
    """How one family of tools reports an error: a pattern, a line that it takes, and a similar one that it
    must not take.

    Each line that the pattern takes has one of `needles` (separated by "|") in it, when it is in lower case.
    """

    tool: str
    needles: str
    pattern: str
    taken: str
    refused: str


ERROR_FORMS = (
    # --- any program ---
    ErrorForm(
        "a message with its level in front",
        "error|fatal",
        r"(?:^|[\s\])>:])(?i:fatal|(?:fatal |internal |syntax |compile |build |unexpected "
        r"|runtime )?error)(?:\[\w+\]|\(\w+\)| \w{1,8}\d{2,6})?:(?!\W*(?:0|none|null|nil|false"
        r"|undefined|\"\")\b)(?=\s*\S|$)",
        "fatal: not a git repository (or any of the parent directories): .git",
        "error: 0",
    ),
    ErrorForm(
        "a log line with its level",
        "error|fatal|critical|severe|emerg|panic|err!",
        r"(?:^|[\s\[(|<])(?:ERROR|FATAL|CRITICAL|SEVERE|EMERG|PANIC|ERR!)(?:[\])|>:]|\s)(?!\W*(?:0"
        r"|none)\b)",
        "2024-05-01 10:00:00,123 [main] ERROR com.example.App - refused",
        "ERROR: 0, WARN: 3",
    ),
    ErrorForm(
        "a structured log line",
        "level|lvl|severity",
        r"(?i:\"?\b(?:level|lvl|severity)\"?\s*[=:]\s*\"?(?:error|fatal|critical|panic)\b)",
        'time="2024-05-01T10:00:00Z" level=error msg="no route"',
        'level=info msg="errors reset"',
    ),
    ErrorForm(
        "what perror and the shell say",
        "no such file|permission denied|not found|is a directory|no space left|connection refused"
        "|connection reset|address already|not permitted|read-only file|cannot allocate|exec format"
        "|too many open|broken pipe|argument list too|service not known|resource busy|input/output"
        "|quota exceeded",
        r"(?i:: (?:no such file or directory|permission denied|command not found|not found$"
        r"|is a directory|no space left on device|connection refused|connection reset by peer"
        r"|address already in use|operation not permitted|read-only file system"
        r"|cannot allocate memory|exec format error|too many open files|broken pipe"
        r"|argument list too long|name or service not known|device or resource busy"
        r"|input/output error|disk quota exceeded))",
        "cp: cannot stat 'a': No such file or directory",
        "the page says what permission denied means",
    ),
    ErrorForm(
        "a process that was killed",
        "segmentation fault|sigsegv|sigabrt|sigbus|sigill|sigkill|sigfpe|core dumped|killed|aborted"
        "|out of memory|double free|stack smashing|assertion|addresssanitizer|undefinedbehavior",
        r"(?:\b[Ss]egmentation fault\b|\bSIG(?:SEGV|ABRT|BUS|ILL|KILL|FPE)\b|\(core dumped\)"
        r"|^Killed$|^Aborted\b|\b[Oo]ut of memory\b|\bOOMKilled\b|double free or corruption"
        r"|stack smashing detected|\bAssertion .* failed\b|AddressSanitizer|UndefinedBehavior)",
        "Segmentation fault (core dumped)",
        "Killed 3 stale sessions",
    ),
    ErrorForm(
        "a count that is not zero",
        "error|failure|failed|failing|problem",
        r"\b[1-9]\d* (?:errors?|failures?|failed|failing|problems?)\b(?!\W*\b0\b)",
        "make: 3 errors, 1 warning",
        "0 errors, 10 warnings",
    ),
    ErrorForm(
        "a sentence about what could not be done",
        "could not|cannot|can't|failed to|unable to|no module named|unhandled",
        r"(?:^|: |\] )(?:[Cc]ould not|[Cc]annot|[Cc]an't|[Ff]ailed to|[Uu]nable to"
        r"|[Nn]o module named|[Uu]nhandled) \w",
        "E: Unable to locate package nosuch",
        "this option says what cannot happen",
    ),
    # --- compilers and linkers ---
    ErrorForm(
        "gcc, clang, swiftc, kotlinc",
        "error:",
        r":\d+(?::\d+)?:? (?:fatal )?error:",
        "src/main.c:3:5: error: expected ';' before 'return'",
        "gcc -Wall -Werror -c error.c -o error.o",
    ),
    ErrorForm(
        "rustc",
        "error[e",
        r"^error\[E\d{4}\]: ",
        "error[E0308]: mismatched types",
        "   Compiling error-chain v0.12.4",
    ),
    ErrorForm(
        "tsc, msbuild, dotnet",
        "error ",
        r"\): error [A-Z]+\d+: | - error TS\d+: ",
        "src/a.ts(3,7): error TS2322: Type 'string' is not assignable to type 'number'.",
        "error TS files were searched",
    ),
    ErrorForm(
        "javac",
        "error: ",
        r"\.java:\d+: error: ",
        "src/A.java:3: error: ';' expected",
        "src/Error.java:3: warning: unused",
    ),
    ErrorForm(
        "go build, go vet",
        ".go:",
        r"^(?:vet: )?\.{0,2}[\w./-]+\.go:\d+:\d+: \S",
        "./main.go:5:2: undefined: x",
        "see main.go:5 for details",
    ),
    ErrorForm(
        "linkers",
        "undefined |multiple definition|collect2|ld returned|cannot find -l|unresolved external",
        r"undefined reference to|[Uu]ndefined symbols?\b|multiple definition of|collect2: error"
        r"|ld returned \d|\bcannot find -l|unresolved external",
        "main.c:(.text+0x5): undefined reference to `missing'",
        "ld --no-undefined -o a a.o",
    ),
    # --- what builds ---
    ErrorForm(
        "make",
        "***",
        r"(?:^|\s)g?make(?:\[\d+\])?: \*\*\*|^Makefile:\d+: \*\*\*",
        "make[2]: *** [Makefile:12: a.o] Error 1",
        "make[2]: Leaving directory '/src'",
    ),
    ErrorForm(
        "ninja, meson, bazel, buck",
        "failed: |ninja: |meson.build:",
        r"^FAILED: |^ninja: (?:error|build stopped)|^meson\.build:\d+:\d+: ERROR",
        "FAILED: src/a.o ",
        "[3/40] Compiling FAILED.c",
    ),
    ErrorForm(
        "CMake",
        "cmake error|configuring incomplete",
        r"^CMake Error\b|^-- Configuring incomplete",
        "CMake Error at CMakeLists.txt:3 (find_package):",
        "-- Looking for CMakeError - found",
    ),
    ErrorForm(
        "gradle, maven, sbt",
        "fail|went wrong|[error]",
        r"^FAILURE: |^> Task \S+ FAILED|^BUILD FAILED|^\* What went wrong|^\[(?:ERROR|error)\] \S",
        "> Task :app:compileJava FAILED",
        "> Task :app:compileJava UP-TO-DATE",
    ),
    ErrorForm(
        "npm, yarn, pnpm",
        "npm err|err_pnpm|yn0",
        r"^npm (?:ERR!|error) |^(?:\u2009)?ERR_PNPM_\w+|^ ERR_PNPM|^➤ YN\d{4}: .*(?:failed|couldn't)",
        "npm ERR! code ELIFECYCLE",
        "npm warn deprecated error@1.0.0: use errors",
    ),
    ErrorForm(
        "docker build",
        "error:|error [|> [|non-zero code|did not complete",
        r"^#\d+ ERROR\b|^ERROR \[|^ ?> ?\[[^\]]+\].*:$|returned a non-zero code"
        r"|did not complete successfully|^Error response from daemon",
        '#7 ERROR: process "/bin/sh -c false" did not complete successfully: exit code: 1',
        "#7 [2/3] RUN ./check-error.sh",
    ),
    ErrorForm(
        "cargo",
        "could not compile|test failed|build failed",
        r"^error: (?:could not compile|test failed|build failed)|^warning: build failed",
        'error: could not compile `a` (bin "a") due to 2 previous errors',
        "    Finished `dev` profile in 0.5s",
    ),
    # --- tests ---
    ErrorForm(
        "pytest",
        "failed|error|e  |___",
        r"^(?:FAILED|ERROR) \S+(?:\.py|::)|^E {2,}\S|^\S+ (?:FAILED|ERROR)\b|^_{3,} .+ _{3,}$"
        r"|^\[gw\d+\].* FAILED ",
        "FAILED tests/test_a.py::test_x - assert 1 == 2",
        "tests/test_error.py::test_failed PASSED",
    ),
    ErrorForm(
        "unittest, Django",
        "fail|error",
        r"^(?:FAIL|ERROR): \w+ \(|^FAILED \((?:failures|errors)=",
        "FAIL: test_x (tests.A.test_x)",
        "test_fail (tests.A.test_fail) ... ok",
    ),
    ErrorForm(
        "go test",
        "fail|_test.go:",
        r"^\s*--- FAIL: |^FAIL\b|^\s+\w+_test\.go:\d+: \S",
        "--- FAIL: TestX (0.00s)",
        "--- PASS: TestFail (0.00s)",
    ),
    ErrorForm(
        "cargo test",
        "failed|stdout ----",
        r"^test .+ \.\.\. FAILED$|^test result: FAILED|^---- .+ stdout ----$",
        "test a::b ... FAILED",
        "test a::failed ... ok",
    ),
    ErrorForm(
        "jest, vitest, mocha",
        "fail|✕|✗|\u00d7|✖|●|assertionerror|expected: |received: ",
        r"^\s*(?:FAIL|✕|✗|\u00d7|✖) \S|^\s*● .+ \u203a |^AssertionError|^\s*Expected: ."
        r"|^\s*Received: .",
        "  ✕ adds two numbers (3 ms)",
        "  ✓ shows the error (3 ms)",
    ),
    ErrorForm(
        "TAP, prove",
        "not ok",
        r"^\s*not ok \d",
        "not ok 3 - adds",
        "ok 3 - does not ok",
    ),
    ErrorForm(
        "rspec, minitest, phpunit",
        "rspec ./|failure",
        r"^rspec \./|^\s*Failure/Error:|^There (?:was|were) \d+ (?:failure|error)|^FAILURES!"
        r"|^Failure:$",
        "rspec ./spec/a_spec.rb:3 # adds",
        "3 examples, 0 failures",
    ),
    ErrorForm(
        "ctest, gtest",
        "***|failed  ]|: failure",
        r"\*\*\*(?:Failed|Exception|Timeout|Not Run)|^\[  FAILED  \]|: Failure$",
        "[  FAILED  ] A.B (0 ms)",
        "[       OK ] A.Failed (0 ms)",
    ),
    # --- tracebacks ---
    ErrorForm(
        "Python",
        "traceback|error|exception|interrupt|exit",
        r"^\s*Traceback \(most recent call last\)|^(?:[a-zA-Z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception"
        r"|Interrupt|Exit)(?:: |$)",
        "ValueError: no digit",
        "ValueErrors are raised by int()",
    ),
    ErrorForm(
        "Node",
        "error|throw |node:internal|unhandled",
        r"^(?:Uncaught )?(?:\w*Error)(?: \[\w+\])?: |^\s*throw |^node:internal"
        r"|^Unhandled(?:PromiseRejection| 'error')",
        "TypeError: x is not a function",
        "    at Error.stack (a.js:1:2)",
    ),
    ErrorForm(
        "Java, Kotlin, Scala",
        "exception|caused by|error",
        r"^Exception in thread |^Caused by: |^(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error)\b",
        'Exception in thread "main" java.lang.NullPointerException',
        "\tat java.base/java.lang.Exception.<init>(Exception.java:1)",
    ),
    ErrorForm(
        "Go",
        "panic: |fatal error|goroutine",
        r"^panic: |^fatal error: |^goroutine \d+ \[running\]",
        "panic: runtime error: index out of range [3] with length 3",
        "goroutine 7 [select]:",
    ),
    ErrorForm(
        "Rust",
        "panicked at",
        r"^thread '[^']*'.* panicked at ",
        "thread 'main' panicked at src/main.rs:2:5:",
        "a thread that panicked at night",
    ),
    ErrorForm(
        "Ruby, Perl, PHP",
        "error)|exception)|php |.pl line|.pm line",
        r"\.rb:\d+:in .*\(\w+(?:Error|Exception)\)|^PHP (?:Fatal|Parse) error"
        r"|\bat \S+\.p[lm] line \d+\.",
        "a.rb:3:in `x': no (NoMethodError)",
        "\tfrom a.rb:3:in `x'",
    ),
    ErrorForm(
        "C#, .NET",
        "unhandled exception|---> system.",
        r"^Unhandled exception\. |^\s*---> System\.",
        "Unhandled exception. System.Exception: no",
        "Handled exceptions: 3",
    ),
    # --- checkers and services ---
    ErrorForm(
        "eslint, stylelint",
        "error|✖",
        r"^\s+\d+:\d+\s+(?:error|✖)\s",
        "  3:10  error  'x' is not defined  no-undef",
        "  3:10  warning  error is unused  no-unused",
    ),
    ErrorForm(
        "mypy, pyright, ruff, flake8, pylint",
        ".py:|.pyi:",
        r"\.pyi?:\d+:(?:\d+:?)?(?: -)? (?:error\b|[A-Z]{1,4}\d{3,4}\b)",
        "a.py:3: error: Incompatible types in assignment",
        "a.py:3: note: error is declared here",
    ),
    ErrorForm(
        "git",
        "conflict (|rejected",
        r"^CONFLICT \(|^ ! \[(?:remote )?rejected\]|^hint: Updates were rejected",
        "CONFLICT (content): Merge conflict in a.txt",
        "commit 3f: resolve conflict (content)",
    ),
    ErrorForm(
        "terraform, ansible, kubectl, systemd",
        "error:|fatal: [|from server|with result|backoff",
        r"^[│╷] Error:|^fatal: \[|^Error from server|\bFailed with result\b|CrashLoopBackOff"
        r"|ImagePullBackOff",
        "│ Error: Unsupported argument",
        "│ Errors are listed above",
    ),
    ErrorForm(
        "SQL servers",
        "psql:|error:  |ora-|error 1|error 2|error 3|error 4",
        r"^psql:.*: (?:ERROR|FATAL):|^ERROR \d{4} \(\w+\)|\bORA-\d{5}\b|^ERROR: {2}",
        "ERROR 1064 (42000): You have an error in your SQL syntax",
        "SELECT 'ORA' AS error",
    ),
    ErrorForm(
        "HTTP clients",
        "curl: (|http/|error |verify_failed",
        r"^curl: \(\d+\) |\bHTTP/\d(?:\.\d)? 5\d\d\b|: ERROR \d{3}|\bCERTIFICATE_VERIFY_FAILED\b",
        "curl: (6) Could not resolve host: nosuch",
        "curl: option --fail-with-body",
    ),
)

# A longer line is a piece of data or a minified program; what a tool says of it stands at its beginning.
_SEARCHED_CHARACTERS = 2000
# Most lines have none of the needles: all of them are looked for at once, in 0.2 us a line, and then only the
# forms whose needles are there. One regular expression of all forms takes 100 us a line (bench: 70
# characters, "INFO request … interrupted").
_NEEDLES = [(needle, place) for place, form in enumerate(ERROR_FORMS) for needle in form.needles.split("|")]
_AUTOMATON = AhoCorasick([needle for needle, _ in _NEEDLES])
_BYTES_AUTOMATON = BytesAhoCorasick([needle.encode() for needle, _ in _NEEDLES])
_PATTERNS = [re.compile(form.pattern) for form in ERROR_FORMS]
# A test or a step that passed is named for what it checks: "test_error_is_shown PASSED", "ok 3 - fatal: is
# said".
_PASSED = re.compile(r"^(?:ok \d|\s*(?:✓|✔|√|PASS\b|--- PASS))|\bPASSED\b|\.\.\. ok$")


def looks_like_error(text: str) -> bool:
    """Tell whether a line without escape sequences reports an error, as far as the forms of the table go."""
    text = text[:_SEARCHED_CHARACTERS]
    hits = _AUTOMATON.find_matches_as_indexes(text.lower(), overlapping=True)
    if not hits or _PASSED.search(text):
        return False
    # A set: several needles may lead to one form.
    return any(_PATTERNS[form].search(text) for form in {_NEEDLES[hit][1] for hit, _, _ in hits})


def error_spans(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield where each line of `data` that reports an error begins and ends.

    Most of a long log costs one look for the needles.
    """
    searched = 0
    for _, hit, _ in _BYTES_AUTOMATON.find_matches_as_indexes(data.lower()):
        if hit < searched:
            continue  # in a line that was looked at
        # Bytes are searched and few lines decoded: to decode all of a log costs ten times the search.
        begin = data.rfind(b"\n", 0, hit) + 1
        end = data.find(b"\n", hit)
        end = searched = len(data) if end < 0 else end
        text = data[begin:end].decode("utf-8", "replace")
        if looks_like_error(strip_ansi(text)) and not is_binary(text):
            yield begin, end


def with_errors(lines: Iterable[Line]) -> list[Line]:
    """Return lines, of which those that report an error say so."""
    return [
        replace(line, is_error=True) if not line.is_mark and looks_like_error(line.text) else line
        for line in lines
    ]
