"""Sessions: settings for the machine, and none in the place of what the user has set."""

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ackwire.spark.session import cores, defaults, driver_memory_mb
from tests.helpers.quick_java import QUICK_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(("master", "expected"), [("local[3]", 3), ("local", 1), ("local-cluster[2,3,1024]", 6)])
def test_tasks_at_once_follow_from_the_master(master: str, expected: int) -> None:
    assert cores(master) == expected


def test_on_one_machine_everything_stays_on_loopback() -> None:
    for master in ("local[*]", "local-cluster[2,1,1024]", "spark://127.0.0.1:7077"):
        assert defaults(master)["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.host" not in defaults("spark://cluster:7077")
    assert "spark.driver.memory" not in defaults("spark://cluster:7077")
    assert "-XX:" in defaults("local[2]")["spark.driver.extraJavaOptions"]
    assert "-XX:" not in defaults("spark://cluster:7077")["spark.driver.extraJavaOptions"]


def test_the_driver_gets_a_quarter_of_the_machine_within_reason() -> None:
    assert 512 <= driver_memory_mb() <= 4096


def test_a_session_is_quiet_and_knows_its_source(spark: "SparkSession") -> None:
    conf = spark.sparkContext.getConf()
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert conf.get("spark.ui.enabled") == "false"
    assert conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert "log4j2.properties" in (conf.get("spark.driver.extraJavaOptions") or "")


def test_what_spark_submit_and_its_files_say_is_kept(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text("# ours\nspark.sql.session.timeZone  Europe/Lisbon\n")
    script = tmp_path / "job.py"
    script.write_text(
        "from ackwire.spark.session import session\n"
        "spark = session('not this name')\n"
        "conf = spark.sparkContext.getConf()\n"
        "for name in ('spark.app.name', 'spark.master', 'spark.sql.shuffle.partitions', 'spark.ui.enabled'):\n"
        "    print(name, conf.get(name))\n"
        "print('zone', spark.conf.get('spark.sql.session.timeZone'))\n"
        "spark.stop()\n"
    )
    environment = {**os.environ, **QUICK_JAVA, "SPARK_CONF_DIR": str(tmp_path), "PYSPARK_PYTHON": sys.executable}
    argv = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[1]", "--name", "this name"]
    argv += ["--conf", "spark.sql.shuffle.partitions=7", str(script)]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "spark.app.name this name",
        "spark.master local[1]",
        "spark.sql.shuffle.partitions 7",
        "spark.ui.enabled false",
        "zone Europe/Lisbon",
    ]
