"""Spark sessions with settings that suit the machine.

What is set already stays as it is: by the caller, by `spark-submit`, in `spark-defaults.conf` or in the environment.
On one machine (`local[*]`) everything listens on loopback only, logs are quiet and there is no web UI; a cluster is
given with `master="spark://…"` or `spark-submit --master`.
"""

import os
import re
import site
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import ackwire
from ackwire.spark.java import use_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER_MEMORY_MB_MAX: Final = 4096
"""More than this is seldom used, and the broker and Python workers want some, too."""

_FLAGS: Final = {"spark.master": "--master", "spark.driver.memory": "--driver-memory", "spark.app.name": "--name"}
"""How `PYSPARK_SUBMIT_ARGS` may say the same."""

_JVM_OPTIONS: Final = (
    "-XX:+IgnoreUnrecognizedVMOptions "
    "-XX:Tier4InvocationThreshold=60000 -XX:Tier4MinInvocationThreshold=10000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=600000"
)
"""Spark makes new code for each query, and Java would spend a third of the processor on optimising what runs for a
second: only what runs ten times as often as usual is worth that. And threads that share few cores with the work do
better with the collector that has no work of its own beside it."""

_ON_THIS_MACHINE: Final = re.compile(r"local(\[|-cluster\[|$)|spark://(127\.0\.0\.1|localhost)(:|$)")


def session(app_name: str = "ackwire", master: str | None = None, **conf: Any) -> "SparkSession":
    """Start Spark, or get the one that runs.

    *master* is Spark's: `local[2]`, `spark://host:7077`. Settings have dots in their names: pass them as
    `**{"spark.sql.shuffle.partitions": 8}`. Raises `NoJava` if the machine has no Java and no package brings one.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        use_java()  # else we are inside spark-submit, and its JVM runs already
    _prepare_workers()

    from pyspark.sql import SparkSession  # after JAVA_HOME is set

    chosen = {name: _text(value) for name, value in conf.items()}
    if master is not None:
        chosen["spark.master"] = master
    already = _already_set()
    builder = SparkSession.builder.appName(app_name) if "spark.app.name" not in already else SparkSession.builder
    where = chosen.get("spark.master") or already.get("spark.master") or "local[*]"
    for name, value in {**defaults(where), **chosen}.items():
        if name in chosen or name not in already:
            builder = builder.config(name, value)
    return builder.getOrCreate()


def defaults(master: str) -> dict[str, str]:
    """Our settings for a Spark at *master*."""
    settings = {
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": _text(sys.stderr.isatty()),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Else each call of a function asks Java five times where it was called, which is a quarter of a small job.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_log_settings().as_uri()}",
    }
    if path := os.environ.get("PYTHONPATH"):
        settings["spark.executorEnv.PYTHONPATH"] = path
    if _ON_THIS_MACHINE.match(master):
        settings |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": f"{settings['spark.driver.extraJavaOptions']} {_jvm_options()}",
            "spark.driver.memory": f"{driver_memory_mb()}m",
            "spark.sql.shuffle.partitions": str(cores(master)),
        }
    return settings


def _jvm_options() -> str:
    """Ours, without a garbage collector if the environment has chosen one: Java takes no two."""
    chosen = any("-XX:+Use" in os.environ.get(name, "") for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"))
    return _JVM_OPTIONS if chosen else f"{_JVM_OPTIONS} -XX:+UseParallelGC"


def cores(master: str = "local[*]") -> int:
    """How many tasks run at once in a Spark at *master* on this machine."""
    if match := re.match(r"local\[(\d+)", master):
        return int(match[1])
    if match := re.match(r"local-cluster\[(\d+),\s*(\d+)", master):
        return int(match[1]) * int(match[2])
    return 1 if master == "local" else len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else _cpus()


def driver_memory_mb() -> int:
    """A quarter of the machine, within reason."""
    total_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    return max(512, min(DRIVER_MEMORY_MB_MAX, total_mb // 4))


def _cpus() -> int:
    return os.cpu_count() or 1


def _prepare_workers() -> None:
    """Workers are the same Python, and find the same Ackwire."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    here = str(Path(ackwire.__file__).absolute().parents[1])
    known = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    if here not in known and here not in (*site.getsitepackages(), site.getusersitepackages()):
        os.environ["PYTHONPATH"] = os.pathsep.join([here, *known])


def _log_settings() -> Path:
    return Path(__file__).resolve().with_name("log4j2.properties")


def _already_set() -> dict[str, str]:
    """What `spark-submit`, a file or the environment have decided; a value may be unknown and then is empty."""
    from pyspark import SparkConf, SparkContext

    if "PYSPARK_GATEWAY_PORT" in os.environ:
        SparkContext._ensure_initialized()  # so that SparkConf sees what spark-submit was given
    known = {**_defaults_file(), **dict(SparkConf().getAll())}
    arguments = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    for name in {*defaults("local[*]"), *_FLAGS}:
        if re.search(rf"(^|\s|=){re.escape(name)}=", arguments) or f"{_FLAGS.get(name, name)} " in arguments:
            known.setdefault(name, "")
    if match := re.search(r"--master[ =](\S+)", arguments):
        known["spark.master"] = match[1]
    return known


def _defaults_file() -> dict[str, str]:
    """`spark-defaults.conf`, which Spark itself would let our settings override."""
    folder = os.environ.get("SPARK_CONF_DIR")
    if folder is None and "SPARK_HOME" in os.environ:
        folder = str(Path(os.environ["SPARK_HOME"]) / "conf")
    if folder is None:
        return {}
    try:
        lines = (Path(folder) / "spark-defaults.conf").read_text().splitlines()
    except OSError:
        return {}
    pairs = [re.split(r"[\s=]+", line.strip(), maxsplit=1) for line in lines if line.strip()[:1] not in ("", "#")]
    return {pair[0]: pair[1] if len(pair) > 1 else "" for pair in pairs}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
