"""Every fuzz target for a fixed number of inputs, from a fixed seed, on a copy of its corpus."""

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
RUNS: Final = {
    "fuzz_openwire_codec": 40_000,
    "fuzz_openwire_fast": 10_000,
    "fuzz_openwire_protocol": 8_000,
    "fuzz_openwire_slots": 4_000,
    "fuzz_primitives": 40_000,
}
"""Inputs for each target: about six seconds of work each, and the same number on every machine, however busy it is."""
SECONDS_MAX: Final = 280

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
    assert list(RUNS) == TARGETS


@pytest.mark.timeout(300)
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
            f"-runs={RUNS[target]}",
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
        timeout=SECONDS_MAX,
        check=False,
    )
    assert finished.returncode == 0, report(target, finished.stdout, artifacts)
    executions = re.search(r"stat::number_of_executed_units:\s*(\d+)", finished.stdout)
    assert executions, finished.stdout[-2000:]
    assert int(executions[1]) >= RUNS[target]
