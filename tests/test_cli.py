"""The muntin command: every command as it is typed, on real Spark, real files and real servers."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import urllib.request
from contextlib import closing
from pathlib import Path

import psycopg
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import muntin as mt
from muntin import cli, watch
from muntin.cli import main
from tests.kafka_broker import Broker
from tests.patience import HUNG_S
from tests.test_jobs import write

MUNTIN = Path(sys.executable).parent / "muntin"
READINGS = [("tv", 5, 80.0), ("tv", 12, 95.0), ("lamp", 14, 40.0), ("tv", 31, 70.0)]
LATER = [("lamp", 62, 41.0), ("tv", 70, 90.0)]
FILES = """
format = "json"
path = "readings"
schema = "at timestamp, plug string, watts double"
"""
STREAM = f"{FILES}stream = true\noptions.maxFilesPerTrigger = 1"
QUERY = 'time = "at"\nkeys = "plug"\nwatermark = "10 seconds"'
WINDOWS = """
twenty = 'Tumbling("20 s")'
active = 'Session("15 s")'
"""
AGGREGATES = """
peak = 'Max("watts")'
rows = 'Count()'
"""
WHOLE = {
    ("lamp", "active", 14): (40.0, 1), ("lamp", "twenty", 0): (40.0, 1),
    ("tv", "active", 5): (95.0, 2), ("tv", "active", 31): (70.0, 1),
    ("tv", "twenty", 0): (95.0, 2), ("tv", "twenty", 20): (70.0, 1),
}  # fmt: skip


@pytest.fixture
def job(spark, tmp_path):
    """Return a function that writes readings and a job over them, and returns the job's path."""
    del spark
    add(tmp_path, READINGS)

    def written(**tables):
        given = {"source": FILES, "query": QUERY, "windows": WINDOWS, "aggregates": AGGREGATES}
        return str(write(tmp_path, **{**given, **tables}))

    return written


def add(folder, readings):
    """Write a file of readings, whose times are seconds of 2026."""
    place = folder / "readings"
    place.mkdir(exist_ok=True)
    lines = [
        json.dumps({"at": f"2026-01-01T00:{s // 60:02}:{s % 60:02}Z", "plug": plug, "watts": watts})
        for plug, s, watts in readings
    ]
    number = len(list(place.iterdir()))
    file = place / f"{number}.json"
    file.write_text("\n".join(lines))
    os.utime(file, (1e9 + number, 1e9 + number))  # Spark takes the oldest first


def results(rows):
    """Return results by key, window and the second at which it starts."""
    return {
        (row["plug"], row["window"], row["start"].timestamp() % 3600): (row["peak"], row["rows"])
        for row in rows
    }


# Running


def test_finished_files_give_what_the_query_gives(job, tmp_path, capsys):
    file = job(sink='format = "parquet"\npath = "results"')
    assert main(["run", file]) == 0
    found = pq.read_table(tmp_path / "results").to_pylist()
    assert results(found) == WHOLE
    assert main(["run", file]) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "already exists" in said[0]
    assert said[0].endswith("(--verbose shows more)")


def test_rows_are_filtered_and_shaped_by_sql(job, capsys):
    shaped = f"""{FILES}
        where = "watts > 50"
        select = ["at", "upper(plug) as plug", "watts / 10 as watts"]"""
    assert main(["run", job(source=shaped, sink='format = "console"')]) == 0
    printed = capsys.readouterr().out
    assert "9.5" in printed
    assert "TV" in printed
    assert "LAMP" not in printed
    assert "2026-01-01 00:00:20" in printed


def test_a_stream_goes_on_from_its_checkpoint_and_keeps_a_table_current(job, tmp_path, capsys):
    late = f'{QUERY}\nlateness = "1 minute"'
    sink = 'format = "sqlite"\npath = "power.db"\ntable = "plugs"\ncheckpoint = "state"'
    file = job(source=STREAM, query=late, sink=sink)
    assert main(["run", file, "--once"]) == 0
    assert re.search(r"\d micro-batch.*, 4 rows .*, 2 windows, 0 late", capsys.readouterr().err)
    add(tmp_path, LATER)
    add(tmp_path, [("tv", 33, 99.0)])  # late: it changes two windows
    assert main(["run", file, "--once"]) == 0
    with closing(sqlite3.connect(tmp_path / "power.db")) as connection:
        connection.row_factory = sqlite3.Row
        rows = connection.execute('SELECT * FROM plugs ORDER BY plug, "window", start').fetchall()
    found = {(r["plug"], r["window"], r["start"][14:19]): (r["peak"], r["rows"]) for r in rows}
    assert found == {
        ("lamp", "active", "00:14"): (40.0, 1), ("lamp", "twenty", "00:00"): (40.0, 1),
        ("tv", "active", "00:05"): (95.0, 2), ("tv", "active", "00:31"): (99.0, 2),
        ("tv", "twenty", "00:00"): (95.0, 2), ("tv", "twenty", "00:20"): (99.0, 2),
    }  # fmt: skip


