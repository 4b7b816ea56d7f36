"""Check that every reference within the project resolves: `python tools/check_references.py [ROOT]`.

* In Markdown: relative links with their anchors, and modules in pictures.
* In Markdown, and in comments and docstrings of Python: `ADR n`, the codes of docs/semantics.md (`A2`), `name.md §n`,
  and in backticks paths, modules and make's targets. In tests also the codes in names: `test_A2_…`.

Prints `file:line: what: why` for each reference that leads nowhere, and exits 1.
"""

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final

CODES: Final = "docs/semantics.md"
HISTORY: Final = ("CHANGELOG.md", "bench/results/")
"""They say what was: files that they name may be gone. Their links are followed all the same."""
FOLDERS: Final = "src|tests|tools|docs|bench|fuzz|examples"

LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
BACKTICKS: Final = re.compile(r"`([^`\n]+)`")
PATH: Final = re.compile(rf"[\w.][\w./-]*\.(?:py|md|sh|java)|(?:{FOLDERS})/[\w./-]*")
MODULE: Final = re.compile(r"ackwire((?:\.(?!toml\b)\w+)+)")
IN_PICTURE: Final = re.compile(r"[\w/-]+\.py\b")
TARGET: Final = re.compile(r"make ([a-z-]+)\b.*")
DECISION: Final = re.compile(r"\bADRs? (\d+(?:(?:,? and |, |–)\d+)*)")
SECTION: Final = re.compile(r"\b([\w./-]+\.md)\)? §(\d+)")
CITED: Final = re.compile(r"\bSEMANTICS((?:[,–]? ?[A-N]\d?\b)+)")
CODE: Final = re.compile(r"(?<![\w+.§\"'/-])([A-N]\d)(?![\w\"'/])")
IN_NAME: Final = re.compile(r"\bdef test_((?:[A-N]\d*_)+)")
FOREIGN: Final = re.compile(r"\b(?:SEMANTICS|DESIGN|STYLE|HOUSE)\.md\b|\bDESIGN\b(?=[: ]\d|: )")


@dataclass(frozen=True, slots=True, order=True)
class Dangling:
    """A reference that leads nowhere."""

    path: str
    line: int
    reference: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reference}: {self.reason}"


class Project:
    """What can be referred to: files, folders, decisions, sections, codes of behaviours, make's targets."""

    def __init__(self, root: Path, files: frozenset[str]) -> None:
        self.root = root
        self.files = files

    def text(self, file: str) -> str:
        return (self.root / file).read_text(encoding="utf-8") if file in self.files else ""

    @cached_property
    def endings(self) -> frozenset[str]:
        """Every file and folder by its path, and by each end of that: `queue.py`, `broker/queue.py`, …"""
        paths = {PurePosixPath(file) for file in self.files}
        paths |= {parent for path in paths for parent in path.parents}
        return frozenset("/".join(path.parts[start:]) for path in paths for start in range(len(path.parts)))

    @cached_property
    def decisions(self) -> frozenset[int]:
        return frozenset(int(found[1]) for file in self.files if (found := re.match(r"docs/adr/(\d{4})-", file)))

    @cached_property
    def codes(self) -> frozenset[str]:
        """The codes of the table, and the letters of its sections."""
        return frozenset(re.findall(r"^(?:\| |## )([A-N]\d?)(?: \||\.)", self.text(CODES), re.M))

    @cached_property
    def targets(self) -> frozenset[str]:
        return frozenset(re.findall(r"^([a-z-]+):", self.text("Makefile"), re.M))

    def has_module(self, names: list[str]) -> bool:
        """Whether `ackwire.` and *names* lead to a package, a module, a name in one, or a group of entry points."""
        if f'entry-points."ackwire.{".".join(names)}"' in self.text("pyproject.toml"):
            return True
        package = "src/ackwire"
        for name in names:
            if f"{package}/{name}.py" in self.files:
                return True
            if f"{package}/{name}/__init__.py" not in self.files:
                return bool(re.search(rf"\b{name}\b", self.text(f"{package}/__init__.py")))
            package = f"{package}/{name}"
        return True

    def sections(self, document: str) -> frozenset[str]:
        """The numbers of its headings."""
        file = next((it for it in sorted(self.files) if f"/{it}".endswith(f"/{document}")), "")
        return frozenset(re.findall(r"^#+ (\d+)\. ", self.text(file), re.M))

    def anchors(self, file: str) -> frozenset[str]:
        """The headings as a link names them."""
        headings = re.findall(r"^#+ (.*)$", self.text(file), re.M)
        return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)


