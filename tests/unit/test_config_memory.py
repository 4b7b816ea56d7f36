"""Sizes as a percentage of the memory or of the disk there is, and how much that is."""

from decimal import Decimal
from pathlib import Path

import pytest

from ackwire.config import GIB, MIB, LimitSettings, Settings, load, problems, render, with_setting
from ackwire.config.memory import _cgroup_limits, memory_bytes
from ackwire.config.types import Share
from ackwire.config.wholes import disk_bytes, wholes_of_this_machine


def memory_bytes_max(tmp_path: Path, text: str, total_bytes: int) -> int:
    (tmp_path / "ackwire.toml").write_text(text)
    return load(tmp_path / "ackwire.toml", memory_bytes=total_bytes).limits.memory_bytes_max


# --- percentages ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("percentage", "size_bytes"),
    [("70 %", 7 * GIB), ("70%", 7 * GIB), (" 100 % ", 10 * GIB), ("12.5 %", 1280 * MIB), ("0.1 %", 10 * MIB)],
)
def test_percentage_is_resolved_when_the_file_is_read(tmp_path: Path, percentage: str, size_bytes: int) -> None:
    assert memory_bytes_max(tmp_path, f"limits.memory_bytes_max = '{percentage}'", 10 * GIB) == size_bytes


@pytest.mark.parametrize("text", ["", "[limits]\nwhen_full = 'fail'\n"])
def test_default_is_a_fifth_of_the_memory(tmp_path: Path, text: str) -> None:
    assert memory_bytes_max(tmp_path, text, 512 * MIB) == 102 * MIB
    assert memory_bytes_max(tmp_path, text, 10 * GIB) == 2 * GIB


def test_default_settings_use_the_memory_of_this_machine() -> None:
    assert LimitSettings().memory_bytes_max == Share(20, memory_bytes())
    assert Settings() == Settings()


def test_size_in_bytes_does_not_depend_on_the_memory(tmp_path: Path) -> None:
    assert memory_bytes_max(tmp_path, "limits.memory_bytes_max = '1 GiB'", MIB) == GIB


def test_share_is_whole_mebibytes_where_it_has_one() -> None:
    assert Share(50, 3 * MIB) == MIB
    assert Share(50, 100) == 50


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("0 %", 'must be above 0 and at most "100 %", and is "0 %"'),
        ("-5 %", 'must be above 0 and at most "100 %"'),
        ("101 %", 'must be above 0 and at most "100 %"'),
        ("0.01 %", 'must be from 16 KiB to 1024 GiB, and is "0.01 %", which is 0.01 % of 64.0 MiB'),
        ("%", 'like "64 KiB" or "100 MiB" or "20 %", and is "%"'),
        ("5 percent", 'unknown unit "percent" in "5 percent"; known units: B, KB, MB, GB, KiB, MiB, GiB, %'),
    ],
)
def test_wrong_percentages_are_told_what_they_must_be(value: str, message: str) -> None:
    (problem,) = problems(f"limits.memory_bytes_max = '{value}'", memory_bytes=64 * MIB)
    assert message in problem.message


def test_percentage_is_refused_where_it_would_mean_nothing() -> None:
    (problem,) = problems("wire.frame_bytes_max = '5 %'")
    assert 'unknown unit "%"' in problem.message


def test_rendered_percentage_stays_one_and_its_bytes_are_in_a_comment(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("limits.memory_bytes_max = '12.5 %'")
    text = render(load(tmp_path / "a.toml", memory_bytes=8 * GIB))
    assert '\nmemory_bytes_max = "12.5 %"  # 1 GiB (12.5 % of 8.0 GiB)\n' in text
    assert (
        '# Default: 20 %; range: 16 KiB to 1024 GiB; unit of a plain number: bytes; or a percentage like "70 %".'
        in (text.replace("\n# ", " ").replace(" Default: 20", "# Default: 20"))
    )
    (tmp_path / "b.toml").write_text(text)
    assert load(tmp_path / "b.toml", memory_bytes=16 * GIB).limits.memory_bytes_max == 2 * GIB, "of another machine"


def test_single_setting_may_be_a_percentage_of_this_machine() -> None:
    limit = with_setting(Settings(), "limits", "memory_bytes_max", "50 %").limits.memory_bytes_max
    assert isinstance(limit, Share)
    assert (limit.percent, limit.total_bytes) == (Decimal(50), memory_bytes())


# --- percentages of the disk -----------------------------------------------------------------------------


def test_B6_limits_of_the_stores_are_parts_of_the_disk_with_the_data_directory(tmp_path: Path) -> None:
    total_bytes = disk_bytes(str(tmp_path))
    (tmp_path / "a.toml").write_text(
        f"[store]\ndata = '{tmp_path}/not/yet'\n[limits]\nstore_bytes_max = '50 %'\nmemory_bytes_max = '50 %'\n"
    )
    limits = load(tmp_path / "a.toml", memory_bytes=8 * GIB).limits
    assert limits.memory_bytes_max == 4 * GIB
    assert limits.store_bytes_max == Share(50, total_bytes)
    assert limits.temp_bytes_max == Share(10, total_bytes)


def test_B6_default_limits_of_the_stores_leave_a_tenth_of_the_disk() -> None:
    limits, total_bytes = LimitSettings(), wholes_of_this_machine().disk_bytes
    assert (limits.store_bytes_max, limits.temp_bytes_max) == (Share(80, total_bytes), Share(10, total_bytes))


def test_another_data_directory_is_another_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ackwire.config.wholes.disk_bytes", lambda directory: 100 * len(directory) * MIB)
    settings = with_setting(Settings(), "limits", "temp_bytes_max", "1 GiB")
    moved = with_setting(settings, "store", "data", "/1234")
    assert moved.limits.store_bytes_max == 400 * MIB
    assert moved.limits.temp_bytes_max == GIB


def test_size_of_a_disk_is_known_before_the_directory_exists(tmp_path: Path) -> None:
    assert disk_bytes(str(tmp_path / "a" / "b")) == disk_bytes(str(tmp_path)) > MIB
    assert disk_bytes("\0") > 0


# --- how much there is ---------------------------------------------------------------------------------


def system(root: Path, groups: str, limits: dict[str, str]) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    for name, text in limits.items():
        file = root / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def test_memory_of_this_machine_is_known() -> None:
    assert memory_bytes() > 16 * MIB


def test_limits_of_a_control_group_and_those_above_it_are_found(tmp_path: Path) -> None:
    limits = {"a/b/memory.max": "300\n", "a/memory.max": "200\n", "other/memory.max": "1\n"}
    assert sorted(_cgroup_limits(system(tmp_path, "0::/a/b\n", limits))) == [200, 300]


def test_group_without_a_limit_says_max(tmp_path: Path) -> None:
    assert _cgroup_limits(system(tmp_path, "0::/a\n", {"a/memory.max": "max\n"})) == []


def test_container_that_sees_only_its_own_group_is_limited_by_it(tmp_path: Path) -> None:
    assert _cgroup_limits(system(tmp_path, "0::/\n", {"memory.max": "100"})) == [100]


def test_control_groups_of_version_1_are_understood(tmp_path: Path) -> None:
    groups = "4:cpu,memory:/docker/123\n3:cpuset:/x\n1:name=systemd:/a:b\n0::/\n"
    root = system(tmp_path, groups, {"memory/memory.limit_in_bytes": "500", "cpuset/memory.limit_in_bytes": "1"})
    assert _cgroup_limits(root) == [500]


def test_system_without_control_groups_has_no_limits(tmp_path: Path) -> None:
    assert _cgroup_limits(tmp_path) == []