def test_a_stream_with_nothing_new_ends_at_once(job, capsys):
    sink = 'format = "sqlite"\npath = "power.db"\ntable = "plugs"\ncheckpoint = "state"'
    file = job(source=STREAM, sink=sink)
    assert main(["run", file, "--once"]) == 0
    capsys.readouterr()
    assert main(["run", file, "--once"]) == 0
    assert re.search(r"^0 micro-batches, 0 rows .*, 0 windows", capsys.readouterr().err, re.M)
    other = job(source=STREAM, sink=sink, query=QUERY.replace('keys = "plug"', "keys = []"))
    assert main(["run", other, "--once"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert "the checkpoint is of another query: keys is [] here and ['plug'] in the ch" in said[-1]


def test_a_stream_that_is_idle_for_a_while_goes_on(job, spark, tmp_path, capfd, monkeypatch):
    rows, over, idle = [], threading.Event(), threading.Event()

    class Watched(watch.Board):
        def progress(self, told):
            rows.append(told["numInputRows"])
            super().progress(told)
            idle.set()
            done = sum(rows) == len(READINGS) + len(LATER) and not rows[-1]
            if done and not over.is_set():
                over.set()
                os.kill(os.getpid(), signal.SIGINT)  # it is idle again

    def feed():
        """Wait until the stream has nothing to do, and give it more."""
        idle.wait(HUNG_S)
        while rows[-1]:
            idle.clear()
            idle.wait(HUNG_S)
        add(tmp_path, LATER)

    monkeypatch.setattr(watch, "Board", Watched)
    interval = "spark.sql.streaming.noDataProgressEventInterval"
    before = spark.conf.get(interval)
    spark.conf.set(interval, "100")
    feeding = threading.Thread(target=feed)
    feeding.start()
    try:
        assert main(["watch", job(source=STREAM, sink='format = "console"')]) == 0
    finally:
        spark.conf.set(interval, before)
        feeding.join()
    assert sum(rows) == len(READINGS) + len(LATER)
    assert re.search(r"\d micro-batches, 6 rows", capfd.readouterr().err)


@pytest.mark.parametrize("kind", ["postgres", "delta", "kafka"])
def test_tables_stay_current_over_a_crash(kind, job, tmp_path, request):
    at, name = "", f"plugs_{kind}"
    if kind == "delta":
        sink = f'path = "warehouse"\ntable = "{name}"'
    elif kind == "postgres":
        at = request.getfixturevalue("postgres").url
        sink = f'url = "{at}"\ntable = "{name}"'
    else:
        broker = Broker()
        sink = f'servers = "{broker.servers}"\ntopic = "{name}"\noptions.linger.ms = 0'
    late = f'{QUERY}\nlateness = "1 minute"'
    sink = f'format = "{kind}"\n{sink}\ncheckpoint = "state"'
    file = job(source=STREAM, query=late, sink=sink)
    assert main(["run", file, "--once"]) == 0
    add(tmp_path, LATER)
    add(tmp_path, [("tv", 33, 99.0)])  # late: it changes two windows
    assert main(["run", file, "--once"]) == 0
    last = max(int(path.name) for path in (tmp_path / "state" / "commits").glob("[0-9]*"))
    for path in (f"{last}", f".{last}.crc"):  # as after a crash before Spark's own commit
        (tmp_path / "state" / "commits" / path).unlink(missing_ok=True)
    assert main(["run", file, "--once"]) == 0
    if kind == "postgres":
        with psycopg.connect(at, row_factory=psycopg.rows.dict_row) as connection:
            rows = connection.execute(f"SELECT * FROM {name}").fetchall()
    elif kind == "delta":
        rows = DeltaTable(str(tmp_path / "warehouse" / name)).to_pyarrow_table().to_pylist()
    else:
        last = dict(broker.messages(name))
        rows = [json.loads(value) for value in last.values() if value is not None]
    starts = [str(row["start"])[14:19] for row in rows]
    found = {
        (r["plug"], r["window"], start): (r["peak"], r["rows"], r["kind"])
        for r, start in zip(rows, starts, strict=True)
    }
    assert len(found) == len(rows)
    assert found == {
        ("lamp", "active", "00:14"): (40.0, 1, "result"),
        ("lamp", "twenty", "00:00"): (40.0, 1, "result"),
        ("tv", "active", "00:05"): (95.0, 2, "result"),
        ("tv", "active", "00:31"): (99.0, 2, "result"),
        ("tv", "twenty", "00:00"): (95.0, 2, "result"),
        ("tv", "twenty", "00:20"): (99.0, 2, "result"),
    }


def test_a_driver_that_is_missing_is_told_before_the_start(job, capsys):
    jdbc = 'format = "jdbc"\nurl = "jdbc:postgresql://host/power?password=hidden"\ntable = "plugs"'
    named = f'{jdbc}\noptions.driver = "org.example.Driver"'
    for sink in (jdbc, named):
        assert main(["run", job(sink=sink)]) == 2
        [said] = capsys.readouterr().err.splitlines()
        assert said.endswith(
            'Spark has no driver for jdbc:postgresql: name its jar in [spark], jars = "driver.jar", and '
            'its class in [sink], options = { driver = "org.example.Driver" }, or take '
            'format = "postgres", which needs none'
        )


def test_finished_data_may_be_written_to_a_table_again(job, tmp_path):
    file = job(sink='format = "sqlite"\npath = "power.db"\ntable = "plugs"')
    assert main(["run", file]) == 0
    add(tmp_path, [("tv", 6, 1000.0)])
    assert main(["run", file]) == 0
    with closing(sqlite3.connect(tmp_path / "power.db")) as connection:
        [(count, peak)] = connection.execute("SELECT count(*), max(peak) FROM plugs").fetchall()
    assert (count, peak) == (len(WHOLE), 1000.0)


def test_a_stream_of_files_has_a_folder_per_micro_batch_and_its_mode(job, tmp_path, capsys):
    add(tmp_path, LATER)
    late = f'{QUERY}\nlateness = "30 seconds"'
    sink = 'format = "parquet"\npath = "results"\ncheckpoint = "state"\nmode = "append"'
    assert main(["run", job(source=STREAM, query=late, sink=sink), "--once"]) == 0
    [folder] = (tmp_path / "results").iterdir()
    assert re.fullmatch(r"micro_batch=\d", folder.name)
    found = results(pq.read_table(tmp_path / "results").to_pylist())
    assert found == {
        key: value for key, value in WHOLE.items() if key[2] < 20
    }  # the rest may change
    anew = sink.replace("state", "anew")
    assert main(["run", job(source=STREAM, query=late, sink=anew), "--once"]) == 2
    assert "has results already, and the checkpoint" in capsys.readouterr().err


def test_lists_and_structs_are_json_in_flat_files_and_tables(job, spark, tmp_path):
    nested = "curve = 'M4(\"watts\")'\nall = 'Collect(\"watts\")'"
    csv = 'format = "csv"\npath = "results"\noptions.header = true'
    assert main(["run", job(aggregates=nested, sink=csv)]) == 0
    rows = spark.read.csv(str(tmp_path / "results"), header=True).where("plug = 'tv'").collect()
    assert {json.loads(row["curve"])["max"] for row in rows} == {95.0, 70.0}
    assert [80.0, 95.0] in [json.loads(row["all"]) for row in rows]
    url = f"jdbc:derby:{tmp_path / 'derby'};create=true"
    jdbc = f'format = "jdbc"\nurl = "{url}"\ntable = "plugs"\noptions.batchsize = 1'
    assert main(["run", job(aggregates=nested, sink=jdbc)]) == 0
    table = spark.read.format("jdbc").options(url=url, dbtable="plugs").load().collect()
    assert [80.0, 95.0] in [json.loads(row["all"]) for row in table]


def test_kafka_gives_json_by_its_schema(job, capsys):
    broker = Broker()
    for plug, second, watts in READINGS:
        value = json.dumps({"plug": plug, "at": 1_767_225_600 + second, "watts": watts})
        broker._producer.produce("plugs", value, partition=0)
    broker._producer.flush()
    source = f"""
        format = "kafka"
        servers = "{broker.servers}"
        topic = "plugs"
        schema = "plug string, at long, watts double"
        select = ["timestamp_seconds(value.at) as at", "value.plug", "value.watts"]
        options.kafka.log_level = 0"""
    assert main(["run", job(source=source, sink='format = "console"')]) == 0
    finished = capsys.readouterr().out
    assert finished.count(" tv ") == 4
    assert finished.count(" lamp ") == 2
    raw = source.replace("schema = ", "# ").replace("value.plug", "topic as plug")
    raw = raw.replace("timestamp_seconds(value.at)", "timestamp")
    raw = raw.replace("value.watts", "octet_length(value) as watts")
    assert main(["run", job(source=raw, sink='format = "console"')]) == 0
    assert " plugs " in capsys.readouterr().out


def test_the_console_shows_micro_batches_and_no_more_than_fits(job, tmp_path, capsys):
    add(tmp_path, [(f"plug {i}", 63, 1.0) for i in range(50)])
    add(tmp_path, LATER)
    assert main(["run", job(source=STREAM, sink='format = "console"'), "--once"]) == 0
    printed = capsys.readouterr().out
    assert "micro-batch" in printed
    assert "plug 49" not in printed
    assert main(["run", job(sink='format = "console"')]) == 0
    assert "more than 40 results" in capsys.readouterr().out
    nothing = f'{FILES}where = "watts > 1e6"'
    assert main(["run", job(source=nothing, sink='format = "console"')]) == 0
    assert capsys.readouterr().out.strip() == "no results"


def test_a_live_page_shows_a_stream_until_it_is_interrupted(job, tmp_path, capfd, monkeypatch):
    add(tmp_path, LATER)
    told, taken, progress, over = [], [], [], threading.Event()

    class Watched(watch.Board):
        def take(self, table):
            taken.extend(table.to_pylist())
            super().take(table)

        def progress(self, told):
            progress.append(told["numInputRows"])
            super().progress(told)

    monkeypatch.setattr(watch, "Board", Watched)

    def look():
        """Wait until all is done, read the page, and interrupt."""
        while "stays until Ctrl-C" not in "".join(told):
            told.append(capfd.readouterr().err)
            if over.wait(0.1):
                return
        try:
            url = re.search(r"http://\S+", "".join(told))[0]
            told.append(urllib.request.urlopen(url, timeout=HUNG_S).read().decode())
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    looking = threading.Thread(target=look)
    looking.start()
    code = main(["watch", job(source=STREAM, sink='format = "console"'), "--once"])
    over.set()
    looking.join()
    assert code == 0
    assert "<html" in told[-1]
    assert results(taken) == WHOLE
    assert sum(progress) == len(READINGS) + len(LATER)


RATE = """
[source]
format = "rate"
select = ["timestamp as at", "value % 3 as plug", "value"]
options.rowsPerSecond = 100
[query]
time = "at"
keys = "plug"
watermark = "100 ms"
[windows]
second = 'Tumbling("1 s")'
[aggregates]
rows = 'Count()'
[sink]
format = "console"
[spark]
master = "local[1]"
"""


def test_ctrl_c_ends_a_stream_in_order_and_spark_is_not_heard(tmp_path):
    """In a process of its own, as it is typed: the only test that starts another Spark."""
    (tmp_path / "rate.toml").write_text(RATE)
    process = subprocess.Popen(
        [MUNTIN, "run", "rate.toml"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    for line in process.stdout:
        if "result" in line:
            break
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=HUNG_S)
    assert process.returncode == 0
    assert re.fullmatch(r"\d+ micro-batch\S*, [\d,]+ rows .*, 0 late, 0 dropped\n", told), told


# What goes wrong


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (FILES.replace("readings", "nowhere"), "[PATH_NOT_FOUND] Path does not exist"),
        (f'{FILES}where = "wats > 1"', "with name `wats` cannot be resolved"),
        (f'{FILES}select = "at +"', "[PARSE_SYNTAX_ERROR] Syntax error"),
        (f'{FILES}select = ["at", "watts"]', "no column 'plug', which the query's keys ask for"),
        (f'{STREAM}\nselect = ["null as at", "*"]', "the DataFrame has two columns 'at'"),
        (
            f'{STREAM}\nselect = ["cast(null as timestamp) as at", "plug", "watts"]',
            "is null: fill it in, or leave such rows out with on_bad_time='drop'",
        ),
    ],
)
def test_what_spark_cannot_do_is_told_on_one_line(job, capfd, source, told):
    assert main(["run", job(source=source, sink='format = "console"'), "--once"]) == 1
    said = capfd.readouterr().err.strip()
    assert told in said
    assert "\n" not in said


def test_verbose_shows_where_an_error_came_from(job, capfd):
    wrong = FILES.replace("readings", "nowhere")
    assert main(["run", job(source=wrong, sink='format = "console"'), "--verbose"]) == 1
    said = capfd.readouterr().err
    assert "Traceback (most recent call last)" in said
    assert "(--verbose" not in said


def test_a_wrong_job_is_wrong_usage_and_names_its_place(tmp_path, capsys):
    file = write(tmp_path, aggregates="""peak = 'Maxx("watts")'""")
    for command in ("run", "explain", "watch"):
        assert main([command, str(file)]) == 2
        told = capsys.readouterr().err
        assert told == (
            f"muntin: {file}, [aggregates] peak: there is no aggregate 'Maxx': did you mean Max?\n"
        )
    assert main(["explain", str(tmp_path / "none.toml")]) == 2
    assert "none.toml cannot be read: No such file" in capsys.readouterr().err


def test_an_interruption_before_the_end_has_its_own_code(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("muntin.jobs.read_job", interrupted)
    assert main(["explain", str(tmp_path)]) == 130


@pytest.mark.parametrize(
    "arguments", [[], ["rn"], ["run"], ["run", "a.toml", "--twice"], ["bench", "--slow"]]
)
def test_wrong_usage(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: muntin" in capsys.readouterr().err


# The other commands


def test_explain_needs_no_spark(tmp_path, capfd):
    file = write(tmp_path)
    code = f"""
        import sys
        from muntin.cli import main
        code = main(["explain", {str(file)!r}])
        print("pyspark" in sys.modules)
        sys.exit(code)"""
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
    said = capfd.readouterr().out
    assert said.startswith("source: parquet files in")
    assert "1 window over a stream out of order" in said
    assert said.endswith("sink: tables on the console\nFalse\n")


@pytest.mark.parametrize("command", ["run", "watch", "serve", "explain", "demo", "bench", "doctor"])
def test_every_command_has_help_with_examples_and_exit_codes(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert f"examples:\n  muntin {command}" in said
    assert "130  interrupted" in said


def test_the_job_in_the_help_is_a_job(tmp_path, capsys):
    file = tmp_path / "power.toml"
    file.write_text(cli.JOB.removeprefix("a job file:"))
    assert main(["explain", str(file)]) == 0
    assert "table plugs of the SQLite file" in capsys.readouterr().out


def test_bench_hands_its_arguments_on(capfd):
    assert main(["bench", "nothing of the kind", "--quick"]) == 2
    assert "there is no nothing of the kind" in capfd.readouterr().err


def test_bench_without_the_source_tree_says_where_the_benchmarks_are(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(cli, "__file__", str(tmp_path / "site-packages/muntin/cli.py"))
    assert main(["bench"]) == 1
    assert "not in the wheel: get the source, and run make bench" in capsys.readouterr().err


def test_demo_is_given_the_console(monkeypatch):
    consoles = []
    monkeypatch.setattr("muntin.demo.main", consoles.append)
    assert main(["demo"]) == 0
    assert consoles[0].width == cli.PLAIN_WIDTH


def test_doctor_fails_if_something_is_wrong(monkeypatch, tmp_path, capsys):
    assert main(["doctor"]) == 0
    (tmp_path / "file").write_text("where a folder should be")
    monkeypatch.setenv("MUNTIN_CACHE_DIR", str(tmp_path / "file"))
    assert main(["doctor"]) == 1
    assert "set MUNTIN_CACHE_DIR" in capsys.readouterr().out


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"muntin {mt.__version__}\n"
