"""Every fuzz target for a bounded time, from a fixed seed, on a copy of its corpus."""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
TARGETS: Final = sorted(path.stem for path in (ROOT / "fuzz").glob("fuzz_*.py"))
SECONDS: Final = 8
EXECUTIONS_MIN: Final = 500
"""A target that runs slower than this tests nothing worth the time."""

pytestmark = pytest.mark.fuzz


def fuzzer_command(target: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", f"fuzz.{target}", *arguments]


def report(target: str, output: str, artifacts: Path) -> str:
    """What to do with a finding: the input as hex, and how to see it again."""
    lines = [f"{target} found an input that fails", output[-4000:]]
    for path in sorted(artifacts.iterdir()):
        data = path.read_bytes()
        lines += [
            f"input ({len(data)} bytes): {data.hex()}",
            f"replay: echo {data.hex()} | xxd -r -p > input && python -m fuzz.{target} input",
        ]
    return "\n".join(lines)


def test_there_is_a_target_for_every_parser() -> None:
    parsers = ["openwire_codec", "openwire_fast", "openwire_protocol", "openwire_slots", "primitives"]
    assert [f"fuzz_{parser}" for parser in parsers] == TARGETS


@pytest.mark.timeout(180)
@pytest.mark.parametrize("target", TARGETS)
def test_target_finds_nothing(target: str, tmp_path: Path) -> None:
    if find_spec("atheris") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("atheris is not installed: install the dev extra")
        pytest.skip("atheris, the fuzzer, is not installed (it has wheels for Linux only)")
    corpus, artifacts = tmp_path / "corpus", tmp_path / "artifacts"
    shutil.copytree(ROOT / "fuzz" / "corpus" / target, corpus)
    artifacts.mkdir()
    finished = subprocess.run(
        fuzzer_command(
            target,
            str(corpus),
            f"-max_total_time={SECONDS}",
            "-rss_limit_mb=1024",
            "-malloc_limit_mb=512",
            "-timeout=10",
            "-max_len=4096",
            "-seed=20240501",
            "-print_final_stats=1",
            f"-artifact_prefix={artifacts}/",
        ),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=150,
        check=False,
    )
    assert finished.returncode == 0, report(target, finished.stdout, artifacts)
    executions = re.search(r"stat::number_of_executed_units:\s*(\d+)", finished.stdout)
    assert executions, finished.stdout[-2000:]
    print(f"{target}: {executions[1]} executions in {SECONDS} seconds")
    assert int(executions[1]) >= EXECUTIONS_MIN
