"""`tools/async_to_sync.py` makes blocking code of asynchronous code, and refuses what it cannot."""

import ast
from pathlib import Path

import pytest

from tools.async_to_sync import COPIES, SOURCES, CannotTranslate, main, to_sync

TRANSLATED = [
    ("async def f(): pass", "def f(): pass"),
    ("async   def f(): pass", "def f(): pass"),
    ("async def f():\n    return await g()", "def f():\n    return g()"),
    ("async def f():\n    await g()  # it waits\n", "def f():\n    g()  # it waits\n"),
    ("async def f():\n    return [await x for x in y]", "def f():\n    return [x for x in y]"),
    ("async def f():\n    return [x async for x in y]", "def f():\n    return [x for x in y]"),
    ("async def f():\n    async with a as b, c: pass", "def f():\n    with a as b, c: pass"),
    ("async def f():\n    async for x in y: pass", "def f():\n    for x in y: pass"),
    ("async def f():\n    return (await g.h(1)[2]).i", "def f():\n    return  g.h(1)[2].i"),
    ("async def f():\n    return(await g)", "def f():\n    return g"),
    ("async def f():\n    return (await g(await h)) + 1", "def f():\n    return  g(h) + 1"),
    ("async def f():\n    return (await g or 1) + g(await h)", "def f():\n    return (g or 1) + g(h)"),
    ("async def f():\n    return (await g, 1), g[0](await h)", "def f():\n    return (g, 1), g[0](h)"),
    ("async def __aenter__(self): pass", "def __enter__(self): pass"),
    ("async def __aexit__(self): pass", "def __exit__(self): pass"),
    ("def __aiter__(self): pass", "def __iter__(self): pass"),
    ("async def __anext__(self):\n    raise StopAsyncIteration", "def __next__(self):\n    raise StopIteration"),
    ("x: AsyncIterator[int]", "x: Iterator[int]"),
    ("x: AsyncGenerator[int, list[str]]", "x: Generator[int, list[str], None]"),
    ("x: AsyncGenerator[int, Awaitable[str]]", "x: Generator[int, str, None]"),
    ("async def f():\n    async with aclosing(x): pass", "def f():\n    with closing(x): pass"),
    ("x: Callable[[int, str], Awaitable[None]]", "x: Callable[[int, str], None]"),
    ("x: Awaitable[dict[str, int]]", "x: dict[str, int]"),
    ("x: Awaitable[\n    int,\n]\ny = 1", "x: int\ny = 1"),
    ("x: Awaitable[Awaitable[AsyncIterator[int]]]", "x: Iterator[int]"),
    ("x: list[Coroutine[Any, Any, dict[str, int]]]", "x: list[dict[str, int]]"),
    ('x: "Awaitable[AsyncIterator[int]]"', 'x: "Iterator[int]"'),
    ('def f(é: "é", x: "list[Awaitable[int]]") -> "Awaitable[X]": pass', 'def f(é: "é", x: "list[int]") -> "X": pass'),
    ("import ackwire.client.aio.session", "import ackwire.client.sync.session"),
    ("from ackwire.client.aio import session", "from ackwire.client.sync import session"),
    ('log("ackwire.client.aio.session")', 'log("ackwire.client.sync.session")'),
    ('"""See ackwire.aio.connect."""', '"""See ackwire.connect."""'),
    ("# ackwire.client.aio has an AsyncIterator\n", "# ackwire.client.sync has an Iterator\n"),
    (
        '"""\nfrom ackwire import aio\nasync with aio.connect() as c:\n    await c.start()\n"""',
        '"""\nimport ackwire\nwith ackwire.connect() as c:\n    c.start()\n"""',
    ),
    ('f"a {x} of ackwire.aio {AsyncIterator!r}"', 'f"a {x} of ackwire {Iterator!r}"'),
    ('async def f():\n    return f"{await g.h()}"', 'def f():\n    return f"{g.h()}"'),
    ("awaiting = async_send = 1", "awaiting = async_send = 1"),
    ('"""They await an answer, and are async."""', '"""They await an answer, and are async."""'),
    ("a = 1\n# [async only]\nimport asyncio\n\n# [end]\nb = 2\n", "a = 1\nb = 2\n"),
    ("import asyncio  # [async only]\nb = 2\n", "b = 2\n"),
    ("def f():\n    # [sync only] return 1\n", "def f():\n    return 1\n"),
    ("# [sync only] if a:\n# [sync only]     b = 1\n", "if a:\n    b = 1\n"),
    (
        '"""One.\n\n# [async only]\nOn asyncio.\n# [end]\n# [sync only] In a thread.\n"""',
        '"""One.\n\nIn a thread.\n"""',
    ),
]

