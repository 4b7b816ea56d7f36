"""A strict little reader of Prometheus' text format 0.0.4: what is not exactly right is an error."""

import re
from typing import Final

Labels = frozenset[tuple[str, str]]

_NAME: Final = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_VALUE: Final = r'"((?:[^"\\\n]|\\\\|\\"|\\n)*)"'
_SAMPLE: Final = re.compile(rf"({_NAME})(?:\{{(.*)\}})? (-?[0-9.]+(?:e[+-]?[0-9]+)?)")
_LABEL: Final = re.compile(rf"([a-zA-Z_][a-zA-Z0-9_]*)={_VALUE}(,|$)")
_UNESCAPED: Final = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}

_PLAIN: Final[tuple[str, ...]] = ("",)
_HISTOGRAM: Final[tuple[str, ...]] = ("_bucket", "_sum", "_count")


def parse(text: str) -> dict[str, dict[Labels, float]]:
    """The samples by metric and labels. Raises `ValueError`, naming the line."""
    assert text.endswith("\n")
    found: dict[str, dict[Labels, float]] = {}
    described, current, ends = set[str](), "", _PLAIN
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            current = line.split(" ", 3)[2]
            _require(current not in described, line)
            described.add(current)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            _require(name == current and kind in ("gauge", "counter", "histogram"), line)
            _require((kind == "counter") == name.endswith("_total"), line)
            ends = _HISTOGRAM if kind == "histogram" else _PLAIN
            found.update((name + end, {}) for end in ends)
        else:
            sample = _SAMPLE.fullmatch(line)
            _require(sample is not None and sample[1] in [current + end for end in ends], line)
            assert sample is not None
            labels = _labels(sample[2] or "")
            _require(labels not in found[sample[1]], line)
            found[sample[1]][labels] = float(sample[3])
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
