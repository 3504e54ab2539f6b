"""What servers are told of a process, and when: at once or a moment later, but its newest state in the
end.
"""

import time

from outlive.core.spec import Spec
from outlive.keeper.supervisor.clients import Doorbells
from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.managed_process import ManagedProcess, Stream
from tests.keeper.client import new_id
from tests.support.doorbells import Doorbell, decode_doorbells


class _Writer:
    """A process whose only stream has brought more, in a loop that turns when it is told to."""

    def __init__(self) -> None:
        self.loop = Loop(print)
        self.bells = Doorbells(self.loop)
        self.kept = ManagedProcess(
            new_id(), "/nowhere", Spec(program="true", argv=("true",), env={}, cwd="/")
        )
        self.kept.streams = [Stream(self.kept, 0, source=-1, log=-1)]

    def bring(self) -> None:
        self.kept.streams[0].offset += 1_000_000

    def told(self) -> list[Doorbell]:
        packet = b"D" + b"".join(self.bells.take().values())
        return list(decode_doorbells(packet))


def test_a_stream_in_full_flow_is_told_once_in_a_while_and_its_newest_state_in_the_end() -> None:
    """Two moves within 4 ms are one doorbell, which needs no third move to come."""
    writer = _Writer()
    begun = time.monotonic()
    for _ in range(2):
        writer.bring()
        writer.bells.touch_bulk(writer.kept)
        assert writer.told() == []
    writer.loop.turn()
    assert time.monotonic() - begun >= 0.003
    assert [bell.out for bell in writer.told()] == [2_000_000]
    assert writer.told() == []


def test_what_is_told_at_once_is_not_told_again_when_the_delay_is_over() -> None:
    """The end of a flow does not wait, and leaves nothing behind that does."""
    writer = _Writer()
    writer.bring()
    writer.bells.touch_bulk(writer.kept)
    writer.bells.touch_later(writer.kept)
    writer.bring()
    writer.bells.touch(writer.kept)
    assert [bell.out for bell in writer.told()] == [2_000_000]
    for _ in range(2):
        writer.loop.turn()
        assert writer.told() == []


def test_each_flow_has_its_delay_though_another_one_was_told_before() -> None:
    """The timer of the first is the timer of both."""
    writer, other = _Writer(), _Writer()
    for one in (writer, other):
        one.bring()
        writer.bells.touch_bulk(one.kept)
    writer.bells.touch(writer.kept)
    assert [bell.key for bell in writer.told()] == [writer.kept.key]
    writer.loop.turn()
    assert [bell.key for bell in writer.told()] == [other.kept.key]