REFUSED = [
    ("a = 1\n# [async only]\nb = 2\n", r"line 2: \[async only\] without \[end\]"),
    ("a = 1\n# [end]\n", r"line 2: \[end\] without"),
    ("# [async only]\n# [async only]\n# [end]\n", "line 2: .* inside the one of line 1"),
    ("def f():\n    # [async only]\n    pass\n    # [end]\n", "no Python any more"),
    ("a = 1\nx: AsyncGenerator[int]\n", "line 2: AsyncGenerator has 1 parameters, not 2"),
    ("x: Coroutine[int]\n", "line 1: Coroutine has 1 parameters, not 3"),
    ("import asyncio\n", "line 1 of the copy uses asyncio"),
    ("from asyncio import sleep\n", "line 1 of the copy uses asyncio"),
    ("a = 1\nasyncio.sleep(0)\n", "line 2 of the copy uses asyncio"),
    ("from ackwire.client import aio\n", "line 1 of the copy uses aio"),
    ('async def f():\n    return f"{await g}"\n', "line 2 of the copy is asynchronous still"),
]


@pytest.mark.parametrize(("source", "expected"), TRANSLATED)
def test_translates(source: str, expected: str) -> None:
    assert to_sync(source) == expected
    ast.parse(expected)


@pytest.mark.parametrize(("source", "reason"), REFUSED)
def test_refuses(source: str, reason: str) -> None:
    with pytest.raises(CannotTranslate, match=reason):
        to_sync(source)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    sources = tmp_path / SOURCES
    sources.mkdir(parents=True)
    (sources / "__init__.py").write_text("from ackwire.client.aio.one import f\n")
    (sources / "runtime.py").write_text("import asyncio\n")
    (sources / "one.py").write_text(
        "from typing import Any\n"
        "from collections.abc import AsyncIterator, Callable, Coroutine, Iterator\n"
        "x: Callable[[AsyncIterator[int]], Coroutine[Any, Any, Iterator[str]]]\n"
        "async def f():\n"
        "  await g( )  # a comment\n"
    )
    return tmp_path


def test_writes_formatted_copies_without_needless_imports(root: Path) -> None:
    assert main([], root) == 0
    copies = root / COPIES
    assert sorted(path.name for path in copies.iterdir()) == ["__init__.py", "one.py"]
    assert (copies / "one.py").read_text() == (
        "# generated from src/ackwire/client/aio/one.py by tools/async_to_sync.py; change that\n"
        "from collections.abc import Callable, Iterator\n"
        "\n"
        "x: Callable[[Iterator[int]], Iterator[str]]\n"
        "\n"
        "\n"
        "def f():\n"
        "    g()  # a comment\n"
    )
    assert "from ackwire.client.sync.one import f" in (copies / "__init__.py").read_text()
    assert main(["--check"], root) == 0


def test_check_names_what_is_stale_and_the_remedy(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([], root)
    (root / SOURCES / "one.py").write_text("async def other(): pass\n")
    (root / COPIES / "gone.py").write_text("")
    assert main(["--check"], root) == 1
    told = capsys.readouterr().err
    assert "src/ackwire/client/sync/one.py" in told
    assert "src/ackwire/client/sync/gone.py" in told
    assert "__init__" not in told
    assert "make sync_copy" in told
    assert main([], root) == 0
    assert not (root / COPIES / "gone.py").exists()
    assert main(["--check"], root) == 0


def test_a_missing_copy_is_stale(root: Path) -> None:
    assert main(["--check"], root) == 1
    assert not (root / COPIES).exists()


def test_takes_single_files(root: Path) -> None:
    one = str(root / SOURCES / "one.py")
    assert main([one], root) == 0
    assert [path.name for path in (root / COPIES).iterdir()] == ["one.py"]
    assert main(["--check", one], root) == 0
    assert main(["--check"], root) == 1


@pytest.mark.parametrize("name", ["runtime.py", "none.py"])
def test_files_without_a_generated_copy_are_refused(root: Path, name: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([str(root / SOURCES / name)], root)


def test_what_cannot_be_translated_is_named_and_nothing_is_written(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / SOURCES / "two.py").write_text("import asyncio\n")
    assert main([], root) == 1
    assert "src/ackwire/client/aio/two.py: line 1 of the copy uses asyncio" in capsys.readouterr().err
    assert not (root / COPIES).exists()
