"""Job files: what they say becomes a query, and what they say wrongly is told with its place."""

import inspect
import io
import logging
import os
import re
import signal
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

import muntin as mt
from muntin import cli
from muntin.jobs import JobError, names, read_job
from muntin.jobs.console_table import cell, show
from muntin.jobs.errors import one_line
from muntin.jobs.progress import Totals, behind, mark
from muntin.jobs.quiet_spark import interruptions, silence, started
from muntin.jobs.safe import masked, printable
from muntin.windows import Window
from tests.patience import HUNG_S

TABLES = {
    "source": 'format = "parquet"\npath = "readings"',
    "query": 'time = "at"\nkeys = "plug"',
    "windows": """hour = 'Sliding("1 hour", every="1 minute")'""",
    "aggregates": """peak = 'Max("watts")'""",
    "sink": 'format = "console"',
}
STREAM = """
format = "json"
path = "readings"
stream = true
schema = "at timestamp, plug string, watts double"
"""
WINDOWS = {
    'Tumbling("1 h", origin="2026-01-31 00:30")': mt.Tumbling("1 h", origin="2026-01-31 00:30"),
    'Tumbling(size=10, measure="count")': mt.Tumbling(10, measure="count"),
    'Sliding("1 h", every="1 min", origin=-5)': mt.Sliding("1 h", "1 min", origin=-5),
    'Sliding(size=100, every=10, measure="count")': mt.Sliding(100, 10, measure="count"),
    'Cumulate(size="1 day", step="1 h", origin=5)': mt.Cumulate("1 day", "1 h", origin=5),
    'Calendar(size="1 month", every="1 day", zone="Europe/Berlin")': mt.Calendar(
        "1 month", every="1 day", zone="Europe/Berlin"
    ),
    'Sliding("10 min", every=rows(100))': mt.Sliding("10 min", every=mt.rows(100)),
    'Sliding(rows(100), every="1 min", origin=7)': mt.LastN(100, "1 min", origin=7),
    'Delta("km", 5.5, every=rows(10))': mt.Delta("km", 5.5, every=mt.rows(10)),
    'Session(gap="5 minutes")': mt.Session("5 minutes"),
    'Session("5 minutes", longest="1 hour")': mt.Session("5 minutes", longest="1 hour"),
    'Session(column="gap")': mt.Session(column="gap"),
    'Punctuation(predicate="opens")': mt.Punctuation("opens"),
    'Punctuation("opens", last=3)': mt.Punctuation("opens", last=3),
    'LastN(n=100, every="1 minute", origin=7)': mt.LastN(100, "1 minute", origin=7),
    'Fixed(start="2026-01-31", size="1 day")': mt.Fixed("2026-01-31", "1 day"),
    'Delta(column="km", size=100, every=10, origin=3)': mt.Delta("km", 100, 10, origin=3),
    'Policy(policy=last(100), every="1 s", origin=4)': mt.Policy(
        mt.policies.last(100), "1 s", origin=4
    ),
    'Policy(until_max("a") | until_longest_run("b") | last(9), "1 s")': mt.Policy(
        mt.policies.until_max("a") | mt.policies.until_longest_run("b") | mt.policies.last(9), "1 s"
    ),
    'Policy(within("1 h", "at") | sum_at_most(9.5, column="x"), "1 s")': mt.Policy(
        mt.policies.within("1 h", "at") | mt.policies.sum_at_most(9.5, "x"), "1 s"
    ),
}
ARGUMENTS = {
    "time": "at", "halflife": "10 min", "alpha": 0.5, "span": 9, "adjust": False,
    "value": "watts", "edges": [-1, 0, 2.5], "method": "dense",
    "overflow": "null",
    "column": "watts", "argument": "plug", "ddof": 0, "nulls": True, "q": 0.9, "k": 9,
    "interpolation": "linear", "expected": 50, "error": 0.05, "confidence": 0.9, "lg_k": 11,
    "lg_max": 8, "x": "watts", "y": "volts", "price": "price",
    "volume": "size", "where": "watts > 9 and plug is not null",
}  # fmt: skip


