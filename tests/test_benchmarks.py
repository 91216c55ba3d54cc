"""The benchmarks: jobs that can be listed, and a page of the papers made of tiny runs."""

from dataclasses import asdict, replace
from datetime import UTC, datetime
from html import escape

import matplotlib.pyplot as plt
import pytest
from benchmarks import (
    break_even,
    check,
    combines,
    drawing,
    measure,
    object_latency,
    objects,
    papers,
    plots,
    slicing_plots,
    store_plots,
    stores,
)
from benchmarks.__main__ import DRAWN, MEASURED
from benchmarks.claims import PAPERS, cards
from benchmarks.claims import reading as r
from benchmarks.measure import Scale
from rich.console import Console

import muntin as mt
from tests.counting import counted

TINY = {
    drawing: {"DOTS_PER_INCH": 50},
    objects: {"QUICK_EXPONENTS": (2, 4), "QUICK_ROUNDS": 16, "SIZES": (4, 16), "DISTINCT": 8},
    object_latency: {"N": 1 << 8, "QUICK_RUNS": 1, "QUICK_PASSES": 1},
    break_even: {"QUICK_SECONDS": 1e-5, "LARGEST": 40, "TURNS": 1},
    combines: {"QUICK_EXPONENTS": (3, 4)},
    plots: {"EXPONENTS": range(2, 9), "ROWS": 1 << 12},
    slicing_plots: {
        "QUICK_ROWS": 1 << 12,
        "QUICK_CHECKED": 1 << 10,
        "PACE_SECONDS": 1e-3,
        "QUICK_WINDOWS": (1, 4),
        "SHARES": (0.0, 0.2, 0.4),
        "DELAYS_S": (0.25, 1, 2),
        "ENTRIES": {"Sum": (10, 20, 40), "Median": (10, 20, 40)},
        "STATE_ROWS": (200, 400, 800),
        "STATE_SLICES": (5, 10, 20),
        "SLICES": 20,
        "TUPLES": 400,
    },
    store_plots: {
        "QUICK_SIZES": range(0, 9, 4),
        "QUICK_SLIDES": 16,
        "QUICK_WINDOW": 6,
        "REPEATS": 1,
        "QUICK_MEMORY_SIZES": range(12, 14),
        "QUICK_HELD": 64,
        "QUICK_DIMENSIONS": (1, 2, 4),
    },
}
SCALE = Scale(rows=1000, rank_rows=1000, patience=0.01, quick=True)


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("name", MEASURED)
def test_jobs_can_be_listed(name, quick):
    jobs = MEASURED[name].jobs(Scale(rows=1000, rank_rows=1000, quick=quick))
    assert len(jobs) >= 2
    assert all(isinstance(label, str) and callable(job) for label, job in jobs)
    assert len({label for label, _ in jobs}) == len(jobs)


def test_memory_of_a_window_is_never_zero(monkeypatch):
    """The peak of the empty process may have room for a small window: a ratio to 0 cannot be drawn."""
    monkeypatch.setattr(stores, "FILL", "print(0.0, True)")
    assert stores.peak_mb("DabaLite", 16) > 0


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "RESULTS", tmp_path_factory.mktemp("results"))
        for module, constants in TINY.items():
            for name, value in constants.items():
                patch.setattr(module, name, value)
        for module in DRAWN.values():
            module.main(Console(quiet=True), SCALE)
        objects.microseconds.cache_clear()
        yield papers.build(SCALE)


def test_every_claim_is_on_the_page_with_a_verdict(page):
    html = page.read_text()
    claims = [c for paper in PAPERS for section in paper.sections for c in section.claims]
    assert all(f"<td>{escape(claim.says)}</td>" in html for claim in claims)
    verdicts = html.count('<td class="agrees">') + html.count('<td class="differs">')
    assert verdicts == len(claims)
    assert html.count("Why: ") == html.count('<td class="differs">')
    assert all(claim.why for claim in claims)


def test_every_figure_is_on_the_page_and_nothing_is_fetched(page):
    html = page.read_text()
    sections = [section for paper in PAPERS for section in paper.sections]
    for section in sections:
        assert f"<h3>{escape(section.where)}: {escape(section.title)}</h3>" in html
    assert html.count('src="data:image/png;base64,') == sum(bool(s.picture) for s in sections)
    assert "://" not in html
    assert measure.machine()["cpu"] in html


def test_pictures_show_something(page):
    drawn = {s.picture for paper in PAPERS for s in paper.sections if s.picture}
    assert drawn <= {path.stem for path in page.parent.glob("*.png")}
    for name in drawn:
        pixels = plt.imread(page.parent / f"{name}.png")[..., :3]
        inked = (pixels < 0.9).any(axis=-1)
        assert 0.005 < inked.mean() < 0.5, name
        # Coloured lines, and not axes alone.
        assert ((pixels.max(axis=-1) - pixels.min(axis=-1)) > 0.3).mean() > 0.0005, name


def test_a_page_without_results_says_what_to_run(tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "RESULTS", tmp_path)
    with pytest.raises(FileNotFoundError, match="run python -m benchmarks break_even --quick"):
        papers.build(SCALE)


def found(**lines):
    return r.Found(
        [{"who": who, "x": x, "y": y} for who, ys in lines.items() for x, y in ys.items()]
    )


A, B = {1: 10.0, 100: 40.0}, {1: 5.0, 100: 2.0}


