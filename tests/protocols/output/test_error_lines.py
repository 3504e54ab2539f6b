"""What looks like an error: each tool's own form, and none of the words that are in output without errors."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.protocols.output.error_lines import ERROR_FORMS, ErrorForm, error_spans, looks_like_error


@pytest.mark.promise("S4.13.errors")
@pytest.mark.parametrize("form", ERROR_FORMS, ids=lambda form: form.tool)
def test_each_form_takes_its_example_and_leaves_the_other(form: ErrorForm) -> None:
    assert re.search(form.pattern, form.taken)
    assert any(needle in form.taken.lower() for needle in form.needles.split("|"))
    assert looks_like_error(form.taken)
    assert not looks_like_error(form.refused)


@pytest.mark.promise("S4.13.errors")
@pytest.mark.parametrize(
    "text",
    [
        "main.c:3:5: fatal error: nosuch.h: No such file or directory",
        "/usr/bin/ld: a.o: in function `main': a.c:(.text+0x5): undefined reference to `f'",
        "collect2: error: ld returned 1 exit status",
        "make: *** [Makefile:2: all] Error 2",
        "gmake[1]: *** No rule to make target 'x'.  Stop.",
        "E       AssertionError: assert 1 == 2",
        "ERROR: test_y (tests.A)",
        "sqlalchemy.exc.OperationalError: (psycopg2.OperationalError) refused",
        "KeyError: 'a'",
        "SyntaxError: invalid syntax",
        "Error: Cannot find module 'x'",
        "npm error code ENOENT",
        "fatal: unable to access 'https://example.org/': Could not resolve host",
        "bash: nosuch: command not found",
        "sh: 1: nosuch: not found",
        "/bin/sh: ./a: Permission denied",
        "Err: the scan failed: Connection refused",
        "[ERROR] Failed to execute goal org.example:plugin",
        "1 failed, 399 passed in 2.31s",
        "Tests: 1 failed, 3 passed",
        "Found 2 errors in 1 file (checked 3 source files)",
        "E0425: error: x",
        "10:00:00.123 |ERROR| the queue is full",
    ],
)
def test_what_programs_say_when_they_fail_is_found(text: str) -> None:
    assert looks_like_error(text)


@pytest.mark.promise("S4.13.errors")
@pytest.mark.parametrize(
    "text",
    [
        "0 errors, 0 warnings",
        "errors: 0",
        "Errors: 0, Failures: 0, Skipped: 1",
        "Tests run: 12, Failures: 0, Errors: 0",
        "no errors found",
        "[12/40] Building C object error_handler.c.o",
        "gcc -Wall -Werror -Wno-error=unused -c src/error.c -o error.o",
        "   Compiling thiserror v1.0.50",
        "  CC      lib/error-inject.o",
        "tests/test_errors.py::test_a_failed_start_is_reported PASSED [ 12%]",
        "ok 12 - error: is printed",
        "-- Performing Test HAVE_STRERROR - Success",
        "checking for strerror... yes",
        "error_rate=0.00",
        "400 passed in 1.20s",
        "  inflating: docs/errors.md",
        "error: none",
        '{"error": null, "id": 3}',
        "Setting up liberror-perl (0.17029-2) ...",
        "an exception is made for failing gracefully",
    ],
)
def test_words_of_errors_alone_are_no_errors(text: str) -> None:
    assert not looks_like_error(text)


@given(
    st.lists(
        st.sampled_from(
            [b"text", b"a.c:1:2: error: x", b"\x1b[31merror\x1b[0m: y", b"", b"\xff\xfe error: z"]
        )
    )
)
def test_spans_are_the_lines_that_look_like_errors(lines: list[bytes]) -> None:
    """S4.13.errors."""
    data = b"\n".join(lines)
    found = [data[begin:end] for begin, end in error_spans(data)]
    assert found == [line for line in lines if b"error" in line]