def write(folder: Path, **tables: str) -> Path:
    """Write a job file; tables are TOML, and those that are not given say something simple."""
    file = folder / "job.toml"
    content = {**TABLES, **tables}
    file.write_text("\n".join(f"[{name}]\n{text}" for name, text in content.items() if text))
    return file


# Columns

SCHEMA = (
    """schema = "`at` timestamp, plug string comment 'of (it, <', watts: double, at.more int" """
)
FILES = 'format = "csv"\npath = "readings"\n'
KNOWN = {
    "schema": (FILES + SCHEMA, {}, ""),
    "nested": (
        FILES + 'schema = "at timestamp, s struct<plug: string, watts: int>, plug int"',
        {},
        "watts",
    ),
    "decimals": (FILES + 'schema = "at timestamp, plug decimal(9, 2), `wa``tts` int"', {}, "watts"),
    "time": (FILES + 'schema = "plug string, watts int"', {}, "at"),
    "case": (FILES + 'schema = "at timestamp, Plug string, watts int"', {}, "plug"),
    "rate": ('format = "rate"', {}, "at"),
    "select": (FILES + SCHEMA + '\nselect = ["at", "plug"]', {}, "watts"),
    "alias": (
        'format = "rate"\nselect = ["timestamp as at", "1 AS `plug`", "value as watts"]',
        {},
        "",
    ),
    "all": ('format = "rate"\nselect = ["*", "timestamp at"]', {}, ""),
    "star": ('format = "rate"\nselect = ["*", "timestamp as at", "1 as plug"]', {}, "watts"),
    "unknown": ('format = "parquet"\npath = "readings"', {}, ""),
    "remote": ('format = "csv"\npath = "s3://bucket/x"\nschema = "at timestamp"', {}, ""),
    "partitions": ('format = "csv"\npath = "by"\nschema = "at timestamp, watts int"', {}, ""),
    "kafka": ('format = "kafka"\nservers = "h:1"\ntopic = "t"\nschema = "at timestamp"', {}, ""),
    "sql": (FILES + SCHEMA, {"aggregates": "n = 'Count(where=\"watts > 9 and x\")'"}, ""),
    "a window": (FILES + SCHEMA, {"windows": "d = 'Delta(\"km\", 5)'"}, "km"),
}


@pytest.mark.parametrize("name", KNOWN)
def test_explain_knows_which_columns_there_will_be(name, tmp_path):
    (tmp_path / "by" / "plug=tv").mkdir(parents=True)
    source, tables, missing = KNOWN[name]
    if name == "rate" or "rate" in source:
        tables = {**tables, "query": TABLES["query"] + '\nwatermark = "1 s"'}
    job = read_job(write(tmp_path, source=source, **tables))
    if missing:
        with pytest.raises(JobError, match=rf"\[query\]: no column '{missing}', which the query's"):
            job.explain()
    else:
        assert "state:" in job.explain()


# Sinks


@pytest.mark.parametrize(
    ("sink", "told"),
    [
        (
            'format = "postgres"\nurl = "postgresql://me:hidden@host/power"\ntable = "plugs"',
            "table plugs of PostgreSQL at postgresql://***@host/power, kept current",
        ),
        (
            'format = "delta"\npath = "s3://me:hidden@bucket/house"\ntable = "plugs"\n'
            'options.AWS_SECRET_ACCESS_KEY = "hidden"',
            "Delta table plugs in s3://***@bucket/house, kept current",
        ),
        (
            'format = "kafka"\nservers = "host:9092"\ntopic = "plugs"\n'
            'options.sasl.password = "hidden"',
            "topic plugs of Kafka at host:9092, a message for each change",
        ),
    ],
)
def test_tables_that_stay_current_are_described_without_secrets(sink, told, tmp_path):
    job = read_job(write(tmp_path, sink=sink))
    assert told in job.explain()
    assert "hidden" not in job.explain() + repr(job)
    assert callable(job.sink.writer(("plug",), Console()))


