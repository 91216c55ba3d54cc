"""What the papers claim, in our words, and how it is read from our results."""

from benchmarks.claims import boundary, cards, daba, mta, reactive, slicing

PAPERS = (
    reactive.PAPER,
    daba.PAPER,
    slicing.PAPER,
    mta.PAPER,
    boundary.PAPER,
    cards.PAPER,
)
