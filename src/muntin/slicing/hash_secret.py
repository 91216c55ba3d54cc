"""The secret of this process by which hash tables choose places.

Without it, keys or times could be chosen that all meet in one place, and every lookup would walk past
all that came before. Results do not depend on it: numbers follow the order in which keys first appear.
"""

import os

import numpy as np

from muntin.kernels.spans import Array

WORDS = 4


def drawn() -> Array:
    """Return random odd words: a product with one of them loses nothing of a word."""
    return np.frombuffer(os.urandom(8 * WORDS), np.uint64) | np.uint64(1)


SECRET = drawn()
