"""The live page as a person sees it, in a browser."""

import re
from contextlib import contextmanager

import pyarrow as pa
import pytest
from scripts.browser import find

import muntin as mt
from muntin.watch import Board, serve

SCRIPT = "<script>document.title = 'broken'</script>"
HOUR = 3_600_000_000
QUERY = mt.Query(
    time="at",
    keys="plug",
    windows={"hour": mt.Tumbling("1 hour"), "pairs": mt.Tumbling(2, measure="count")},
    aggregates={"rows": mt.Count(), "peak": mt.Max("watts")},
)


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    path = find()
    if path is None:
        pytest.skip("no browser here: install chromium (apt-get install chromium), or Chrome")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path)
        yield started
        started.close()


@pytest.fixture
def logged():
    return []


@pytest.fixture
def page(browser, logged):
    """Return an empty page; whatever it logs is an error."""
    page = browser.new_page(viewport={"width": 1360, "height": 900})
    page.on("console", lambda message: logged.append(message.text))
    page.on("pageerror", lambda error: logged.append(str(error)))
    yield page
    page.close()
    assert logged == []


def hours(first, peaks, plugs=("tv", SCRIPT), kind="result"):
    """Return results for some hours, the second plug's a hundred watts higher."""
    rows = [
        (plug, (first + hour) * HOUR, watts + 100 * (plug == plugs[-1]))
        for hour, watts in enumerate(peaks)
        for plug in plugs
    ]
    return pa.table(
        {
            "plug": [plug for plug, _, _ in rows],
            "window": ["hour"] * len(rows),
            "start": pa.array([end - HOUR for _, end, _ in rows], pa.timestamp("us", "UTC")),
            "end": pa.array([end for _, end, _ in rows], pa.timestamp("us", "UTC")),
            "start_measure": pa.nulls(len(rows), pa.int64()),
            "end_measure": pa.nulls(len(rows), pa.int64()),
            "kind": [kind] * len(rows),
            "rows": [7] * len(rows),
            "peak": [float(watts) for _, _, watts in rows],
        }
    )


def progress(batch, rows, late):
    metrics = {"rows": rows, "late": late, "dropped": 2, "keys": 2, "state_bytes": 12_000 * batch}
    return {
        "batchId": batch,
        "timestamp": f"2026-03-12T08:00:0{batch}Z",
        "numInputRows": rows,
        "processedRowsPerSecond": 2.0 * rows,
        "batchDuration": 500,
        "durationMs": {"addBatch": 400 + batch, "walCommit": 60, "triggerExecution": 500},
        "eventTime": {"watermark": "2026-03-12T07:59:30.000Z", "max": "2026-03-12T08:00:00.000Z"},
        "observedMetrics": {"muntin": metrics},
    }


@pytest.fixture
def board():
    board = Board(QUERY, title="Plugs & lamps")
    board.take(hours(500_000, [50, 80, 60, 90]))
    board.progress(progress(1, 400, 3))
    return board


def paths(page):
    """Return the lines of the first chart as lists of points (x, y)."""
    page.wait_for_selector(".chart path.line", state="attached")  # a level line has no height
    drawn = page.eval_on_selector(
        ".chart", "chart => [...chart.querySelectorAll('path.line')].map(p => p.getAttribute('d'))"
    )
    points = [re.findall(r"[ML]([\d.]+),([\d.]+)", d) for d in drawn]
    return [[(float(x), float(y)) for x, y in line] for line in points]


def until(page, selector, text):
    page.wait_for_function(
        "([selector, text]) => document.querySelector(selector)?.textContent.includes(text)",
        arg=[selector, text],
    )


@contextmanager
def looking_at(board, page):
    """Open a board's page, and close it before the server ends: it may still be loading."""
    with serve(board) as server:
        page.goto(server.url)
        yield
        page.close()


