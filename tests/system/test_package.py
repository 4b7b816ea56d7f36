"""What pip makes of the package: its metadata, what a build needs, and which kind of wheel it is.

The hooks that pip calls run on a copy of the files that decide this, with one module instead of 300.
"""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system
ROOT = Path(__file__).parents[2]
COMPILER = "mypy"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "src/ackwire/__init__.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def wheel(source: Path) -> Path:
    return source / str(hook(source, "build_wheel", "."))


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("/METADATA")]
        return HeaderParser().parsestr(archive.read(name).decode())


def hook(source: Path, name: str, *arguments: str, compile_: str | None = None) -> Any:
    """What a hook of the build backend answers."""
    code = f"import json; from setuptools import build_meta as b; print(json.dumps(b.{name}{arguments!r}))"
    environment = {key: value for key, value in os.environ.items() if key != "ACKWIRE_COMPILE"}
    if compile_ is not None:
        environment["ACKWIRE_COMPILE"] = compile_
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=source, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_an_installation_compiles_nothing_unless_it_is_asked_to(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")


@pytest.mark.parametrize("compile_", [None, "0", ""])
def test_a_compiler_is_needed_only_to_compile(source: Path, compile_: str | None) -> None:
    needed = hook(source, "get_requires_for_build_wheel", compile_=compile_)
    assert [it for it in needed if it.startswith(COMPILER)] == []
    asked = hook(source, "get_requires_for_build_wheel", compile_="1")
    assert [it for it in asked if it.startswith(COMPILER)] != []


def test_a_client_depends_on_nothing_and_every_extra_brings_something(metadata: Message) -> None:
    needed = metadata.get_all("Requires-Dist", [])
    assert all("extra ==" in it for it in needed)
    extras = metadata.get_all("Provides-Extra", [])
    assert {"broker", "http", "export", "audit", "spark"} <= set(extras)
    empty = [extra for extra in extras if not any(f'extra == "{extra}"' in it for it in needed)]
    assert empty == []


@pytest.mark.parametrize(
    "field",
    ["Summary", "Author", "Maintainer", "License-Expression", "License-File", "Keywords", "Requires-Python"],
)
def test_metadata_has(metadata: Message, field: str) -> None:
    assert metadata[field]


def test_metadata_tells_where_to_read_on(metadata: Message) -> None:
    urls = dict(str(it).split(", ", 1) for it in metadata.get_all("Project-URL", []))
    assert {"Homepage", "Documentation", "Changelog", "Issues"} <= set(urls)
    assert metadata.get_all("Classifier")
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "# Ackwire" in str(metadata.get_payload())
