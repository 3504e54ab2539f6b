r"""Runs of lines that say the same again and again, shortened to the first, a mark and the last: `collapse`
(promise S4.13). Pure.

Alike are equal lines, lines of a log that differ in their times alone, progress that differs in numbers and
bars, and steps of one table of what tools print. Numbers elsewhere are data: rows of a table, sizes, results
of tests stay, however many they are. A mark keeps the cursors of what it stands for, so that nothing is out
of reach.
"""

import re
from collections.abc import Iterable, Sequence

from outlive.core.values import dataclass, replace
from outlive.protocols.plain import Line

_RUN = 4  # so many alike lines in a row become three: first, mark, last
# A longer line is no progress; its beginning is not worth a search of all forms.
_LONGEST = 400

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_BAR = re.compile(r"[=#>\-.*█▏▎▍▌▋▊▉░▒▓━╸╺ ]{2,}")
_PROGRESS = re.compile(r"\d ?%|\d+ ?(?:[kKMGT]?i?B )?(?:/|of) ?\d+|[=#█━]{3,}")
# Units change along a progress ("980 kB/s", then "1.2 MB/s"; "12.3it/s", then "1.1s/it").
_UNIT = re.compile(r"(?<=0) ?(?:[kKMGT]i?)?(?:B|b|bytes)?(?:it)?(?:/s(?:ec)?)?\b(?:/it)?|\?it/s")
# One step of many, with its progress: pytest's "a::b PASSED [ 12%]", "[ 12%] Building a.o" of cmake, "[3/40]
# Compiling a.c" of ninja. Steps with the same word are alike, whatever they name; a FAILED among them stays.
_STEP_DONE = re.compile(r"\s([A-Z]{4,})\s+\[\s*\d+%\]$", re.ASCII)
_STEP_BEGUN = re.compile(r"(?:\[gw\d+\] )?\[\s*(?:\d+%|\d+/\d+)\] (\w+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class StepForm:
    """How a tool prints one step of many: a pattern, and lines that it takes and leaves."""

    tool: str
    pattern: str
    taken: tuple[str, ...]
    left: str


# Lines of one form are alike, whatever they name. What a step has failed at is printed in another form.
STEP_FORMS = (
    StepForm(
        "docker pull",
        r"[0-9a-f]{12}: (?:Pulling fs layer|Waiting|Downloading|Verifying Checksum|Download "
        r"complete|Extracting|Pull complete|Already exists"
        r"|Preparing|Pushing|Pushed|Layer already exists|Mounted from)\b",
        ("0bc1a2d3e4f5: Pulling fs layer", "a1b2c3d4e5f6: Downloading [==>      ]  1.2MB/20MB"),
        "a1b2c3d4e5f6: error pulling image",
    ),
    StepForm(
        "docker build, layers",
        r"#\d+ (?:extracting )?sha256:[0-9a-f]{6,}",
        ("#12 sha256:0bc1a2d3e4f5 10.49MB / 29.15MB 0.3s", "#12 extracting sha256:0bc1a2d3e4f5 0.5s done"),
        "#12 [2/3] RUN make",
    ),
    StepForm(
        "maven, gradle",
        r"(?:\[INFO\] )?(?:Downloading|Downloaded|Progress)(?: \(\d+\))?(?: from \S+)?: |Download https?://",
        (
            "Downloading from central: https://repo.example.org/a.pom",
            "Downloaded from central: https://repo.example.org/a.pom (5 kB at 50 kB/s)",
        ),
        "[INFO] BUILD SUCCESS",
    ),
    StepForm(
        "pip",
        r"\s+[━╸╺]+[━╸╺ ]* \d|\s*(?:Processing|Collecting|Downloading|Using cached|Requirement already "
        r"satisfied:|Obtaining dependency information for|Preparing metadata"
        r"|Getting requirements to build|Installing build dependencies|Installing backend "
        r"dependencies|Building wheel for|Created wheel for"
        r"|Stored in directory:) \S",
        (
            "Collecting rich>=13",
            "     ━━━━━━━━━━━━━━━━ 240.1/240.1 kB 9.1 MB/s eta 0:00:00",
            "  Downloading rich-13.7.0-py3-none-any.whl (240 kB)",
            "Requirement already satisfied: six in ./lib",
        ),
        "Successfully installed rich-13.7.0",
    ),
    StepForm(
        "npm, pnpm, yarn",
        r"npm (?:http fetch|http cache|timing|sill|verb|silly|verbose) |npm (?:warn|WARN) deprecated "
        r"|Progress: resolved \d|➤ YN0013:|➤ YN0019:"
        r"|info There appears|\[\d/\d\] [^\w\s]*\s*\w+ packages",
        (
            "npm http fetch GET 200 https://packages.example/a 12ms",
            "npm http cache a@https://packages.example/a.tgz 0ms (cache hit)",
            "npm warn deprecated glob@7.2.3: old",
        ),
        "npm warn using --force",
    ),
    StepForm(
        "cargo",
        (
            r"\s+(?:Compiling|Checking|Downloading|Downloaded|Adding|Fresh|Locking|Unpacking|Documenting|"
            r"Installed) \S+ v\d"
        ),
        ("   Compiling serde v1.0.200", "    Checking libc v0.2.153"),
        "    Finished `dev` profile [unoptimized] target(s) in 5.31s",
    ),
    StepForm(
        "apt, dpkg",
        r"(?:(?:Get|Hit|Ign):\d+ |Selecting previously unselected package |Preparing to unpack "
        r"|Unpacking |Setting up |Processing triggers for "
        r"|\(Reading database)",
        (
            "Get:1 http://deb.example.org stable/main amd64 a amd64 1.2 [12 kB]",
            "Unpacking a (1.2) ...",
            "Setting up a (1.2) ...",
        ),
        "Err:1 http://deb.example.org stable/main amd64 a amd64 1.2",
    ),
    StepForm(
        "apk, dnf, pacman",
        r"\(\s*\d+/\d+\) "
        r"(?:Installing|Upgrading|Purging|installing|upgrading|checking|loading|downloading)|fetch "
        r"https?://\S+APKINDEX"
        r"|\s+(?:Installing|Upgrading|Verifying|Cleanup)\s+: ",
        ("(1/12) Installing musl (1.2.4-r2)", "(2/12) Installing zlib (1.3-r0)"),
        "OK: 12 MiB in 20 packages",
    ),
    StepForm(
        "wget",
        r"\s*\d+K [ .,]{8,}",
        (
            " 50K .......... .......... .......... 12% 1.2M 3s",
            "100K .......... .......... .......... 25%  980K 2s",
        ),
        "Length: 409600 (400K) [text/plain]",
    ),
    StepForm(
        "go",
        r"go: (?:downloading|finding|extracting) \S+ v",
        ("go: downloading golang.org/x/sys v0.20.0", "go: downloading golang.org/x/text v0.15.0"),
        "go: updates to go.mod needed",
    ),
    StepForm(
        "make of the kernel, autotools",
        (
            r"  (?:\[M\] )?(?:CC|CXX|LD|AR|AS|HOSTCC|HOSTLD|GEN|CCLD|CXXLD|OBJCOPY|STRIP|INSTALL)(?: "
            r"\[M\])?\s+\S"
        ),
        ("  CC      kernel/fork.o", "  LD      kernel/built-in.o"),
        "  WARNING: modpost: missing",
    ),
    StepForm(
        "configure",
        r"checking (?:for|whether|if|how|the|build|host)\b.*\.\.\. ",
        ("checking for gcc... gcc", "checking whether the C compiler works... yes"),
        "configure: creating ./config.status",
    ),
    StepForm(
        "a compiler's command line",
        (
            r"(?:libtool: "
            r"compile:\s+)?(?:\S*/)?(?:[\w-]+-)?(?:gcc|cc|g\+\+|c\+\+|clang|clang\+\+|rustc|javac|"
            r"nvcc)(?:-\d+)? .*-c\b"
        ),
        ("gcc -O2 -Wall -c -o a.o a.c", "gcc -O2 -Wall -c -o b.o b.c"),
        "gcc -o program a.o b.o",
    ),
    StepForm(
        "tar, rsync of many, unzip",
        r"\s+(?:inflating|extracting|creating): \S",
        ("  inflating: a/b.txt", "   creating: a/"),
        "Archive:  a.zip",
    ),
)
_STEPS = re.compile("|".join(f"(?P<t{number}>{form.pattern})" for number, form in enumerate(STEP_FORMS)))
# buildkit puts "#12 1.234 " before each line of a RUN: what is behind it is what the tool has printed.
_BUILDKIT = re.compile(r"#\d+ \d+\.\d+ ")
# tqdm and its like: what is behind the bar changes its form with time.
_METER = re.compile(r"(.{0,60}?)\s*\d{1,3}%\|.*")
# A log's time at the beginning of a line, and durations behind it: "2024-05-01T10:00:00.123Z", "[10:00:00]", "[   12.345678]".  # noqa: E501 -- cut nowhere better: a table, or another program's text
_TIME = re.compile(
    r"[\[(<]?\s*(?:\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z| ?[+-]\d\d:?\d\d)?)?"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d\d:\d\d:\d\d(?:[.,]\d+)?|\d+\.\d{6})\s*[\])>]?"
)
_DURATION = re.compile(r"\b\d+(?:\.\d+)? ?(?:ns|us|µs|ms|s|sec|seconds|min)\b")
_WORDY = re.compile(r"[A-Za-z]{3}.*[A-Za-z]{3}")
# What is going on, said by its verb, and a number of how far: no table begins so.
_ACTIVITY = re.compile(
    r"\W{0,4}(?:still "
    r")?(?:waiting|retrying|polling|processing|downloading|uploading|fetching|copying|extracting|loading|"
    r"indexing|scanning"
    r"|importing|exporting|syncing|connecting|pulling|pushing|sending|receiving|transferring|writing|reading|generating|compressing)\b",
    re.IGNORECASE,
)


