"""src/ackwire/broker/README.md says what each module does."""

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "src" / "ackwire" / "broker"


def test_readme_names_every_module_once() -> None:
    named = re.findall(r"`([\w/]+\.py)`", (FOLDER / "README.md").read_text(encoding="utf-8"))
    modules = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.py") if path.name != "__init__.py"}
    assert sorted(named) == sorted(modules)
