"""Every promise of a built door has a test, and no test invents a promise.

Reads the marks from the syntax trees, so that a test that is skipped or never collected still counts as
written, and so that this test needs no other test's imports.
"""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator

from outlive.operations.table import all_operations
from tests.house.sources import Source, python_sources
from tests.promises import BUILT_DOORS, DOORS, PROMISES

_KNOWN = {promise.id: promise for promise in PROMISES}


def _ids_of(call: ast.Call, source: Source) -> Iterator[str]:
    for argument in call.args:
        value = argument.value if isinstance(argument, ast.Constant) else None
        assert isinstance(value, str), f"{source.name}:{call.lineno}: promise ids are written out as strings"
        yield value


def _is_promise_mark(node: ast.AST) -> bool:
    """Recognise `pytest.mark.promise(...)` wherever it stands: decorator, `pytestmark`, `pytest.param`."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="mark"), attr="promise")):
            return True
        case _:
            return False


def _sources() -> Iterator[Source]:
    """Yield the files of tests that name a promise; only they are taken apart."""
    return (source for source in python_sources("tests") if "promise" in source.text)


def _marked() -> dict[str, list[str]]:
    """Map each promise id named by a test to the places that name it."""
    found: dict[str, list[str]] = defaultdict(list)
    for source in _sources():
        for node in source.nodes:
            if isinstance(node, ast.Call) and _is_promise_mark(node):
                for promise_id in _ids_of(node, source):
                    found[promise_id].append(f"{source.name}:{node.lineno}")
    return found


def _promised_words() -> set[str]:
    """Return the strings that stand in tests which prove a promise, as what they call or as what a case of
    theirs is.
    """
    found: set[str] = set()
    for source in _sources():
        if source.name.startswith(("tests/promise", "tests/house", "tests/support")):
            continue
        texts = [
            node for node in source.nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        if any(_is_promise_mark(node) for node in source.nodes):
            found.update(str(node.value) for node in texts)
    return found


def test_every_operation_is_asked_for_where_a_promise_is_proved() -> None:
    """An operation that nothing is promised about, or that no such test calls by its name, is not
    finished.
    """
    words = _promised_words()
    assert [name for name in all_operations() if name not in words] == []


def test_promise_ids_are_unique_and_well_formed() -> None:
    counted = Counter(promise.id for promise in PROMISES)
    assert [promise_id for promise_id, times in counted.items() if times > 1] == []
    for promise in PROMISES:
        assert promise.door in DOORS
        assert promise.sentence.endswith("."), f"{promise.id}: a promise is one sentence"
        assert " " not in promise.id


def test_no_test_names_an_unknown_promise() -> None:
    unknown = [
        f"{promise_id}: {places}" for promise_id, places in _marked().items() if promise_id not in _KNOWN
    ]
    assert not unknown, "\n".join(unknown)


def test_every_promise_of_a_built_door_has_a_test() -> None:
    marked = _marked()
    missing = [
        f"{promise.id}: {promise.sentence}"
        for promise in PROMISES
        if promise.door in BUILT_DOORS and promise.id not in marked
    ]
    assert not missing, f"{len(missing)} promises of built doors have no test:\n" + "\n".join(missing)


def test_pending_promises_are_listed() -> None:
    """Prints (`pytest -rP`) what is promised and not yet built."""
    pending = [promise for promise in PROMISES if promise.door not in BUILT_DOORS]
    for promise in pending:
        print(f"pending ({promise.door}) {promise.id}: {promise.sentence}")
    assert {promise.door for promise in pending}.isdisjoint(BUILT_DOORS)
