"""Where a line begins, and a byte's position among both streams, in any history of writes."""

from hypothesis import given
from hypothesis import strategies as st

from outlive.store.search.log_search import LineFinder, position_of
from tests.store.test_output_log import written

_TEXTS = st.text("ab\n\0", min_size=1, max_size=12).map(str.encode)
_HISTORY = st.lists(st.tuples(st.sampled_from([0, 1]), _TEXTS, st.booleans()), max_size=15)


@given(history=_HISTORY, line=st.integers(1, 40), is_single=st.booleans())
def test_a_line_begins_behind_as_many_newlines_as_were_written_before(
    history: list[tuple[int, bytes, bool]], line: int, is_single: bool
) -> None:
    runs = [(0 if is_single else stream, data, is_new) for stream, data, is_new in history]
    with written(runs) as (keeper, log):
        finding = LineFinder(log, line)
        while not finding.is_over:
            finding.turn()
        before = finding.cursor.stdout + finding.cursor.stderr
        newlines = [place for place, (_, byte) in enumerate(keeper.order) if byte == 10]
        wanted = 0 if line == 1 else newlines[line - 2] + 1 if line - 2 < len(newlines) else len(keeper.order)
        assert before == wanted
        assert finding.left == max(0, line - 1 - len(newlines))


@given(history=_HISTORY)
def test_each_byte_has_its_position_among_both_streams(history: list[tuple[int, bytes, bool]]) -> None:
    with written(history) as (keeper, log):
        seen = [0, 0]
        for place, (stream, _) in enumerate(keeper.order):
            assert position_of(log, stream, seen[stream]) == place
            seen[stream] += 1
