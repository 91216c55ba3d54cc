"""Generated kernels: cached across processes, and of the same source as the interpreted form."""

import functools
import importlib
import importlib.util
import linecache
import marshal
import os
import random
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.ticks import ticks

import muntin as mt
from muntin.kernels.codegen.build import NotCompilableError, compiled
from muntin.kernels.codegen.cache import folder, load_module
from muntin.kernels.codegen.layout import Layout
from muntin.kernels.codegen.source import NoSourceError, Writer
from tests.counting import counted

ROLL = """
import numpy as np, muntin as mt
from muntin.kernels.codegen.build import compiled
from muntin.kernels.codegen.layout import Layout
x = np.arange(50.0)
print(mt.rolling(x, 7, mt.Max(), min_periods=1, algorithm={algorithm!r}).sum())
kernels = compiled(mt.Max(), Layout((x.dtype,), False, {form!r}, {steps!r}))
entry = kernels.module.{entry}
print(kernels.cached, sum(entry.stats.cache_hits.values()) if hasattr(entry, "stats") else None)
"""
CASES = {
    "auto": {"algorithm": "auto", "form": "plain", "steps": "", "entry": "flat_roll_rows"},
    "DabaLite": {"algorithm": "DabaLite", "form": "", "steps": "DabaLite", "entry": "ring_rows"},
}


def run(case, cache, **environment):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", ROLL.format(**CASES[case])],
        env={**os.environ, "MUNTIN_CACHE_DIR": str(cache), **environment},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")


@pytest.mark.parametrize("case", CASES)
def test_the_second_process_finds_the_machine_code(case, tmp_path):
    assert run(case, tmp_path)[:2] == ["1225.0", "True 0"]
    assert run(case, tmp_path)[:2] == ["1225.0", "True 1"]


def test_many_processes_may_start_at_once(tmp_path):
    command = [sys.executable, "-W", "error", "-c", ROLL.format(**CASES["auto"])]
    environment = {**os.environ, "MUNTIN_CACHE_DIR": str(tmp_path)}
    processes = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for process in processes:
        output, _ = process.communicate()
        assert process.returncode == 0
        assert output.startswith("1225.0")
    assert not list(tmp_path.glob("*.tmp"))


