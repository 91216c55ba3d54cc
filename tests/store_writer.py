"""A process that writes a window until it is killed, and what its window must then be.

Run as a program it imports all it needs once, then forks a writer for every line of its input: killing a
process fifty times takes seconds and not minutes.
"""

import os
import sys
import traceback

import muntin as mt
from muntin.stores import RedisStore, RocksStore, stored

PRIME = 10007
LEASE_S = 0.25
WIDEST = 300
WINDOW = "killed"


def value(i):
    """Return what the i-th insertion inserts."""
    return (i * 7919 + 13) % 1000


def room(i):
    """Return how many values the window keeps after the i-th insertion; now and then hardly any."""
    noise = (i * 2654435761) % 2**32
    return noise % WIDEST if noise % 37 == 0 else WIDEST


def affine():
    """Return an aggregate that is not commutative, with small partials."""
    return mt.Aggregate(
        "affine",
        identity=(1, 0),
        lift=lambda v: (v + 2, v),
        combine=lambda a, b: (a[0] * b[0] % PRIME, (a[1] * b[0] + b[1]) % PRIME),
    )


def open_store(kind, place):
    return RocksStore(place) if kind == "rocks" else RedisStore(place, lease=LEASE_S)


def write(kind, place, buffer):
    """Insert and evict for ever, and tell after each flush how far it came."""
    with open_store(kind, place) as store:
        window = stored(affine(), store, WINDOW, buffer=buffer)
        if window.inserted:
            shrink(window)  # what the last writer did not get to
        while True:
            i = window.inserted
            window.insert(value(i))
            shrink(window)
            if i % 23 == 0:
                window.flush()
                os.write(1, b"%d %d\n" % (window.evicted, window.inserted))


def shrink(window):
    surplus = len(window) - room(window.inserted - 1)
    if surplus > 5:
        window.bulk_evict(surplus)
    for _ in range(min(surplus, 5)):
        if len(window) > room(window.inserted - 1):
            window.evict()


def heads(inserted):
    """Return how many values may have been evicted after so many insertions: at least, and at most."""
    before = after = 0
    for i in range(inserted):
        before, after = after, max(after, i + 1 - room(i))
    return before, after


def main(kind, place):
    import redis  # noqa: F401
    import rocksdict  # noqa: F401

    for line in sys.stdin:
        writer = os.fork()
        if not writer:
            try:
                write(kind, place, int(line))
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        os.write(1, b"pid %d\n" % writer)
        _, status = os.waitpid(writer, 0)
        os.write(1, b"ended %d\n" % (status & 127))


if __name__ == "__main__":
    main(*sys.argv[1:])
