"""A loop that hangs is noticed by a thread; one that was paused with its process does not count."""

from ackwire.cluster.loop_watch import LoopWatch


def test_a_loop_that_moves_does_not_hang() -> None:
    watch = LoopWatch(10)
    for second in range(100):
        if second % 8 == 0:
            watch.turn()
        assert not watch.look(second)
    assert not watch.hangs


def test_a_loop_that_does_not_move_hangs_until_it_does() -> None:
    watch = LoopWatch(10)
    watch.turn()
    changes = [second for second in range(40) if watch.look(second)]
    assert changes == [10]
    assert watch.hangs
    watch.turn()
    assert watch.look(40)
    assert not watch.hangs


def test_a_pause_of_the_whole_process_is_one_look() -> None:
    watch = LoopWatch(10)
    watch.turn()
    assert not watch.look(0)
    assert not watch.look(1000)
    watch.turn()
    assert not watch.look(1001)
    assert not watch.hangs