def test_a_folder_that_cannot_be_written_is_no_obstacle(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert run("auto", blocked / "cache")[:2] == ["1225.0", "False 0"]
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(stat.S_IRUSR | stat.S_IXUSR)
    assert run("auto", closed)[0] == "1225.0"


@pytest.mark.parametrize("case", CASES)
def test_the_same_source_runs_interpreted(case, tmp_path):
    assert run(case, tmp_path, NUMBA_DISABLE_JIT="1")[0] == "1225.0"


def test_order_statistics_and_clocks_run_interpreted(tmp_path):
    script = """
import numpy as np, muntin as mt
from benchmarks.ticks import ticks
x = np.random.default_rng(0).integers(-20, 20, 200).astype(float)
found = mt.rolling(x, 7, mt.Median(), min_periods=1)
assert found.tolist() == [np.median(x[max(0, i - 6) : i + 1]) for i in range(200)]
assert (ticks("DabaLite", mt.Max(), x, 7) > 0).all()
print("the same")
"""
    environment = {"MUNTIN_CACHE_DIR": str(tmp_path), "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("the same\n", "")


def test_the_folder_follows_the_platform_or_the_variable(monkeypatch, tmp_path):
    monkeypatch.setenv("MUNTIN_CACHE_DIR", str(tmp_path))
    assert folder() == tmp_path
    monkeypatch.delenv("MUNTIN_CACHE_DIR")
    assert "muntin" in str(folder())


def evil(marker):
    """Return a pickle that makes a file when it is loaded."""
    return f"cposix\nsystem\n(S'touch {marker}'\ntR.".encode()


def test_what_lies_in_the_folder_is_not_run(tmp_path):
    cache, marker = tmp_path / "cache", tmp_path / "ran"
    assert run("auto", cache)[:2] == ["1225.0", "True 0"]
    texts = {path: path.read_text() for path in cache.glob("*.py")}
    for path in texts:
        path.write_text(f"open({str(marker)!r}, 'w')\n{texts[path]}")
    assert run("auto", cache)[0] == "1225.0"
    assert {path: path.read_text() for path in cache.glob("*.py")} == texts
    for path in texts:  # bytecode that claims to be of this text
        code = compile(f"open({str(marker)!r}, 'w')", path, "exec")
        status = path.stat()
        head = importlib.util.MAGIC_NUMBER + bytes(4)
        head += int(status.st_mtime).to_bytes(4, "little") + status.st_size.to_bytes(4, "little")
        Path(importlib.util.cache_from_source(path)).write_bytes(head + marshal.dumps(code))
    assert run("auto", cache)[0] == "1225.0"
    assert not marker.exists()


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_machine_code_that_others_could_have_written_is_not_loaded(kind, tmp_path):
    cache, marker = tmp_path / "cache", tmp_path / "ran"
    assert run("auto", cache)[:2] == ["1225.0", "True 0"]
    for path in cache.glob(f"__pycache__/*.{kind}"):
        path.write_bytes(evil(marker))
        path.chmod(0o666)
    assert run("auto", cache)[:2] == ["1225.0", "True 0"]
    assert not marker.exists()
    assert run("auto", cache)[:2] == ["1225.0", "True 1"]  # it was made again
    if os.getuid() == 0:
        for path in cache.glob(f"__pycache__/*.{kind}"):
            path.write_bytes(evil(marker))
            os.chown(path, 12345, 12345)
        assert run("auto", cache)[0] == "1225.0"
        assert not marker.exists()


@pytest.mark.parametrize("kept", [0, 30])
@pytest.mark.parametrize("pattern", ["*.py", "__pycache__/*.nbi", "__pycache__/*.nbc"])
def test_broken_files_are_made_again(pattern, kept, tmp_path):
    assert run("auto", tmp_path)[:2] == ["1225.0", "True 0"]
    broken = list(tmp_path.glob(pattern))
    assert broken
    for path in broken:
        path.write_bytes(path.read_bytes()[:kept])
    assert run("auto", tmp_path)[0] == "1225.0"
    assert run("auto", tmp_path)[:2] == ["1225.0", "True 1"]
    assert not list(tmp_path.rglob("*.tmp*"))


@pytest.mark.parametrize("seed", range(3))
def test_machine_code_in_which_a_byte_has_changed_is_made_again(seed, tmp_path):
    assert run("auto", tmp_path)[:2] == ["1225.0", "True 0"]
    chance = random.Random(seed)
    for path in tmp_path.glob("__pycache__/*.nbc"):
        content = bytearray(path.read_bytes())
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(content)
    assert run("auto", tmp_path)[:2] == ["1225.0", "True 0"]
    assert run("auto", tmp_path)[:2] == ["1225.0", "True 1"]


def test_machine_code_for_other_types_is_not_run(tmp_path):
    """As it is left by two processes that save at once: the index of one, the code of the other."""
    rolled = "mt.rolling(np.arange(50, dtype='{}'), 50, mt.Sum())[-1]"
    script = f"import numpy as np, muntin as mt; print({rolled})"
    folders = {kind: tmp_path / kind for kind in ("int64", "float32")}

    def roll(kind, cache):
        environment = {**os.environ, "MUNTIN_CACHE_DIR": str(cache)}
        command = [sys.executable, "-c", script.format(kind)]
        return subprocess.run(command, env=environment, capture_output=True, text=True).stdout

    for kind, cache in folders.items():
        assert float(roll(kind, cache)) == 1225
    mixed = 0
    for path in folders["int64"].glob("__pycache__/*.nbc"):
        for other in folders["float32"].glob(f"__pycache__/{path.name}"):
            mixed += other.read_bytes() != path.read_bytes()
            path.write_bytes(other.read_bytes())
    assert float(roll("int64", folders["int64"])) == 1225
    assert mixed


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077])
def test_files_of_a_chosen_folder_are_readable_and_written_by_one_only(umask, tmp_path):
    before = os.umask(umask)
    try:
        assert run("auto", tmp_path / "cache")[:2] == ["1225.0", "True 0"]
        assert run("auto", tmp_path / "cache")[:2] == ["1225.0", "True 1"]
    finally:
        os.umask(before)
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".py", ".nbi", ".nbc"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o644}


