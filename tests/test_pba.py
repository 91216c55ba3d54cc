"""PBA's second thread: the same results under any scheduling."""

import os
import random
import sys
import threading
import time

import pytest

import muntin as mt
from tests.oracle import Oracle


@pytest.fixture
def eager_switching():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("eager_switching")
@pytest.mark.parametrize("seed", range(6))
def test_scheduling_does_not_change_results(seed):
    rng = random.Random(seed)
    threads = set()

    def combine(a, b):
        threads.add(threading.current_thread().name)
        if rng.random() < 0.3:
            time.sleep(0)  # give the other thread its turn
        return a + b

    collect = mt.Aggregate("collect", (), lift=lambda v: (v,), combine=combine)
    for slide in (1, 2, 5):
        length = rng.randint(10, 60) * slide + rng.randint(0, slide - 1)
        windows = [mt.Pba(collect, range=length, slide=slide) for _ in range(3)]
        oracle = Oracle(collect)
        for position in range(5 * length):
            for window in (*windows, oracle):
                window.insert(position)
            if len(oracle) > length and len(oracle) % slide == length % slide:
                for window in windows:
                    window.bulk_evict(slide)
                oracle.evict(slide)
                assert {window.query() for window in windows} == {oracle.query()}
        for window in windows:
            window.check(oracle.values)
    assert any(name.startswith("muntin-pba") for name in threads)


def test_an_error_in_the_second_thread_reaches_the_caller_and_loses_nothing():
    fail = threading.Event()

    def combine(a, b):
        if fail.is_set() and threading.current_thread().name.startswith("muntin-pba"):
            raise ArithmeticError("no more")
        return a + b

    window = mt.Pba(mt.Aggregate("collect", (), lift=lambda v: (v,), combine=combine), range=10)
    fail.set()
    window.bulk_insert(range(10))
    with pytest.raises(ArithmeticError, match="no more"):
        window.evict()
    assert window.query() == tuple(range(10))
    window.evict()  # computed here this time
    assert window.query() == tuple(range(1, 10))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes can fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_gets_a_thread_of_its_own():
    parent = mt.Pba(mt.Max(), range=100)
    parent.bulk_insert(range(100))
    parent.evict()
    child = os.fork()
    if not child:
        window = mt.Pba(mt.Max(), range=100)
        window.bulk_insert(range(100))
        window.evict()
        parent.bulk_evict(60)  # into a chunk that the parent's thread was to work on
        os._exit(0 if window.query() == parent.query() == 99 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
