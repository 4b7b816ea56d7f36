"""`tools/check_forbidden.py` finds each thing that this project does without, and nothing else."""

from pathlib import Path

import pytest

from tools.check_forbidden import check_tree, forbidden_in, main

ANYWHERE = [
    "import pickle",
    "import pickle as p",
    "from pickle import loads",
    "import _pickle",
    "import cPickle",
    "import dill",
    "import marshal",
    "from marshal import loads as read",
    "import shelve",
    "eval('1')",
    "run = eval",
    "exec('x = 1')",
    "import builtins; builtins.eval('1')",
    "from builtins import exec as run",
    "__import__('os')",
    "import importlib; importlib.import_module('os')",
    "import importlib as il; il.import_module('os')",
    "from importlib import import_module",
    "import importlib; importlib.__import__('os')",
    "import pkgutil; pkgutil.resolve_name('os.path')",
    "import runpy",
    "import yaml; yaml.load('')",
    "from yaml import unsafe_load",
    "def f():\n    import pickle",
]

CORE_ONLY = [
    "import asyncio",
    "from asyncio import Queue",
    "import asyncio.events",
    "import socket",
    "import ssl",
    "import time",
    "from time import monotonic",
    "import datetime; datetime.datetime.now()",
    "from datetime import datetime; datetime.utcnow()",
    "from datetime import date; date.today()",
    "import random; random.random()",
    "import random as r; r.choice([1])",
    "from random import randrange",
    "import random; random.SystemRandom()",
    "import random; random.Random()",
    "from random import Random; Random()",
    "import secrets",
    "import os; os.urandom(8)",
    "from uuid import uuid4",
]

ALLOWED = [
    "from . import marshal; marshal.loads(b'')",
    "from .marshal import loads; loads(b'')",
    "from ackwire.wire.openwire import marshal; marshal.loads(b'')",
    "self.eval('a > 1')",
    "selector.exec",
    "import importlib.metadata; importlib.metadata.version('x')",
    "import yaml; yaml.safe_load('')",
    "import random; random.Random(7).random()",
    "def shuffled(random): return random.random()",
    "from random import Random; Random(x=7)",
    "from ackwire.util.clock import Clock",
    "from datetime import timedelta",
    "'import pickle'",
]


@pytest.mark.parametrize("source", ANYWHERE)
@pytest.mark.parametrize("core", [True, False])
def test_data_never_becomes_code(source: str, core: bool) -> None:
    assert forbidden_in(source, Path("x.py"), core=core)


@pytest.mark.parametrize("source", CORE_ONLY)
def test_core_takes_time_chance_and_io_from_outside(source: str) -> None:
    assert forbidden_in(source, Path("x.py"), core=True)
    assert forbidden_in(source, Path("x.py"), core=False) == []


@pytest.mark.parametrize("source", ALLOWED)
def test_what_only_looks_similar_is_allowed(source: str) -> None:
    assert forbidden_in(source, Path("x.py"), core=True) == []


def test_each_find_names_file_line_and_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("src/ackwire/wire/stomp", "src/ackwire/server", "tests/unit"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "src/ackwire/wire/stomp/frames.py").write_text("import re\nimport asyncio\n")
    (tmp_path / "src/ackwire/server/peer.py").write_text("import asyncio\n")
    (tmp_path / "tests/unit/test_x.py").write_text("\n\nimport pickle\n")

    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "src/ackwire/wire/stomp/frames.py:2: asyncio: input and output belong to ackwire.server",
        "tests/unit/test_x.py:3: pickle: turns data into code",
    ]


def test_a_clean_tree_passes_in_silence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_tree(tmp_path) == []
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == ""