def collapse(lines: Iterable[Line]) -> list[Line]:
    """Return lines with runs of four and more alike ones shortened to the first, a mark and the last.

    The mark has the cursors of what it stands for: every byte stays in exactly one line of the result.
    Secrets in hidden lines are not counted, for the count is of what is shown.
    """
    shown: list[Line] = []
    run: list[Line] = []
    run_key = ""
    for line in lines:
        # Marks are never alike: each stands for a part of its own.
        key = line.text if line.is_mark else alike_key(line.text)
        if run and key != run_key:
            shown += _shortened(run)
            run = []
        run.append(line)
        run_key = key
    return shown + _shortened(run)


def alike_key(text: str) -> str:
    """Return what alike lines have in common; for any other line, the line itself."""
    if len(text) > _LONGEST:
        return text
    if text.startswith("#") and (built := _BUILDKIT.match(text)) is not None:
        return f"# {alike_key(text[built.end() :])}"
    step = (_STEP_DONE.search(text) if text.endswith("%]") else None) or _STEP_BEGUN.match(text)
    if step is not None:
        return f"% {step[1]}"
    if (known := _STEPS.match(text)) is not None:
        return f"% {known.lastgroup}"
    if "%|" in text and (meter := _METER.match(text)) is not None:
        return f"| {meter[1]}"
    if _PROGRESS.search(text):
        return _BAR.sub("~", _UNIT.sub("", _NUMBER.sub("0", text))).strip("~ ")
    # A log says the same again: only its times differ. A line of a time and a figure is data, so two words
    # are asked for.
    if (time := _TIME.match(text)) is not None and _WORDY.search(text, time.end()):
        return f"@ {_DURATION.sub('0', text[time.end() :])}"
    if _ACTIVITY.match(text):
        return f"~ {_NUMBER.sub('0', text)}"
    return text


def _shortened(run: Sequence[Line]) -> list[Line]:
    if len(run) < _RUN:
        return list(run)
    # Three samples are enough for a word; the lines themselves are behind the mark's cursors.
    word = "equal" if run[0].text == run[1].text == run[-1].text else "similar"
    mark = f"[... {len(run) - 2} {word} lines ...]"
    return [run[0], replace(run[1], text=mark, end=run[-2].end, redacted=0, is_mark=True), run[-1]]
