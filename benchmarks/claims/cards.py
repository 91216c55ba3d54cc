"""The algorithms' cards: combines that are claimed, and counted."""

import muntin as mt
from benchmarks.claims.reading import Claim, Found, Paper, Read, Reading, Section, short
from benchmarks.combines import CLAIMED, MEAN, WORST


def counted(name: str) -> Read:
    """Read whether no count is above what is claimed, at any size."""

    def read(found: Found) -> Reading:
        mean, worst = found.line(name, MEAN), found.line(name, WORST)
        claimed = CLAIMED[name]
        holds = all(mean[n] <= claimed.mean(n) and worst[n] <= claimed.worst(n) for n in mean)
        n = max(mean)
        said = f"mean {mean[n]:,.4f}, worst {worst[n]:,} in a window of {short(n)}"
        return Reading(said, holds)

    return read


def claims() -> tuple[Claim, ...]:
    """Return a claim per algorithm, from its card."""
    made = []
    for name, algorithm in mt.ALGORITHMS.items():
        card = algorithm.card
        says = f"{name} ({card.paper}): {card.time}. In a round: {CLAIMED[name].words}."
        made.append(Claim(says, counted(name), "A count above its bound is a defect of muntin."))
    return tuple(made)


PAPER = Paper(
    "combines",
    "Combines, counted against claimed",
    "the theorems of all five papers, and the cards of muntin's algorithms",
    (
        Section(
            "Theorems and cards",
            "Combines of evict + insert + query",
            "combines",
            "Theorems and cards",
            claims(),
            picture="combines",
            setting="n is the window's length. Counts are the same on every machine.",
        ),
    ),
    "stored partials, which tests count.",
)
