"""A Ctrl-C takes effect where a sweep can be left, and a second one anywhere."""

import os
import signal
import threading

import pytest

from motorcost.sweeps import interrupts


@pytest.fixture(autouse=True)
def handler_comes_back():
    before = signal.getsignal(signal.SIGINT)
    yield
    assert signal.getsignal(signal.SIGINT) is before


def ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):  # handlers run between two instructions
        pass


def test_noticed_although_it_was_caught():
    with interrupts.noticed() as check:
        check()
        with pytest.raises(KeyboardInterrupt):
            ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            check()


def test_postponed_until_it_is_asked_for():
    with interrupts.postponed() as check:
        check()
        ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            check()
        check()  # once


def test_a_second_is_not_postponed():
    with interrupts.postponed() as check:
        ctrl_c()
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            check()


@pytest.mark.parametrize("end", [lambda: None, lambda: 1 / 0])
def test_not_lost_at_the_end(end):
    def interrupted():
        ctrl_c()
        end()

    with pytest.raises(KeyboardInterrupt), interrupts.postponed():
        interrupted()


@pytest.mark.parametrize("way", [interrupts.noticed, interrupts.postponed])
def test_what_a_handler_makes_of_it_counts(way):
    """A user's own may do something else than raise an error."""
    seen = []
    usual = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    with way() as check:
        ctrl_c()
        check()
    signal.signal(signal.SIGINT, usual)
    assert seen == [signal.SIGINT]


def test_left_alone_where_interrupts_do_not_come():
    usual = signal.getsignal(signal.SIGINT)

    def elsewhere():
        for way in (interrupts.noticed, interrupts.postponed):
            with way() as check:
                assert signal.getsignal(signal.SIGINT) is usual
                check()
        done.append(True)

    done = []
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert done


def test_ignored_where_they_were_ignored():
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    for way in (interrupts.noticed, interrupts.postponed):
        with way() as check:
            ctrl_c()
            check()
    signal.signal(signal.SIGINT, usual)