@pytest.mark.parametrize(
    ("read", "agrees", "ours"),
    [
        (r.times("a", "b", 2), True, "a is 2 times b or more; the least is at 1"),
        (r.times("a", "b", 3), False, "a is 2 times b or more; the least is at 1"),
        (r.times("a", "b", 20, at=r.LAST), True, "a is 20 times b at 100"),
        (r.times("a", "b", 3, at=r.FIRST, place="first"), False, "a is 2 times b first"),
        (r.left("b", 0.5), False, "b at 100 is 0.4 of what it is at 1"),
        (r.left("b", most=0.5), True, "b at 100 is 0.4 of what it is at 1"),
        (r.level("a", 4), True, "a lies between 10 and 40, a factor of 4"),
        (r.level("a", 3), False, "a lies between 10 and 40, a factor of 4"),
        (r.power("a", 0.2, 0.4), True, "a grows as x to the power of 0.30"),
        (r.power("a", 0.8, 1.2), False, "a grows as x to the power of 0.30"),
        (r.at_most("a", 40, "s"), True, "a has 40 s at 100"),
        (r.at_most("a", 5, "s", at=1), False, "a has 10 s at 1"),
        (r.every(r.level("a", 4), r.level("b", 2)), False, None),
    ],
)
def test_readings_follow_the_points(read, agrees, ours):
    told = read(found(a=A, b=B))
    assert told.agrees is agrees
    assert ours is None or told.ours == ours


@pytest.mark.parametrize(("worst", "agrees"), [(6, True), (7, False)])
def test_a_count_above_its_bound_differs(worst, agrees):
    counts = {combines.MEAN: 3.9, combines.WORST: worst}
    points = [{"who": "DabaLite", "panel": p, "x": 64, "y": y} for p, y in counts.items()]
    assert cards.counted("DabaLite")(r.Found(points)).agrees is agrees


def finding(who, value, ratio="its/ours", unit="ms", case="max"):
    return asdict(measure.Finding(1, case, who, 5.0, unit, ratio=ratio, value=value))


@pytest.mark.parametrize(
    ("last", "now", "slower"),
    [
        (finding("pandas", 6.0), finding("pandas", 3.0), 2.0),
        (finding("pandas", 6.0), finding("pandas", 4.5), None),  # a tie
        (finding("pandas", 3.0), finding("pandas", 6.0), None),  # faster
        (finding("np.copyto", 1.5, "ours/its"), finding("np.copyto", 3.0, "ours/its"), 2.0),
        (
            finding("3600 s", 0.9, "of that", "rows/s"),
            finding("3600 s", 0.3, "of that", "rows/s"),
            3,
        ),
        (finding("3600 s", 1.0, "of that", "MB"), finding("3600 s", 4.0, "of that", "MB"), 4),
        (
            finding("Spark, no codegen, stopped after 9 s", 80.0, "or more its/ours"),
            finding("Spark, codegen", 20.0),
            4,
        ),
    ],
)
def test_what_got_slower_is_found_by_ratios(last, now, slower):
    found = check.compare([last], [now])
    assert len(found.changes) == 1
    assert [change.slower for change in found.lost] == (
        [] if slower is None else [pytest.approx(slower)]
    )


def points(more, **lines):
    return [
        {"figure": "10", "panel": "Sum", "who": who, "x": x, "y": y, "more_is_better": more}
        for who, ys in lines.items()
        for x, y in enumerate(ys)
    ]


@pytest.mark.parametrize("more", [True, False])
@pytest.mark.parametrize("machine", [1, 7])  # times as fast as before
def test_what_is_drawn_is_compared_by_shares_and_not_by_times(more, machine):
    last = points(more, DabaLite=[8, 8, 8, 8], Fiba=[2, 2, 2, 2])
    factor = 1 / 4 if more else 4
    now = points(more, DabaLite=[8 * machine] * 4, Fiba=[2 * machine * factor] * 3 + [2 * machine])
    (lost,) = check.compare(last, now).lost
    assert lost.name == ("10", "Sum", "Fiba")
    assert lost.slower == pytest.approx(2)  # its share of the mean of two


def test_a_run_that_is_compared_leaves_the_kept_results_and_says_what_is_new(tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "RESULTS", tmp_path)
    kept = measure.save("rolling", [finding("pandas", 9.0), finding("SciPy", 2.0)], SCALE)
    assert kept == tmp_path / "quick" / "rolling.json"
    before = measure.load(kept)
    assert before["date"] == datetime.now(UTC).date().isoformat()
    assert {"muntin", "python", "numpy", "bottleneck"} <= before["versions"].keys()
    checked = replace(SCALE, checked=True)
    measure.save("rolling", [finding("pandas", 3.0), finding("Polars", 2.0)], checked)
    assert measure.load(kept) == before
    console = Console(record=True, width=120, quiet=True)
    assert not check.report(console, ["rolling"], checked)
    assert check.report(console, ["stores"], checked)
    last, now = before, measure.load(measure.folder(checked) / "rolling.json")
    line = check.said("rolling", last, now, check.compare(last["results"], now["results"]))
    assert line.endswith("1 worse by more than 1.4 times; 0 better; 1 new; 1 gone")


@pytest.mark.parametrize("n", [2**8, 2**12])
def test_why_log_mta_is_not_the_faster_one_to_evict_is_counted(n):
    spent = {}
    for name in ("LogMta", "Amta"):
        for gone in (1, n // 2):
            aggregate, counter = counted(mt.Max())
            window = mt.ALGORITHMS[name](aggregate)
            window.bulk_insert(range(n))
            counter.during("evict", window.bulk_evict, gone)
            counter.during("query", window.query)
            assert counter.worst["query"] <= 1
            spent[name, gone] = counter.worst["evict"]
    log = n.bit_length() - 1
    assert spent["LogMta", 1] == spent["LogMta", n // 2]
    assert log / 2 <= spent["LogMta", 1] <= log
    assert spent["Amta", 1] == 0
    assert spent["LogMta", 1] < spent["Amta", n // 2] <= 2 * log
