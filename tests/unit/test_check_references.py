"""`tools/check_references.py` finds each kind of reference that leads nowhere, and no other."""

from pathlib import Path

import pytest

from tools.check_references import Project, check, main, tracked

CODES = "## A. The model\n\n| code | behaviour |\n|---|---|\n| A1 | connections |\n| E | acks |\n"
FILES = {
    "docs/semantics.md": CODES,
    "docs/adr/0007-compiled.md": "# Compiled",
    "docs/wire.md": "# Wire\n\n## 5. How to begin\n",
    "src/ackwire/__init__.py": "from ackwire.broker import connect",
    "src/ackwire/broker/__init__.py": "",
    "src/ackwire/broker/queue.py": "",
    "pyproject.toml": '[project.entry-points."ackwire.transports"]',
    "Makefile": "test-fast: ready",
}


def found(path: Path, name: str, text: str) -> list[str]:
    """What is wrong with the files above and one more."""
    files = FILES | {name: text}
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text, encoding="utf-8")
    return [f"{it.path}:{it.line} {it.reference}" for it in check(Project(path, frozenset(files)))]


@pytest.mark.parametrize(
    "reference",
    [
        "[wire](docs/wire.md)",
        "[section](docs/wire.md#5-how-to-begin)",
        "[folder](docs/adr/)",
        "[elsewhere](https://example.org/none.md)",
        "`broker/queue.py`",
        "`queue.py`",
        "`make test-fast`",
        "`ackwire.broker.queue.Queue`",
        "`ackwire.connect`",
        "`ackwire.transports`",
        "`ackwire.toml`",
        "ADR 7",
        "wire.md §5",
        "(A1)",
        "SEMANTICS A, A1, E",
        "U+B7 and B-52 and 0xF0",
    ],
)
def test_what_leads_somewhere_is_left_alone(tmp_path: Path, reference: str) -> None:
    assert found(tmp_path, "README.md", reference) == []


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("[gone](docs/gone.md)", "docs/gone.md"),
        ("[gone](docs/wire.md#6-gone)", "docs/wire.md#6-gone"),
        ("`broker/gone.py`", "broker/gone.py"),
        ("`tests/gone/`", "tests/gone/"),
        ("`make gone`", "make gone"),
        ("`ackwire.gone.Queue`", "ackwire.gone.Queue"),
        ("ADR 7 and 8", "ADR 8"),
        ("wire.md §6", "wire.md §6"),
        ("(A2)", "A2"),
        ("SEMANTICS A, B", "B"),
        ("SEMANTICS.md", "SEMANTICS.md"),
        ("```\nbroker/queue.py → gone.py\n```", "gone.py"),
    ],
)
def test_what_leads_nowhere_is_found(tmp_path: Path, text: str, reference: str) -> None:
    assert [it.split(" ", 1)[1] for it in found(tmp_path, "README.md", text)] == [reference]


def test_comments_docstrings_and_names_of_tests_are_read(tmp_path: Path) -> None:
    source = '"""About `gone.py`\n\n(A1, A3)."""\n# ADR 9\nB2 = "A2"\n\n\ndef test_A1_B1_it() -> None:\n    pass\n'
    expected = [
        "tests/test_it.py:1 gone.py",
        "tests/test_it.py:3 A3",
        "tests/test_it.py:4 ADR 9",
        "tests/test_it.py:8 test_B1_",
    ]
    assert sorted(found(tmp_path, "tests/test_it.py", source)) == expected


def test_history_may_name_files_that_are_gone(tmp_path: Path) -> None:
    assert found(tmp_path, "CHANGELOG.md", "`broker/gone.py`") == []


def test_every_reference_of_this_project_leads_somewhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0, capsys.readouterr().out


def test_files_that_git_ignores_do_not_count() -> None:
    root = Path(__file__).resolve().parents[2]
    assert not any(it.startswith((".venv", "build/")) for it in tracked(root))
