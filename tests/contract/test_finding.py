"""Finding and looking: groups and queue, tags, lists and filters, what a tree takes, removal."""

import os

import pytest

from outlive.client import ProcessNotFound
from tests.contract.places import Asker
from tests.extensions.fleet.pairs import PATIENCE_S, output_of, wait_until


def _name() -> str:
    return "g" + os.urandom(5).hex()


def test_a_group_runs_as_many_at_once_as_it_may(asker: Asker) -> None:
    """The next one is queued, and starts by itself; one that is cancelled in the queue never runs."""
    group = _name()
    first = asker.start("read x", stdin="pipe", group=group, group_limit=1)
    second = asker.start("echo second; exit 5", group=group)
    third = asker.start("echo third", group=group)
    assert (second.info().state, second.info().waits_for) == ("queued", "group")
    third.cancel()
    first.close_stdin()
    assert second.wait(PATIENCE_S).exit_code == 5
    assert output_of(second) == (b"second\n", b"")
    assert output_of(third) == (b"", b"")
    assert third.info().cause == "cancel"


def test_lists_are_filtered(asker: Asker) -> None:
    """By tag, by group, by whether it runs."""
    key, group = _name(), _name()
    running = asker.start("read x", stdin="pipe", tags={key: "a"}, group=group)
    ended = asker.start("exit 3", tags={key: "b"})
    ended.wait(PATIENCE_S)

    def names(**filters: object) -> set[str]:
        return {info.process_id for info in asker.client.list(**filters)}  # type: ignore[arg-type] # each its own

    assert names(tags={key: "a"}) == {running.process_id}
    assert names(tags={key: "b"}) == {ended.process_id}
    assert names(group=group) == {running.process_id}
    active = names(active=True)
    assert running.process_id in active
    assert ended.process_id not in active
    running.relabel({key: "c", "more": "x"})
    assert names(tags={key: "c", "more": "x"}) == {running.process_id}
    running.close_stdin()
    running.wait(PATIENCE_S)


def test_what_is_known_of_a_process_is_whole(asker: Asker) -> None:
    """Times in order, folder, tags, and where it runs."""
    process = asker.start("exit 3", title="a title", tags={"k": "v"}, timeout_s=50, grace_s=3)
    info = process.wait(PATIENCE_S, until="closed")
    assert info.started_at is not None
    assert info.ended_at is not None
    assert info.created_at <= info.started_at <= info.ended_at
    assert (info.tags, info.timeout_s, info.grace_s, info.exit_code) == ({"k": "v"}, 50, 3, 3)
    assert info.cwd == str(asker.place.folder)
    assert (info.is_complete, info.is_closed, info.has_gaps, info.is_unknown) == (True, True, False, False)
    place = asker.place
    if place.name == "local":
        assert info.location is None
    elif place.name == "docker":
        assert info.location is not None
        assert info.location["backend"] == "docker"
        assert info.location["container"].startswith("session-")
    else:
        assert info.location is not None
        assert info.location.keys() == {"backend"}
        node = place.node_of(process)
        assert node is not None
        with node.client() as far:
            there = far.get(process.process_id).info().location
        assert (there or {}).get("backend", "local") == ("docker" if place.is_docker else "local")


def test_commands_run_on_every_machine_of_the_place(asker: Asker) -> None:
    """What was started one after the other is on all nodes, where there are any."""
    nodes = asker.place.nodes
    processes = [asker.start("true") for _ in range(len(nodes) + 1)]  # a whole turn
    for process in processes:
        assert process.wait(PATIENCE_S).exit_code == 0
    names = {name for process in processes for name in nodes if asker.place.node_of(process) is nodes[name]}
    assert names == set(nodes)
    assert nodes or asker.place.node_of(processes[0]) is None


def test_its_tree_is_looked_at(asker: Asker) -> None:
    """`stats`: pids as the kernel of this machine has them, processor time and memory."""
    process = asker.start("sleep 300 & while :; do :; done")
    pid = process.info().pid
    assert pid is not None
    wait_until(lambda: (stats := process.info(stats=True).stats) is not None and len(stats.pids) == 2)
    wait_until(lambda: (stats := process.info(stats=True).stats) is not None and stats.cpu_s > 0.05)
    stats = process.info(stats=True).stats
    assert stats is not None
    assert stats.pids[0] == pid
    assert stats.threads == 2
    assert stats.memory_bytes > 0
    assert os.path.exists(f"/proc/{pid}")
    process.cancel(0)
    process.wait(PATIENCE_S, until="closed")


def test_who_waits_for_input_is_known(asker: Asker) -> None:
    """From the kernel, not from what it printed."""
    process = asker.start("read x; exit 2", stdin="pipe")
    wait_until(lambda: (stats := process.info(stats=True).stats) is not None and stats.waiting == "input")
    process.write(b"x\n")
    assert process.wait(PATIENCE_S).exit_code == 2


def test_a_removed_process_is_forgotten(asker: Asker) -> None:
    """Also one that runs, when it is forced."""
    process = asker.start("echo x")
    process.wait(PATIENCE_S, until="closed")
    asker.client.remove(process.process_id)
    with pytest.raises(ProcessNotFound):
        process.info()
    running = asker.start("sleep 300")
    asker.client.remove(running.process_id, force=True)
    wait_until(lambda: running.process_id not in {info.process_id for info in asker.client.list()})


def test_events_tell_what_happens(asker: Asker) -> None:
    """Start, pause, resume, end: each once, in order."""
    key = _name()
    seen = []
    with asker.client.events() as events:
        process = asker.start("read x; exit 3", stdin="pipe", tags={"key": key})
        process.pause()
        process.resume()
        process.close_stdin()
        for event in events:
            if event.process_id == process.process_id:
                seen.append(event.event)
            if seen[-1:] == ["closed"]:
                break
    assert seen == ["started", "paused", "resumed", "ended", "closed"]