def check(project: Project) -> list[Dangling]:
    """Every reference of *project* that leads nowhere."""
    found: set[Dangling] = set()
    for file in sorted(project.files):
        if file.endswith(".md"):
            found.update(_in_markdown(project, file))
        elif file.endswith(".py"):
            found.update(_in_python(project, file))
    return sorted(found)


def _in_markdown(project: Project, file: str) -> Iterator[Dangling]:
    fence = ""
    for number, line in enumerate(project.text(file).splitlines(), 1):
        if line.lstrip().startswith("```"):
            fence = "" if fence else line.strip()
        wrong = [*_links(project, file, line), *_mentions(project, line)]
        if file != CODES and not file.startswith(HISTORY):
            wrong += _in_picture(project, line) if fence == "```" else _paths(project, line)
        yield from (Dangling(file, number, reference, reason) for reference, reason in wrong)


def _in_python(project: Project, file: str) -> Iterator[Dangling]:
    source = project.text(file)
    for number, text in _prose(source):
        for offset, line in enumerate(text.splitlines()):
            wrong = [*_mentions(project, line), *_paths(project, line)]
            yield from (Dangling(file, number + offset, reference, reason) for reference, reason in wrong)
    if file.startswith("tests/"):
        for found in IN_NAME.finditer(source):
            unknown = [code for code in found[1].rstrip("_").split("_") if code not in project.codes]
            number = source.count("\n", 0, found.start()) + 1
            yield from (Dangling(file, number, f"test_{code}_", f"not in {CODES}") for code in unknown)


def _prose(source: str) -> Iterator[tuple[int, str]]:
    """Comments and docstrings, each with its first line's number."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and token.string.startswith('"""')):
            yield token.start[0], token.string


Wrong = Iterator[tuple[str, str]]
"""References that lead nowhere, with the reason."""


def _links(project: Project, file: str, line: str) -> Wrong:
    for found in LINK.finditer(line):
        path, _, anchor = found[1].partition("#")
        if ":" in path:
            continue
        target = _joined(PurePosixPath(file).parent, path) if path else file
        if target not in project.files and not any(it.startswith(f"{target}/") for it in project.files):
            yield found[1], "no such file"
        elif anchor and anchor not in project.anchors(target):
            yield found[1], "no such heading"


def _joined(folder: PurePosixPath, path: str) -> str:
    parts: list[str] = list(folder.parts)
    for part in PurePosixPath(path).parts:
        if part != "..":
            parts.append(part)
        elif parts:
            parts.pop()
    return "/".join(parts)


def _paths(project: Project, line: str) -> Wrong:
    for found in BACKTICKS.finditer(line):
        path = found[1].partition("::")[0].removeprefix("../").strip("/")
        if PATH.fullmatch(path) and path not in project.endings:
            yield found[1], "no such file"
        if (target := TARGET.fullmatch(found[1])) and target[1] not in project.targets:
            yield found[1], "no such target"

        if (module := MODULE.fullmatch(found[1])) and not project.has_module(module[1].split(".")[1:]):
            yield found[1], "no such module or name"


def _in_picture(project: Project, line: str) -> Wrong:
    return (
        (path, "no such file") for path in IN_PICTURE.findall(line) if path.removeprefix("/") not in project.endings
    )


def _mentions(project: Project, line: str) -> Wrong:
    for found in DECISION.finditer(line):
        for number in re.findall(r"\d+", found[1]):
            if int(number) not in project.decisions:
                yield f"ADR {number}", "no such file in docs/adr"
    for found in SECTION.finditer(line):
        if found[2] not in project.sections(found[1]):
            yield found[0], "no such section"
    for found in FOREIGN.finditer(line):
        yield found[0], "no document of this project"
    cited = {code for found in CITED.finditer(line) for code in re.findall(r"[A-N]\d?", found[1])}
    for code in sorted(cited | set(CODE.findall(line))):
        if code not in project.codes:
            yield code, f"not in {CODES}"


def tracked(root: Path) -> frozenset[str]:
    """The files that git knows and that are there."""
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, check=True)
    return frozenset(name for name in names.stdout.decode().splitlines() if (root / name).is_file())


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    found = check(Project(root, tracked(root)))
    for dangling in found:
        print(dangling)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
