"""Threads, and where memory goes."""

import gc
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy
import pytest
from conftest import ON_EMULATOR, numbers

import ferrowarp


GROWTH = """
import numpy, ferrowarp

def resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096

def calls(count):
    for seed in range(count):
        ferrowarp.transpose(x)
        ferrowarp.uniform(x.shape, seed=seed).__dlpack__()

x = numpy.ones((512, 512), dtype="float32")
calls(50)
before, free = resident_bytes(), ferrowarp.device().free_memory
calls(150)
# 300 results of 1 MiB.
grown = resident_bytes() - before
assert grown < 64 << 20, grown
assert ferrowarp.device().free_memory == free
"""


def test_many_calls_do_not_grow():
    """In a process of its own: other libraries' threads keep memory of theirs."""
    subprocess.run([sys.executable, "-c", GROWTH], check=True, env={**os.environ, "FERROWARP_DEVICE": "emulator"})


def test_errors_leave_no_memory_behind():
    def calls():
        for _ in range(10):
            with pytest.raises(ValueError):
                ferrowarp.top_k(numbers("float32", 1000), 1001)
            with pytest.raises(TypeError):
                ferrowarp.layer_norm(numbers("float32", 1000), numbers("float16", 1000))

    calls()
    free = ferrowarp.device().free_memory
    calls()
    if ferrowarp.device().emulated:
        assert ferrowarp.device().free_memory == free


@ON_EMULATOR
def test_memory_lives_as_long_as_the_last_consumer():
    array = ferrowarp.integers(1 << 16, 0, 1 << 30, seed=1)
    views = [numpy.from_dlpack(array) for _ in range(3)]
    expected = views[0].copy()
    del array
    while views:
        gc.collect()
        assert (views.pop() == expected).all()


def test_memory_is_freed_by_any_thread():
    results = [ferrowarp.uniform(1000, seed=seed, like=numpy.zeros(0)) for seed in range(8)]
    threads = [threading.Thread(target=results.pop) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == []


def test_threads_get_their_own_results():
    def work(seed):
        x = numbers("int32", 500 + seed, seed)
        for _ in range(3):
            assert (ferrowarp.sort(x) == numpy.sort(x)).all()
            assert (ferrowarp.scan(x) == numpy.cumsum(x, dtype="int32")).all()
            with pytest.raises(TypeError):
                ferrowarp.sort(x > 0)
        return seed

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(16))) == list(range(16))


def test_other_threads_run_while_a_call_waits():
    x = numbers("uint32", 1 << 20)
    counted = 0
    is_done = threading.Event()

    def count():
        nonlocal counted
        while not is_done.is_set():
            counted += 1
            is_done.wait(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    before = counted
    ferrowarp.sort(x)
    during = counted - before
    is_done.set()
    counter.join()
    assert during > 3