# Windows and aggregates


@pytest.mark.parametrize("text", WINDOWS)
def test_every_window_is_read_with_all_its_parameters(text):
    assert names.window(text).describe() == WINDOWS[text].describe()


def test_no_window_and_no_policy_is_left_out():
    made = {
        name
        for name in mt.__all__
        if inspect.isclass(kind := getattr(mt, name))
        and issubclass(kind, Window)
        and not inspect.isabstract(kind)
        and kind is not mt.ContextAwareWindow
    }
    assert set(names.WINDOWS) == made
    policies = {name for name in mt.policies.__all__ if name[0].islower()}
    assert set(names.POLICIES) == policies
    for name in (*made, *policies):
        assert any(f"{name}(" in text for text in WINDOWS), name


@pytest.mark.parametrize("name", mt.AGGREGATES)
def test_every_aggregate_is_read_with_all_its_parameters(name):
    factory = mt.AGGREGATES[name]
    parameters = inspect.signature(factory).parameters.values()
    given = {p.name: ARGUMENTS[p.name] for p in parameters if p.kind is not p.VAR_POSITIONAL}
    given |= {"q": [0.1, 0.9]} if name == "Quantiles" else {}
    several = []
    if len(given) < len(parameters):  # columns of any number come one after the other
        columns = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        several = [*map(given.pop, columns), "x", "z"]
    if name == "Ewm":  # which takes one of these, and the time with only one of them
        given = {key: given[key] for key in ("column", "alpha", "adjust", "where")}
    written = [*map(repr, several), *(f"{key}={value!r}" for key, value in given.items())]
    found, wanted = names.aggregate(f"{name}({', '.join(written)})"), factory(*several, **given)
    for fact in ("name", "columns", "nulls", "rank", "overflow", "where", "parameters"):
        assert getattr(found, fact) == getattr(wanted, fact)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('Slidng("1 h", "1 s")', "there is no window 'Slidng': did you mean Sliding?"),
        ('tumbling("1 h")', "there is no window 'tumbling': did you mean Tumbling?"),
        ('Max("watts")', "there is no window 'Max': there are Tumbling, Sliding,"),
        ('Sliding("1 h", evry="1 s")', "Sliding takes no 'evry': did you mean every?"),
        ('Sliding("1 h")', "Sliding: missing a required argument: 'every'"),
        ('Tumbling("0 s")', "a window's size must be above zero, got '0 s'"),
        ('Policy(lst(3), "1 s")', "there is no policy 'lst': did you mean last?"),
        ('Tumbling(hour)', "an argument is a text in quotes, a number, True or False, got hour"),
        ('Tumbling(*["1 h"])', "an argument is a text in quotes"),
        ('Tumbling(__import__("os").getcwd())', "is written like"),
        ('Tumbling(2 ** 3)', "is written like"),
        ("Session", """a window is written like 'Sliding("1 hour", every="1 minute")', got 'Session'"""),
        ('mt.Session("1 s")', "is written like"),
        ("1 hour", "is written like"),
        (3600, "is written like"),
    ],
)  # fmt: skip
def test_a_wrong_window_is_told_with_what_was_meant(text, told):
    with pytest.raises((TypeError, ValueError)) as error:
        names.window(text)
    assert told in str(error.value)


# Files


def test_a_plan_that_is_not_known_is_named(tmp_path):
    query = 'time = "at"\nplan = "fastest"\nwatermark = "1 s"'
    with pytest.raises(
        JobError, match=r"\[query\] plan: a plan is one of auto, worst case.* 'fastest'"
    ):
        read_job(write(tmp_path, source=STREAM, query=query))


