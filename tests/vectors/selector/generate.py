"""Ask ActiveMQ what selectors mean, and write its answers down: `python tests/vectors/selector/generate.py`.

Needs a JDK and Debian's libactivemq-java. Reads table.json, whose selectors are chosen by hand, and fills in what
ActiveMQ answers; makes up random.json from a seed. With `--compare COUNT` it asks about COUNT more random selectors
and prints where Ackwire answers differently, writing nothing.
"""

import argparse
import base64
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.vectors.selector.answers import Properties, answers, is_departure

HERE = Path(__file__).parent
JARS = ("activemq-client", "geronimo-jms_1.1_spec", "geronimo-j2ee-management-1.1-spec", "hawtbuf", "slf4j-api")
CLASSPATH = ":".join(f"/usr/share/java/{jar}.jar" for jar in JARS)
SEED = 20260101
RANDOM_COUNT = 1500

# ------------------------------------------------------------------------------------------------ ActiveMQ


def ask(groups: Sequence[tuple[Sequence[Properties], Sequence[str]]]) -> list[str]:
    """ActiveMQ's answers to each selector of each group, over the group's messages."""
    lines = []
    for messages, selectors in groups:
        lines += ["clear", *map(_message_line, messages), *(f"selector {_field(text)}" for text in selectors)]
    with tempfile.TemporaryDirectory() as classes:
        subprocess.run(["javac", "-d", classes, "-cp", CLASSPATH, str(HERE / "Evaluate.java")], check=True)
        command = ["java", "-cp", f"{classes}:{CLASSPATH}", "Evaluate"]
        done = subprocess.run(command, input="\n".join(lines), stdout=subprocess.PIPE, check=True, text=True)
    return done.stdout.split()


def _message_line(properties: Properties) -> str:
    fields = [f"{_field(name)} {kind} {_field(text)}" for name, (kind, text) in properties.items()]
    return " ".join(["message", *fields])


def _field(text: str) -> str:
    return "." + base64.b64encode(text.encode()).decode()


# ---------------------------------------------------------------------------------- random messages and selectors

NAMES = "abcdefgh"
VALUES = {
    "string": ["red", "", "a", "5", "5.0", "true", "re_d%", "été", "\U0001f600", "\uffee", "a\nb", "aab", "-7", " 5 "],
    "boolean": ["true", "false"],
    "byte": ["5", "-128", "0", "127"],
    "short": ["5", "-32768", "300"],
    "int": ["5", "0", "-7", "2147483647", "-2147483648", "16777217"],
    "long": ["5", "0", "-7", "4294967296", "9223372036854775807", "-9223372036854775808", "16777217"],
    "float": ["5.0", "0.1", "-0.0", "NaN", "Infinity", "1.6777216E7", "3.4028235E38", "1.0E-5"],
    "double": ["5.0", "0.1", "-0.0", "0.0", "NaN", "-Infinity", "1.0E10", "2.5", "9.223372036854776E18"],
    "char": ["a", "5"],
}
NUMBERS = ["5", "0", "7", "2147483647", "2147483648", "9223372036854775807", "5L", "0x5", "0xFFFFFFFF", "010", "0.1"]
NUMBERS += ["5.", ".5", "1E3", "1e400", "5.0", "16777217", "4294967296", "2.5"]
TEXTS = ["'red'", "''", "'a'", "'5'", "'re_d%'", "'true'", "'it''s'", "'5.0'", "'été'"]
PATTERNS = ["'%'", "'r%'", "'%d'", "'_ed'", "'%e%'", "'re\\_d\\%' ESCAPE '\\'", "''", "'a%b'", "'a_b'", "'%a%b'", "'_'"]
PATTERNS += ["'x%%' ESCAPE 'x'", "'rxd' ESCAPE 'x'", "'a%%' ESCAPE '%'", "'.*'", "'[a]'", "'5%0'"]
Maker = Callable[[random.Random, int], str]


def random_message(rng: random.Random) -> Properties:
    present = rng.sample(NAMES, rng.randint(3, len(NAMES)))
    kinds = [(name, rng.choice(list(VALUES))) for name in present]
    return {name: (kind, rng.choice(VALUES[kind])) for name, kind in kinds}


def any_expression(rng: random.Random, depth: int) -> str:
    """Mostly what ActiveMQ takes, now and then what it refuses."""
    if rng.random() < 0.06:
        return value(rng, depth)
    return condition(rng, depth)


def condition(rng: random.Random, depth: int) -> str:
    if depth <= 0:
        return str(rng.choice([*NAMES, "TRUE", "FALSE", "NULL"]))
    makers: list[Maker] = [_logic, _not, _compare, _compare, _equal, _equal, _between, _in, _like, _null, _parentheses]
    return rng.choice(makers)(rng, depth - 1)


def value(rng: random.Random, depth: int) -> str:
    if depth <= 0 or rng.random() < 0.45:
        return rng.choice([rng.choice(NAMES), rng.choice(NAMES), rng.choice(NUMBERS), rng.choice(TEXTS)])
    makers: list[Maker] = [_arithmetic, _arithmetic, _sign]
    return rng.choice(makers)(rng, depth - 1)


