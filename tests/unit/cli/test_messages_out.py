"""Where received messages go, and what they look like there."""

import argparse
import io
import json
from pathlib import Path
from typing import Any

import pytest

from ackwire.cli.messages_out import DirectoryOutput, StreamOutput, file_name, output_from_args
from ackwire.client.messages import BytesMessage, MapMessage, Message, TextMessage, message_from_command
from ackwire.errors import ConfigError
from ackwire.jms.types import Short


class Terminal(io.BytesIO):
    def isatty(self) -> bool:
        return True


def received(message: Message, message_id: str = "ID:a-1:1:1:1:1") -> Message:
    message.message_id = message_id
    return message_from_command(message.to_command())


def written(stream: io.BytesIO, *messages: Message, **options: Any) -> bytes:
    output = StreamOutput(stream, **options)
    for message in messages:
        output.write(message)
    output.flush()
    return stream.getvalue()


def test_a_body_is_a_line() -> None:
    assert written(io.BytesIO(), received(TextMessage("é")), received(BytesMessage(b"\xff"))) == b"\xc3\xa9\n\xff\n"


def test_json_lines_are_ascii_with_headers_and_typed_properties() -> None:
    message = TextMessage("é\n")
    message.properties.set_short("n", 7)
    line = written(io.BytesIO(), received(message), jsonl=True)
    assert line.isascii()
    assert line.count(b"\n") == 1
    row = json.loads(line)
    assert (row["text"], row["properties"]) == ("é\n", {"n": {"short": 7}})
    assert row["headers"]["message_id"] == "ID:a-1:1:1:1:1"


def test_headers_stand_before_the_body_and_cannot_be_faked() -> None:
    message = TextMessage("body")
    message.correlation_id = "c\npriority: 9"
    message.timestamp = 1_700_000_000_123
    message.properties["n"] = Short(7)
    message.properties["s"] = "x"
    message.properties["b"] = True
    text = written(io.BytesIO(), received(message), headers=True).decode()
    head, _, body = text.partition("\n\n")
    assert body == "body\n\n"
    assert head.splitlines() == [
        "message_id: ID:a-1:1:1:1:1",
        "timestamp: 2023-11-14T22:13:20.123Z",
        "expiration: never",
        "priority: 4",
        "persistent: true",
        r"correlation_id: c\npriority: 9",
        "n:short=7",
        "s=x",
        "b:boolean=true",
    ]


def test_nothing_in_a_body_drives_a_terminal_and_a_pipe_gets_it_as_it_is() -> None:
    message = received(TextMessage("\x1b[31mred\tand\nblue é"))
    assert written(Terminal(), message) == "\\x1b[31mred\tand\nblue é\n".encode()
    assert written(Terminal(), received(BytesMessage(b"\xff\x07"))) == rb"\xff\x07" + b"\n"
    assert written(io.BytesIO(), message) == "\x1b[31mred\tand\nblue é\n".encode()


def test_what_goes_into_a_file_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr("ackwire.cli.messages_out.os.fsync", synced.append)
    with (tmp_path / "out").open("wb") as file:
        output = StreamOutput(file)
        output.write(received(TextMessage("x")))
        assert not synced
        output.flush()
        assert synced == [file.fileno()]
        assert (tmp_path / "out").read_bytes() == b"x\n"


def test_each_message_is_a_file_of_its_own(tmp_path: Path) -> None:
    output = DirectoryOutput(tmp_path / "deep" / "down")
    output.write(received(TextMessage("one"), "ID:a-1:1:1:1:1"))
    output.write(received(BytesMessage(b"\xff"), "ID:a-1:1:1:1:2"))
    output.write(received(MapMessage({"n": 7}), "ID:a/b"))
    output.write(received(TextMessage("one again"), "ID:a-1:1:1:1:1"))
    output.flush()
    found = {file.name: file.read_bytes() for file in (tmp_path / "deep" / "down").iterdir()}
    assert found == {
        "ID:a-1:1:1:1:1.txt": b"one again",
        "ID:a-1:1:1:1:2.bin": b"\xff",
        "ID:a%2Fb.json": b'{"n": 7}',
    }


def test_files_of_json_hold_everything(tmp_path: Path) -> None:
    DirectoryOutput(tmp_path, jsonl=True).write(received(TextMessage("one")))
    (file,) = tmp_path.iterdir()
    assert file.suffix == ".json"
    assert json.loads(file.read_bytes())["text"] == "one"


def test_a_message_that_cannot_be_written_leaves_nothing_under_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ackwire.cli.messages_out.os.fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        DirectoryOutput(tmp_path).write(received(TextMessage("one")))
    assert not [file for file in tmp_path.iterdir() if not file.name.startswith(".")]


@pytest.mark.parametrize("message_id", ["../../etc/passwd", "..", ".hidden", "a/b\0c", "\ud800", "x" * 5000, "/"])
def test_an_id_never_leads_out_of_the_directory(tmp_path: Path, message_id: str) -> None:
    message = TextMessage("x")
    message.message_id = message_id
    name = file_name(message)
    assert "/" not in name
    assert not name.startswith(".")
    assert len(name) <= 200
    DirectoryOutput(tmp_path / "inner").write(message)
    assert [file.name for file in tmp_path.iterdir()] == ["inner"]
    assert len(list((tmp_path / "inner").iterdir())) == 1


def test_two_long_ids_have_two_names() -> None:
    first, second = (TextMessage() for _ in range(2))
    first.message_id, second.message_id = "x" * 5000 + "1", "x" * 5000 + "2"
    assert file_name(first) != file_name(second)


def options(**given: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"jsonl": False, "output": None, "print_headers": False, **given})


def test_options_that_contradict_each_other_or_a_bad_directory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--print-headers"):
        output_from_args(options(jsonl=True, print_headers=True))
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(ConfigError, match="File exists"):
        output_from_args(options(output=str(file)))
