"""The documents: built strictly, whole, and true to what they show."""

import ast
import os
import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from mkdocstrings import Inventory
from scripts.pictures.album import PICTURES
from scripts.pictures.scenes import SCENES, panels

import muntin as mt
from muntin import stores

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").rglob("*.md"))
NAMED_ELSEWHERE = {"Key"}  # a type of stores that only annotates
SPARK_MODULES = {  # functions that are called like the modules they are in
    "as_of": "as_of.as_of",
    "check": "check.check",
    "publish": "publish.publish",
    "rolling": "rolling.rolling",
    "rolling_plan": "rolling.rolling_plan",
    "session": "session.session",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the documents; a broken link, anchor or reference is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def html(site):
    """Return every page as it was built, by its path."""
    return {path.relative_to(site): path.read_text() for path in site.rglob("*.html")}


def test_every_public_name_is_in_the_reference(site):
    with (site / "objects.inv").open("rb") as file:
        there = {*Inventory.parse_sphinx(file)}
    names = {f"muntin.{name}" for name in mt.__all__}
    names |= {f"muntin.{name}" for name in (*mt.ALGORITHMS, *mt.AGGREGATES)}
    names |= {f"muntin.policies.{name}" for name in mt.policies.__all__}
    names |= {f"muntin.spark.{SPARK_MODULES.get(name, name)}" for name in mt.spark.__all__}
    names |= {f"muntin.stores.{name}" for name in {*stores.__all__} - NAMED_ELSEWHERE}
    names |= {f"muntin.testing.{name}" for name in ("LawError", "check_laws", "check_policy")}
    assert names - there == set()


def test_every_page_was_built_with_its_tables_and_without_marks_of_tests(site, html):
    assert {site / path for path in html} >= {
        site / page.relative_to(ROOT / "docs").with_suffix(".html") for page in PAGES
    }
    text = "\n".join(html.values())
    assert "&lt;BLANKLINE&gt;" not in text
    assert "&lt;frame&gt;_&lt;aggregate&gt;" in html[Path("reference/spark.html")]  # of a docstring
    assert "<!-- algorithms" not in text
    assert "<!-- card" not in text
    for name, algorithm in mt.ALGORITHMS.items():
        assert text.count(f"<td>{algorithm.card.space}</td>") > 0, name


def test_every_picture_is_on_a_page_and_described(site, html):
    shown = re.findall(
        r'<img alt="([^"]+)" src="[^"]*pictures/(\w+)\.svg"', "\n".join(html.values())
    )
    assert {name for _, name in shown} == {*PICTURES}
    assert {*mt.ALGORITHMS} <= {*PICTURES}
    for alternative, name in shown:
        assert len(alternative) > 10
        assert (site / "pictures" / f"{name}.svg").stat().st_size > 10_000


def test_pages_load_nothing_from_elsewhere(html):
    for path, text in html.items():
        loaded = re.findall(r'<(?:script|img|link)[^>]*(?:src|href)="(https?:[^"]+)"', text)
        assert loaded == [], path


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_not_blank_and_their_texts_have_room(name):
    figure = PICTURES[name]()
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[:, :, :3].reshape(-1, 3)
    inked = (pixels < 245).any(axis=1).mean()
    assert 0.02 < inked < 0.6
    assert len(np.unique(pixels // 32, axis=0)) > 10
    texts = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    boxes = [text.get_window_extent() for text in texts]
    for text, place in zip(texts, boxes, strict=True):
        assert figure.bbox.contains(place.x0, place.y0), text.get_text()
        assert figure.bbox.contains(place.x1, place.y1), text.get_text()
    pairs = combinations(zip(texts, boxes, strict=True), 2)
    together = [(a.get_text(), b.get_text()) for (a, x), (b, y) in pairs if x.overlaps(y)]
    assert together == []


@pytest.mark.parametrize("name", SCENES)
def test_what_a_query_reads_in_a_picture_is_the_window(name):
    for panel in panels(name):
        drawn = {bar.text for bar in panel.state.bars}
        assert {*panel.read} <= drawn
        if SCENES[name].digits:
            assert panel.read == [max(panel.content)]
        else:
            assert "".join(panel.read) == panel.content


def fences(page):
    """Return the blocks of Python of a page that are not doctests."""
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [block for block in blocks if ">>>" not in block]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if fences(page)], ids=lambda page: page.name
)
def test_code_that_is_no_doctest_compiles_and_names_what_is_there(page):
    for block in fences(page):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "mt":
                assert hasattr(mt, node.attr), f"{page.name}: mt.{node.attr}"


def test_benchmarks_that_pages_name_are_there():
    from benchmarks.__main__ import NAMES

    text = "\n".join(page.read_text() for page in PAGES)
    named = {*re.findall(r"muntin bench (\w+)", text)}
    assert named
    assert named <= {*NAMES}


def lines_of(table):
    """Return the pairs of a table of the page on pandas and Polars."""
    text = (ROOT / "docs" / "moving" / "pandas.md").read_text()
    inside = text.split(f"<!-- {table} -->")[1].split(f"<!-- /{table} -->")[0]
    return re.findall(r"^\| `(.+)` \| `(.+)` \|$", inside, re.MULTILINE)


def readings():
    rng = np.random.default_rng(7)
    at = pd.Timestamp("2026-03-01") + pd.to_timedelta(np.cumsum(rng.integers(1, 200, 60)), "s")
    return pd.DataFrame(
        {"at": at, "plug": rng.choice(["tv", "lamp"], 60), "watts": rng.normal(size=60)}
    )


@pytest.mark.parametrize(("there", "here"), lines_of("pandas"))
def test_pandas_there_and_here_are_the_same(there, here):
    df = readings()
    names = {"mt": mt, "s": df.watts, "t": df.set_index("at").watts, "df": df}
    theirs, ours = eval(there, names), eval(here, names)
    pd.testing.assert_series_equal(theirs, ours, check_names=False, check_freq=False)


@pytest.mark.parametrize(("there", "here"), lines_of("polars"))
def test_polars_there_and_here_are_the_same(there, here):
    df = pl.from_pandas(readings())
    names = {"mt": mt, "pl": pl, "s": df["watts"], "df": df}
    theirs, ours = eval(there, names), eval(here, names)
    assert theirs.is_null().to_list() == ours.is_null().to_list()
    np.testing.assert_allclose(theirs.to_numpy(), ours.to_numpy())