def test_a_job_says_what_is_read_asked_and_written(tmp_path):
    source = f"""{STREAM}
        select = ["at", "upper(plug) as plug", "watts"]
        where = "watts > 0"
        options = {{ maxFilesPerTrigger = 1, mode.of.reading = true }}"""
    query = """
        time = "at"
        keys = ["plug"]
        watermark = "10 seconds"
        lateness = "1 minute"
        idle = "7 days"
        ordered = true
        emit = "changes"
        on_bad_time = "drop"
        plan = "worst case" """
    sink = """
        format = "parquet"
        path = "results"
        checkpoint = "s3a://bucket/checkpoints"
        mode = "append"
        options.compression = "none" """
    spark = 'sql.shuffle.partitions = 2\n"speculation.interval" = "1s"'
    job = read_job(write(tmp_path, source=source, query=query, sink=sink, spark=spark))
    assert job.source.place == str(tmp_path / "readings")
    assert job.source.options == {"maxFilesPerTrigger": 1, "mode.of.reading": True}
    assert job.sink.place == str(tmp_path / "results")
    assert job.sink.checkpoint == "s3a://bucket/checkpoints"
    assert job.sink.options == {"compression": "none"}
    assert job.settings == {"spark.sql.shuffle.partitions": 2, "spark.speculation.interval": "1s"}
    assert job.query.keys == ("plug",)
    assert (job.query.delay, job.query.allowed) == (10_000_000, 60_000_000)
    assert job.query.limit == 7 * 24 * 3600 * 10**6
    assert (job.query.ordered, job.query.emit, job.query.on_bad_time) == (True, "changes", "drop")
    assert job.mode == "append"
    said = job.explain()
    assert f"source: json files in {tmp_path / 'readings'}, as a stream; where watts > 0; " in said
    assert "select at, upper(plug) as plug, watts" in said
    assert job.plan == "worst case"
    assert job.query.explain("worst case") in said
    assert f"sink: parquet files in {tmp_path / 'results'}, a folder per micro-batch; che" in said


def test_the_mode_of_a_stream_follows_from_its_lateness(tmp_path):
    late = 'time = "at"\nwatermark = "1 s"\nlateness = "1 s"'
    assert read_job(write(tmp_path, source=STREAM, query=late)).mode == "update"
    early = 'time = "at"\nwatermark = "0 s"\nearly = true'
    assert read_job(write(tmp_path, source=STREAM, query=early)).mode == "update"
    in_time = 'time = "at"\nwatermark = "0 s"'
    assert read_job(write(tmp_path, source=STREAM, query=in_time)).mode == "append"


def test_a_job_may_ask_for_rows_that_no_window_takes(tmp_path):
    asked = 'time = "at"\nwatermark = "0 s"\ndropped = '
    job = read_job(write(tmp_path, source=STREAM, query=asked + '"report"'))
    assert "rows that no window takes are reported" in job.explain()
    with pytest.raises(JobError, match=r"\[query\]: dropped must be one of count, report"):
        read_job(write(tmp_path, source=STREAM, query=asked + '"all"'))


def test_secrets_are_not_shown(tmp_path):
    kafka = """
        format = "kafka"
        servers = "host:9092"
        topic = "plugs"
        options.kafka.sasl.password = "hidden" """
    sink = """
        format = "jdbc"
        url = "jdbc:postgresql://host/power?password=hidden"
        table = "plugs"
        options.password = "hidden" """
    job = read_job(write(tmp_path, source=kafka, sink=sink, spark='secret.key = "hidden"'))
    assert "topic plugs of Kafka" in job.explain()
    assert "table plugs behind jdbc:postgresql" in job.explain()
    assert "hidden" not in job.explain() + repr(job)