def test_charts_move_and_figures_change_as_windows_come(page, board, logged):
    with serve(board) as server:
        page.goto(server.url)
        until(page, "#figures", "800rows/s")
        before = paths(page)
        assert [len(line) for line in before] == [4, 4]
        assert page.text_content("#status").startswith("live")
        figures = page.text_content("#figures")
        assert "3rows" in figures
        assert "12kB" in figures
        assert "Watermark07:59:30UTC12 Mar 2026, 31 s behind the clock" in figures
        assert "Open windows2per key at mosthour 2" in figures
        assert "Last micro-batch500msaddBatch 401 mswalCommit 60 msother 39 ms" in figures
        board.take(hours(500_004, [70, 85]))
        board.progress(progress(2, 900, 4))
        until(page, "#figures", "1,800rows/s")
        after = paths(page)
        figures = page.text_content("#figures")
        assert "7rows" in figures
        assert "4 dropped" in figures
        assert "24kB" in figures
        assert logged == []
    assert [len(line) for line in after] == [6, 6]
    for old, new in zip(before, after, strict=True):
        assert new[-1][0] == old[-1][0]  # the newest window is at the right edge,
        assert new[3][0] < old[3][0]  # and what was there has moved to the left
    other, tv = after  # in the order of their names
    assert all(above[1] < below[1] for below, above in zip(tv, other, strict=True))
    until(page, "#status", "not live")
    logged.clear()  # the end of the server may cut off a request


def test_a_correction_bends_the_line(page, board):
    with looking_at(board, page):
        before = paths(page)
        board.take(hours(500_001, [20], kind="update"))
        until(page, "#figures", "2 corrected")
        after = paths(page)
    for old, new in zip(before, after, strict=True):
        assert [x for x, _ in new] == [x for x, _ in old]
        assert new[1][1] > old[1][1]


def test_names_from_data_are_text_and_nothing_else(page, board):
    with looking_at(board, page):
        page.wait_for_selector(".chart path.line")
        assert SCRIPT in page.text_content(".chart ul")
        assert page.title() == "Plugs & lamps"
        assert page.text_content("#title") == "Plugs & lamps"
        assert page.locator("script").count() == 1


def test_the_plan_is_shown_and_the_axes_say_what_they_are(page, board):
    with looking_at(board, page):
        page.wait_for_selector(".chart path.line")
        assert page.text_content("#plan pre") == QUERY.explain()
        texts = page.locator(".chart").first.locator("text").all_text_contents()
    assert "max(watts)" in texts
    assert "end of window, 15 Jan 2027, UTC" in texts
    assert {"08:00", "09:00", "10:00", "11:00"} <= set(texts)
    assert {"0", "50", "100", "150", "200"} <= set(texts)


def test_a_person_chooses_keys_an_aggregate_and_how_much_is_shown(page, board):
    board.take(hours(500_004, range(200)))
    with looking_at(board, page):
        assert len(paths(page)) == 2
        page.select_option(".chart select", "rows")
        until(page, ".chart ul", "tv7")
        page.click("#keys summary")
        page.uncheck("#keys label:nth-child(2) input")
        until(page, "#keys summary", "keys by plug: 1 of 2 shown")
        assert [len(line) for line in paths(page)] == [204]
        page.click("#last label:first-of-type")
        page.wait_for_function(
            "() => document.querySelector('.chart path.line').getAttribute('d').split('L').length"
            " === 100"
        )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_overlaps_in_light_and_dark(page, board, scheme):
    page.emulate_media(color_scheme=scheme)
    with looking_at(board, page):
        page.wait_for_selector(".chart path.line")
        overlapping = page.evaluate(
            """() => [...document.querySelectorAll(".chart svg")].flatMap((chart) => {
              const texts = [...chart.querySelectorAll("text")].filter((t) => t.textContent);
              const boxes = texts.map((t) => [t.textContent, t.getBoundingClientRect()]);
              return boxes.flatMap(([a, p], i) => boxes.slice(i + 1).filter(([, q]) =>
                p.left < q.right && q.left < p.right && p.top < q.bottom && q.top < p.bottom,
              ).map(([b]) => `${a} | ${b}`));
            })"""
        )
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert overlapping == []
    levels = [int(level) for level in re.findall(r"\d+", ground)]
    assert (min(levels) > 200) == (scheme == "light")
