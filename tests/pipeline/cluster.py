"""A standalone Spark cluster on loopback, of a master and some workers, each a process that is stopped by its pid."""

import os
import re
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from ackwire.spark.java import use_java
from tests.helpers.processes import ManagedProcess
from tests.pipeline.job import QUICK_START
from tests.pipeline.sessions import executors, kill_session

START_SECONDS_MAX = 120.0
_MASTER_PORT = re.compile(r"Starting Spark master at (?P<url>spark://\S+)")
_REGISTERED = re.compile(r"Successfully registered with master")


class Cluster:
    """A master, and workers with one core and a gigabyte each; gone at the end of the `with` block."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self._folder = folder
        self._workers = workers
        self._processes: list[ManagedProcess] = []
        self.url = ""

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def executors_count(self) -> int:
        """How many executors run now."""
        return sum(len(executors(process.pid)) for process in self._processes)

    def _start(self) -> None:
        master = self._run("master", "org.apache.spark.deploy.master.Master", "--port", "0")
        self.url = master.wait_for_line(_MASTER_PORT, START_SECONDS_MAX)["url"]
        workers = [self._worker(number) for number in range(1, self._workers + 1)]
        for worker in workers:
            worker.wait_for_line(_REGISTERED, START_SECONDS_MAX)

    def _worker(self, number: int) -> ManagedProcess:
        folder = self._folder / f"worker-{number}"
        arguments = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder), self.url)
        return self._run(f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *arguments)

    def _run(self, name: str, java_class: str, *arguments: str) -> ManagedProcess:
        """Start it in a session of its own, to which a worker's executors belong, too."""
        argv = ["setsid", "env", *_environment(self._folder), str(_spark_home() / "bin" / "spark-class"), java_class]
        argv += ["--host", "127.0.0.1", "--webui-port", "0", *arguments]
        process = ManagedProcess(argv, log_path=self._folder / f"{name}.log")
        self._processes.append(process)
        return process

    def _stop(self) -> None:
        for process in reversed(self._processes):
            try:
                process.stop()
            finally:
                kill_session(process.pid)
        self._processes.clear()


def _spark_home() -> Path:
    return Path(pyspark.__file__).parent


def _environment(folder: Path) -> list[str]:
    environment = dict(os.environ)
    java_home = use_java(environment)
    settings: dict[str, object] = {
        "JDK_JAVA_OPTIONS": QUICK_START,
        "SPARK_HOME": _spark_home(),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": folder / "local",
        "SPARK_DAEMON_MEMORY": "512m",
    }
    if java_home is not None:
        settings["JAVA_HOME"] = java_home
    return [f"{name}={value}" for name, value in settings.items()]