ADDRESSES = [
    "s3a://key:hidden@bucket/plugs",
    "s3a://key:hid/den@hidden@bucket/plugs",
    "mongodb://a:hidden'hidden@one,b:hidden@two/plugs",
    "hdfs://hidden@host/plugs",
    "https://host/plugs?sig=1&access_token=hidden",
    "jdbc:x://host:5432/db;user=me;password=hidden;ssl=true",
    "https://host/plugs?token=hidden,hidden;hidden&b=1",
    "https://host/plugs?token=hid)hidden}hidden]'hidden",
    "abfss://files@host/plugs?AccountKey=1;client.secret='hidden'",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_addresses_are_shown_without_their_secrets(address, tmp_path, capsys):
    source = f'format = "json"\npath = "{address}"\nschema = "at timestamp, watts double"'
    source += """\nstream = true\nwhere = "api_key = 'hidden' and watts > 0" """
    sink = f'format = "parquet"\npath = "{address}"\ncheckpoint = "{address}"'
    query = 'time = "at"\nwatermark = "1 s"'
    file = write(tmp_path, source=source, sink=sink, query=query)
    job = read_job(file)
    assert cli.main(["explain", str(file)]) == 0
    shown = capsys.readouterr().out + job.explain() + repr(job)
    assert "hidden" not in shown
    assert "watts > 0" in shown
    assert masked(f"no such path {address}") != f"no such path {address}"
    assert "hidden" not in masked(f"java.io.IOException: cannot read {address} (closed)")


@pytest.mark.parametrize(
    "table",
    [
        {"source": 'format = "csv"\npath = "x"\noptions.password = ["hidden"]'},
        {"source": 'format = "csv"\npath = "x"\noptions.sasl.jaas.config = [{a = "hidden"}]'},
        {"source": 'format = "csv"\npath = "x"\noptions = "hidden"'},
        {"source": 'format = "csv"\npath = ["s3a://a:hidden@b"]'},
        {"source": 'format = "kafka"\nservers = ["hidden"]\ntopic = "x"'},
        {"sink": 'format = "jdbc"\nurl = ["jdbc:x?password=hidden"]\ntable = "x"'},
        {"spark": 'secret.key = ["hidden"]'},
    ],
)
def test_a_secret_of_the_wrong_kind_is_not_echoed(table, tmp_path, capsys):
    file = write(tmp_path, **table)
    assert cli.main(["explain", str(file)]) == 2
    said = capsys.readouterr().err
    assert "hidden" not in said
    assert "got a " in said


def test_control_characters_and_markup_do_not_reach_the_terminal(tmp_path, capsys):
    name = "\x1b]0;owned\x07\x1b[2J[bold red]x[/]\u202e\x9b31m\r\n"
    for text in (name, f"{name}\\", "[/]", "\\[b]"):
        shown = cell({"value": text, text: [text, 1.5]})
        assert not any(ord(c) < 32 or 127 <= ord(c) < 160 or c == "\u202e" for c in shown)
        assert text.strip(name) in shown
    assert printable("größe µ 東京 \U0001f50c") == "größe µ 東京 \U0001f50c"
    windows = {
        "windows": r"""hour = 'Slidng("\u001b[2J")'""",
        "sink": 'format = "con\\u001b[2Jsole"',
    }
    for table, text in windows.items():
        assert cli.main(["explain", str(write(tmp_path, **{table: text}))]) == 2
        assert "\x1b" not in capsys.readouterr().err


def test_keys_are_shown_as_they_are_and_not_as_markup():
    rows = pa.table(
        {
            "k": ["[bold]tv[/bold]", "\x1b[31mlamp"], "window": ["w", "w"], "start": [0, 0],
            "end": [1, 1], "kind": ["result", "update"], "[red]peak": [1.0, 2.0],
        }
    )  # fmt: skip

    class Frame:
        """A data frame of Spark, as far as it is asked."""

        def orderBy(self, *_):
            return self

        def limit(self, _):
            return self

        def toArrow(self):
            return rows

    console = Console(width=200, force_terminal=True, color_system=None, file=io.StringIO())
    show(console, Frame(), ("k",), 3)
    shown = console.file.getvalue()
    assert "[bold]tv[/bold]" in shown
    assert "[red]peak" in shown
    assert "\\x1b[31mlamp" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        ({"windows": """hour = 'Slidng("1 h", "1 s")'"""}, "[windows] hour: there is no window 'Sli"),
        ({"aggregates": """peak = 'Mx("watts")'"""}, "[aggregates] peak: there is no aggregate 'Mx'"),
        ({"aggregates": "peak = 'Max()'"}, "[query]: aggregate 'peak' does not say which column"),
        ({"aggregates": "peak = 7"}, "[aggregates] peak: an aggregate is written like"),
        ({"windows": "", "window": "a = 1"}, "[window]: this is not known: did you mean windows?"),
        ({"sink": ""}, "the table [sink] is missing"),
        ({"query": 'tme = "at"'}, "[query] tme: this is not known: did you mean time?"),
        ({"query": 'keys = "a"'}, '[query]: time is missing: write it like time = "at"'),
        ({"query": "time = 3"}, "[query] time: this must be a text, got 3"),
        ({"query": 'time = "at"\nkeys = 3'}, "[query] keys: this must be a text or a list of texts"),
        ({"query": 'time = "at"\nordered = "no"'}, "[query] ordered: this must be true or false"),
        ({"query": 'time = "at"\nemit = "all"'}, "[query]: emit must be one of every, changes"),
        ({"query": 'time = "at"\nwatermark = "5 parsecs"'}, "[query]: '5 parsecs' is not a duration"),
        ({"source": 'format = "parket"'}, "[source] format: there is no source 'parket': did you mean"),
        ({"source": 'format = "rate"\npath = "x"'}, "[source] path: this is not known of the source"),
        ({"source": 'format = "csv"'}, "[source]: path is missing"),
        ({"source": 'format = "csv"\npath = "x"\nstream = true'}, "[source]: a stream of files needs"),
        ({"source": 'format = "kafka"\ntopic = "x"'}, "[source]: servers is missing"),
        ({"source": 'format = "csv"\npath = "x"\noptions = 1'}, "[source.options] is a table, got 1"),
        ({"source": 'format = "csv"\npath = "x"\noptions.a = []'}, "[source.options] a: this must be"),
        ({"source": STREAM}, "[query]: a stream needs a watermark"),
        ({"sink": 'format = "consle"'}, "[sink] format: there is no sink 'consle': did you mean cons"),
        ({"sink": 'format = "console"\nmode = "append"'}, "[sink] mode: this is for streams, and"),
        ({"sink": 'format = "console"\ncheckpoint = "c"'}, "[sink] checkpoint: this is for streams"),
        ({"sink": 'format = "sqlite"\npath = "x.db"'}, "[sink]: table is missing"),
        ({"source": STREAM, "sink": 'format = "console"\nmode = "all"'}, "[sink] mode: this must be"),
        ({"source": STREAM, "sink": 'format = "csv"\npath = "x"'}, "[sink]: a stream needs a check"),
        ({"source": "format = "}, "is not TOML: Invalid value (at line 2, column 10)"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_job_is_told_with_its_place(tmp_path, tables, told):
    file = write(tmp_path, **tables)
    with pytest.raises(JobError) as error:
        read_job(file)
    assert str(error.value).startswith(str(file))
    assert told in str(error.value)


def test_the_jobs_in_the_documents_are_jobs(tmp_path):
    text = (Path(__file__).parents[1] / "docs" / "command.md").read_text()
    whole, *parts = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    tables = dict(re.findall(r"^\[(\w+)\]\n(.*?)(?=^\[|\Z)", whole, re.DOTALL | re.MULTILINE))
    assert set(tables) == set(TABLES)
    assert len(read_job(write(tmp_path, **tables)).query.windows) == 3
    for part in parts:
        name, changed = part.removeprefix("[").split("]\n", 1)
        sink = {} if "stream = true" in (changed if name == "source" else whole) else TABLES
        job = read_job(write(tmp_path, **{**tables, **sink, name: changed}))
        assert job.source.describe() in job.explain()


# What is told of a run


def test_an_error_of_spark_is_its_cause_on_one_line():
    text = """[STREAM_FAILED] Query [id = 1] terminated with exception: Return Message: Traceback:
  File "clientserver.py", line 644, in _call_proxy
pyspark.errors.exceptions.captured.PythonException: An exception was thrown from the Python worker:
Traceback (most recent call last):
ValueError: the time of row 0 is null
 SQLSTATE: 39000 SQLSTATE: XXKST
=== Streaming Query ===
SomeError: in the plan"""
    kind = type("StreamingQueryException", (Exception,), {"__module__": "pyspark.errors"})
    assert one_line(kind(text)) == "the time of row 0 is null"
    assert one_line(kind("[PATH_NOT_FOUND] no such path. SQLSTATE: 42K03\n'Project")) == (
        "[PATH_NOT_FOUND] no such path."
    )
    assert one_line(KeyboardInterrupt()) == "KeyboardInterrupt"


def test_micro_batches_add_up():
    totals = Totals()
    counted = {"windows": 3, "late": 2, "dropped": 1}
    metrics = [{"muntin": counted}, {"muntin": dict.fromkeys(counted)}, {}]
    for rows, observed in zip((1000, 500, 0), metrics, strict=True):
        told = {"numInputRows": rows, "processedRowsPerSecond": rows / 2}
        totals.add({**told, "observedMetrics": observed})
    assert str(totals) == ("3 micro-batches, 1,500 rows (250 rows/s), 3 windows, 2 late, 1 dropped")
    totals.add({"numInputRows": 0, "observedMetrics": {"muntin": {"bad_times": 7}}})
    assert str(totals).endswith("1 dropped, 7 without a time")


def test_progress_of_an_idle_stream_is_of_no_micro_batch():
    totals = Totals()
    idle = {"numInputRows": 0, "processedRowsPerSecond": 0.0, "durationMs": {"latestOffset": 1}}
    totals.add(idle)
    totals.add({"durationMs": {}})
    assert str(totals) == "0 micro-batches, 0 rows (0 rows/s), 0 windows, 0 late, 0 dropped"
    ran = {"numInputRows": 5, "durationMs": {"addBatch": 3}}
    totals.add(ran)
    assert (totals.micro_batches, totals.rows, totals.rows_per_second) == (1, 5, 0.0)


def test_a_micro_batch_that_was_idle_before_is_passed_on_once():
    """Idle progress has the number of the micro-batch to come."""
    told = [{"batchId": b, "timestamp": t} for b, t in [(0, "a"), (1, "b"), (1, "c"), (1, "d")]]
    seen, passed = None, []
    for upto in (1, 2, 2, 4):
        passed += behind(told[:upto], seen)
        seen = mark(told[upto - 1])
    assert passed == told
    assert behind(told[2:], mark(told[0])) == told[2:]  # the one seen last is too long ago


@pytest.fixture
def python_interrupts():
    """Let Ctrl-C do what it does in Python; a Spark session of other tests has a handler of its own."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("python_interrupts")
def test_the_first_interruption_is_noted_and_the_second_interrupts():
    for number in (signal.SIGINT, signal.SIGTERM):
        with interruptions() as interrupted:
            signal.raise_signal(number)
            assert interrupted.wait(HUNG_S)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.parametrize("verbose", [True, False])
def test_spark_is_heard_only_if_asked(monkeypatch, capfd, caplog, verbose):
    def start(settings):
        os.write(2, f"noise of {settings}".encode())  # as processes that inherit it do
        logging.getLogger("py4j").error("noise of a log")

    monkeypatch.setattr("muntin.spark.session", start)
    with silence(verbose):
        started({"a": 1}, verbose)
    os.write(2, b"|heard")
    assert capfd.readouterr().err == ("noise of {'a': 1}|heard" if verbose else "|heard")
    assert ("noise of a log" in caplog.text) == verbose
