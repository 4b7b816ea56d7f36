"""A strict little reader of Prometheus' text format 0.0.4: what is not exactly right is an error."""

import re
from typing import Final

Labels = frozenset[tuple[str, str]]

_NAME: Final = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_VALUE: Final = r'"((?:[^"\\\n]|\\\\|\\"|\\n)*)"'
_SAMPLE: Final = re.compile(rf"({_NAME})(?:\{{(.*)\}})? (-?[0-9.]+(?:e[+-]?[0-9]+)?)")
_LABEL: Final = re.compile(rf"([a-zA-Z_][a-zA-Z0-9_]*)={_VALUE}(,|$)")
_UNESCAPED: Final = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def parse(text: str) -> dict[str, dict[Labels, float]]:
    """The samples by metric and labels. Raises `ValueError`, naming the line."""
    assert text.endswith("\n")
    found: dict[str, dict[Labels, float]] = {}
    described, current = set[str](), ""
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            current = line.split(" ", 3)[2]
            _require(current not in described, line)
            described.add(current)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            _require(name == current and kind in ("gauge", "counter"), line)
            _require((kind == "counter") == name.endswith("_total"), line)
            found[name] = {}
        else:
            sample = _SAMPLE.fullmatch(line)
            _require(sample is not None and sample[1] == current, line)
            assert sample is not None
            labels = _labels(sample[2] or "")
            _require(labels not in found[current], line)
            found[current][labels] = float(sample[3])
    return found


def _labels(text: str) -> Labels:
    labels, at = [], 0
    while at < len(text):
        match = _LABEL.match(text, at)
        _require(match is not None, text)
        assert match is not None
        labels.append((match[1], re.sub(r"\\[\\\"n]", lambda escaped: _UNESCAPED[escaped[0]], match[2])))
        at = match.end()
    return frozenset(labels)


def _require(condition: bool, line: str) -> None:
    if not condition:
        raise ValueError(f"not in the text format of Prometheus: {line!r}")
