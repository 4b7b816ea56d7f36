"""The pass on the compiled package leaves out packages in which nothing is compiled: their code is the same there."""

from pathlib import Path

from ackwire.compilation import compiled_modules

_COMPILED = {name.split(".")[1] for name in compiled_modules()}

collect_ignore = [
    it.name
    for it in (Path(__file__).parent.iterdir() if _COMPILED else ())
    if it.name not in _COMPILED and it.name != Path(__file__).name
]