def number(rng: random.Random, depth: int) -> str:
    if rng.random() < 0.05:
        return value(rng, depth)
    if depth <= 0 or rng.random() < 0.5:
        return rng.choice([rng.choice(NAMES), rng.choice(NUMBERS)])
    makers: list[Maker] = [_arithmetic, _sign]
    return rng.choice(makers)(rng, depth - 1)


def _logic(rng: random.Random, depth: int) -> str:
    word = rng.choice([" AND ", " or "])
    return word.join(condition(rng, depth) for _ in range(rng.randint(2, 3)))


def _not(rng: random.Random, depth: int) -> str:
    return rng.choice([f"NOT ({condition(rng, depth)})", f"NOT {condition(rng, depth)}"])


def _compare(rng: random.Random, depth: int) -> str:
    return f"{number(rng, depth)} {rng.choice(['<', '<=', '>', '>='])} {number(rng, depth)}"


def _equal(rng: random.Random, depth: int) -> str:
    sides = [rng.choice([value, value, value, condition])(rng, depth) for _ in range(2)]
    return f"{sides[0]} {rng.choice(['=', '<>'])} {sides[1]}"


def _between(rng: random.Random, depth: int) -> str:
    return f"{number(rng, depth)} {rng.choice(['', 'NOT '])}BETWEEN {number(rng, depth)} AND {number(rng, depth)}"


def _in(rng: random.Random, _depth: int) -> str:
    return f"{rng.choice(NAMES)} {rng.choice(['', 'NOT '])}IN ({', '.join(rng.choices(TEXTS, k=rng.randint(1, 6)))})"


def _like(rng: random.Random, depth: int) -> str:
    return f"{value(rng, depth)} {rng.choice(['', 'not '])}LIKE {rng.choice(PATTERNS)}"


def _null(rng: random.Random, depth: int) -> str:
    return f"{rng.choice([value, condition])(rng, depth)} IS {rng.choice(['', 'NOT '])}NULL"


def _parentheses(rng: random.Random, depth: int) -> str:
    return f"({condition(rng, depth)})"


def _arithmetic(rng: random.Random, depth: int) -> str:
    text = f"{value(rng, depth)} {rng.choice('+-*/%')} {value(rng, depth)}"
    return f"({text})" if rng.random() < 0.4 else text


def _sign(rng: random.Random, depth: int) -> str:
    return f"{rng.choice('+-')} {value(rng, depth)}"


def soup(rng: random.Random, length: int) -> str:
    """Tokens in any order."""
    tokens = [*NAMES, *NUMBERS, *TEXTS, *"=<>+-*/%(),", "<>", "<=", "AND", "OR", "NOT", "IN", "LIKE", "IS", "NULL"]
    tokens += ["BETWEEN", "ESCAPE", "TRUE", "--", "/*", "*/", "\n", "\t", ".", "'", "0", "9", "L", "E", "x"]
    return rng.choice(["", " "]).join(rng.choices(tokens, k=length))


def random_selector(rng: random.Random) -> str:
    if rng.random() < 0.1:
        return soup(rng, rng.randint(1, 6))
    prefix = "convert_string_expressions:" if rng.random() < 0.1 else ""
    return prefix + any_expression(rng, rng.randint(1, 4))


# --------------------------------------------------------------------------------------------------- commands


def write_table() -> None:
    path = HERE / "table.json"
    table = json.loads(path.read_text(encoding="utf-8"))
    results = iter(ask([(group["messages"], group["selectors"]) for group in table]))
    for group in table:
        group["selectors"] = {text: next(results) for text in group["selectors"]}
    _write(path, table)


def write_random() -> None:
    rng = random.Random(SEED)
    messages = [random_message(rng) for _ in range(16)]
    selectors = list(dict.fromkeys(random_selector(rng) for _ in range(RANDOM_COUNT)))
    results = dict(zip(selectors, ask([(messages, selectors)]), strict=True))
    _write(HERE / "random.json", [{"about": f"seed {SEED}", "messages": messages, "selectors": results}])


def _write(path: Path, groups: Sequence[object]) -> None:
    path.write_text(json.dumps(groups, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")


def compare(count: int, seed: int) -> int:
    rng = random.Random(seed)
    messages = [random_message(rng) for _ in range(24)]
    selectors = list(dict.fromkeys(random_selector(rng) for _ in range(count)))
    differences = 0
    for text, theirs in zip(selectors, ask([(messages, selectors)]), strict=True):
        ours = answers(text, messages)
        if ours != theirs and not is_departure(theirs, ours):
            differences += 1
            print(f"{text!r}\n  ActiveMQ {theirs}\n  Ackwire  {ours}")
    print(f"seed {seed}: {len(selectors)} selectors over {len(messages)} messages, {differences} differences")
    return differences


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compare", type=int, metavar="COUNT")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.compare:
        return min(compare(options.compare, options.seed), 1)
    write_table()
    write_random()
    return 0


if __name__ == "__main__":
    sys.exit(main())
