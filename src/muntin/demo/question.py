"""What the demo asks of the departures: one query, three windows of three types at once."""

import muntin as mt


def delays() -> mt.Query:
    """Return what is asked of each airport: delays in minutes, and who has most flights."""
    return mt.Query(
        time="scheduled",
        keys=("airport",),
        windows={
            "last hour": mt.Sliding("1 hour", "1 minute"),
            "rush": mt.Session("15 minutes"),
            "last 100": mt.LastN(100, every="15 minutes"),
        },
        aggregates={
            "flights": mt.Count(),
            "median": mt.Median("delay"),
            "worst": mt.Max("delay"),
            "carriers": mt.TopK("carrier", 3),
        },
        watermark="10 minutes",
        lateness="6 hours",
    )