def test_a_folder_that_others_write_to_is_used_only_with_the_sticky_bit(tmp_path):
    tmp_path.chmod(0o777)
    command = [sys.executable, "-c", ROLL.format(**CASES["auto"])]
    environment = {**os.environ, "MUNTIN_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["1225.0", "False 0"]
    assert done.stderr.count("RuntimeWarning: compiled code is not kept between processes") == 1
    assert f"others may write to {tmp_path}" in done.stderr
    assert not list(tmp_path.iterdir())
    tmp_path.chmod(0o1777)
    assert run("auto", tmp_path)[:2] == ["1225.0", "True 0"]
    assert run("auto", tmp_path)[:2] == ["1225.0", "True 1"]
    assert [path.name for path in tmp_path.iterdir()] == [str(os.getuid())]
    assert stat.S_IMODE((tmp_path / str(os.getuid())).stat().st_mode) == 0o755


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives folders away")
def test_a_folder_of_another_user_is_not_used(tmp_path):
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", 12345, 12345)
    command = [sys.executable, "-c", ROLL.format(**CASES["auto"])]
    environment = {**os.environ, "MUNTIN_CACHE_DIR": str(tmp_path / "theirs")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["1225.0", "False 0"]
    assert done.stderr.count("theirs belongs to another user") == 1


def test_a_module_is_loaded_once():
    text = "from numba import njit\nANSWER = 42\n"
    assert load_module(text) is load_module(text)
    assert load_module(text).ANSWER == 42


def scale(value):
    return FACTOR * value


FACTOR = 2.5
TABLE = {"no": "literal"}


def uses_a_table(value):
    return TABLE[value]


def test_functions_are_written_out_with_what_they_refer_to():
    def shifted(value):
        return scale(value) + offset

    offset = 1
    writer = Writer()
    writer.write(shifted, "lift")
    text = writer.text()
    assert "2.5 * value" in text
    assert "+ 1" in text
    namespace = {"inline": lambda function: function}
    exec(text, namespace)
    assert namespace["lift"](4) == 11.0


@pytest.mark.parametrize("function", [uses_a_table, eval("lambda value: value"), len])
def test_what_cannot_be_written_out_says_so(function):
    with pytest.raises(NoSourceError):
        Writer().write(function, "lift")


def exponential():
    """An exponentially weighted sum: a user's own aggregate in functions with a source."""
    return mt.Aggregate("ewm", (0, 0.0), _lift_ewm, _combine_ewm, _lower_ewm)


def _lift_ewm(value):
    return (1, value)


def _combine_ewm(a, b):
    return (a[0] + b[0], a[1] * 0.5 ** b[0] + b[1])


def _lower_ewm(partial):
    return partial[1]


def test_own_functions_are_compiled_and_cached_where_they_have_a_source():
    layout = Layout((np.dtype(np.float64),), nullable=False)
    assert compiled(exponential(), layout).cached
    unnamed = mt.Aggregate("twice", 0.0, lift=lambda v: 2.0 * v, combine=lambda a, b: a + b)
    assert compiled(unnamed, layout).cached
    typed_in = mt.Aggregate("typed in", 0.0, lift=eval("lambda v: 2.0 * v"), combine=max)
    assert not compiled(typed_in, layout).cached
    values = np.arange(10.0)
    assert mt.rolling(values, 3, unnamed)[2:].tolist() == [2 * (3 * i - 3) for i in range(2, 10)]
    folded = mt.rolling(values, 3, exponential())[2:]
    assert folded.tolist() == [v + (v - 1) / 2 + (v - 2) / 4 for v in values[2:]]


def test_what_numba_refuses_says_why():
    strange = mt.Aggregate("strange", 0.0, lift=lambda v: float(str(v)), combine=lambda a, b: a + b)
    with pytest.raises(NotCompilableError, match="strange"):
        compiled(strange, Layout((np.dtype(np.float64),), nullable=False))


@pytest.mark.parametrize(("algorithm", "bound"), [(mt.DabaLite, 6), (mt.TwoStacksLite, None)])
def test_the_worst_case_by_counted_combines(algorithm, bound):
    n = 1 << 14
    aggregate, counter = counted(mt.Max())
    window = algorithm(aggregate)
    window.bulk_insert(range(n))
    worst = 0
    for value in range(2 * n):
        before = counter.combines
        window.evict()
        window.insert(value)
        window.query()
        worst = max(worst, counter.combines - before)
    assert worst <= bound if bound else worst >= n


@pytest.mark.parametrize("algorithm", ["DabaLite", "TwoStacksLite"])
def test_the_clock_in_the_loop_sees_every_row(algorithm):
    spent = ticks(algorithm, mt.Max(), np.random.default_rng(0).random(1000), 100)
    assert spent.shape == (1000,)
    assert (spent > 0).all()


def doubled(function):
    @functools.wraps(function)
    def wrapper(value):
        return 2.0 * function(value)

    return wrapper


@doubled
def wrapped(value):
    return 3.0 * value


BY_DEFAULT = 5.0


def with_a_default(value, factor=BY_DEFAULT):
    return factor * value


def with_another_default(value, factor=2.0):
    return factor * value


with_another_default.__defaults__ = (7.0,)
BY_DEFAULT = -1.0


def with_a_named_default(value, *, factor=BY_DEFAULT):
    return factor * value


OWN = {
    "wrapped": wrapped,
    "default": with_a_default,
    "another default": with_another_default,
    "named default": with_a_named_default,
    **{f"lambda {factor}": lambda value, factor=factor: factor * value for factor in (2.0, 3.0)},
}


@pytest.mark.parametrize("name", OWN)
def test_compiled_functions_compute_what_they_compute_when_they_are_called(name):
    own = mt.Aggregate("own", 0.0, OWN[name], lambda a, b: a + b)
    wanted = [OWN[name](v) + OWN[name](v + 1) for v in (1.0, 2.0)]
    assert mt.rolling(np.array([1.0, 2.0, 3.0]), 2, own)[1:].tolist() == wanted


@pytest.mark.parametrize("name", ["named", "unnamed"])
def test_a_source_that_has_changed_since_is_not_compiled(name, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    text = "def named(v):\n    return {0} * v\n\n\nunnamed = lambda v: {0} * v\n"
    path = tmp_path / f"own_source_{name}.py"
    path.write_text(text.format("2.0"))
    module = importlib.import_module(path.stem)
    path.write_text(text.format("3.0"))
    linecache.checkcache()
    own = mt.Aggregate("own", 0.0, getattr(module, name), lambda a, b: a + b)
    assert mt.rolling(np.ones(2), 2, own)[-1] == 4.0


def test_a_global_that_has_changed_since_is_compiled_again(monkeypatch):
    own = mt.Aggregate("own", 0.0, scale, lambda a, b: a + b, columns=("v",))
    query = mt.Query(time="t", windows={"w": mt.Tumbling(10)}, aggregates={"s": own})
    rows = {"t": np.arange(3), "v": np.ones(3)}
    for factor in (2.5, 4.0, 2.5):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        assert mt.rolling(rows["v"], 3, replace(own, columns=()))[-1] == 3 * factor
        assert query.run(rows)["s"].to_pylist() == [3 * factor]
