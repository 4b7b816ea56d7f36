"""Factories and destinations by name, from a TOML file (A1)."""

from pathlib import Path

import pytest

import ackwire
from ackwire import ConnectionFactory, aio
from ackwire.client import lookup
from ackwire.errors import ConfigError
from tests.client.brokers import Broker
from tests.client.steps import name_of, receive, text_of


def write(folder: Path, text: str) -> Path:
    path = folder / "names.toml"
    path.write_text(text)
    return path


def test_A1_a_factory_and_a_destination_from_a_file_work(broker: Broker, tmp_path: Path, queue: str) -> None:
    """A1: options of URL and name included."""
    path = write(
        tmp_path,
        f'[client.factories.orders]\nurl = "{broker.url}?jms.useAsyncSend=true"\nclient_id = "{name_of(queue)}"\n'
        f'[client.destinations]\norders = "{queue}?consumer.prefetchSize=1"\n',
    )
    factory = ConnectionFactory.lookup("orders", str(path))
    where = lookup.destination("orders", path)
    assert (factory.options.use_async_send, where.consumer.prefetch_size) == (True, 1)
    with factory.create_connection() as connection:
        connection.start()
        assert connection.client_id == name_of(queue)
        session = connection.session()
        session.send(where.destination, "m")
        assert text_of(receive(session.consumer(where.destination))) == "m"


def test_A1_the_asynchronous_client_reads_the_same_file(tmp_path: Path) -> None:
    """A1."""
    path = write(tmp_path, '[client.factories.orders]\nurl = "tcp://broker:61616"\nuser_name = "app"\npassword = "p"\n')
    for factory in (ConnectionFactory.lookup("orders", str(path)), aio.ConnectionFactory.lookup("orders", str(path))):
        assert (factory.options.user_name, factory.options.password) == ("app", "p")
        assert factory.url.uris[0].address == "tcp://broker:61616"


def test_A1_the_file_is_found_by_the_environment_or_in_this_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A1: ACKWIRE_CONFIG, or ackwire.toml."""
    monkeypatch.setenv("ACKWIRE_CONFIG", str(write(tmp_path, '[client.factories.a]\nurl = "tcp://one"\n')))
    assert ConnectionFactory.lookup("a").url.uris[0].address == "tcp://one:61616"
    monkeypatch.delenv("ACKWIRE_CONFIG")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ackwire.toml").write_text('[client.factories.a]\nurl = "tcp://two"\n')
    assert ConnectionFactory.lookup("a").url.uris[0].address == "tcp://two:61616"


def test_A1_a_password_may_be_kept_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A1: in the environment, or in a file."""
    secret = tmp_path / "secret"
    secret.write_text("from a file\n")
    path = str(
        write(
            tmp_path,
            '[client.factories.a]\nurl = "tcp://broker"\npassword_env = "SECRET"\n'
            f'[client.factories.b]\nurl = "tcp://broker"\npassword_file = "{secret}"\n',
        )
    )
    with pytest.raises(ConfigError, match="SECRET is not set"):
        ConnectionFactory.lookup("a", path)
    monkeypatch.setenv("SECRET", "from outside")
    assert ConnectionFactory.lookup("a", path).options.password == "from outside"
    assert ConnectionFactory.lookup("b", path).options.password == "from a file"
    secret.unlink()
    with pytest.raises(ConfigError, match="password_file"):
        ConnectionFactory.lookup("b", path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[client.factories.other]\nurl = 'tcp://a'", r"no \[client.factories\.orders\]; there are other"),
        ("", r"no \[client.factories\.orders\]"),
        ("[client.factories.orders]\n", "has no url"),
        ("[client.factories.orders]\nurl = 5", r"names\.toml:2: client\.factories\.orders\.url: must be text"),
        (
            "[client.factories.orders]\nurl = 'tcp://a'\nuser = 'b'",
            r"names\.toml:3: .*unknown key; did you mean \"user_name\"",
        ),
        ("[client.factories.orders]\nurl = 'tcp://a?jms.useAsynchSend=true'", "jms.useAsyncSend"),
        ("client.factories = 1", r"names\.toml:1: client\.factories: must be a table"),
        ("\n[factories.orders]\nurl = 'tcp://a'", r"names\.toml:2: .*it belongs into \[client\]"),
        ("[client.factory.orders]\nurl = 'tcp://a'", r"names\.toml:1: .*did you mean \"factories\""),
        ("[client.factories", "names.toml"),
    ],
)
def test_A1_a_file_with_a_mistake_says_where_and_what(tmp_path: Path, text: str, says: str) -> None:
    """A1: the file, the entry, and what there is instead."""
    path = write(tmp_path, text)
    with pytest.raises(ConfigError, match=says):
        ConnectionFactory.lookup("orders", str(path))


def test_A1_an_unknown_destination_or_file_says_so(tmp_path: Path) -> None:
    """A1."""
    path = write(tmp_path, '[client.destinations]\norders = "queue://ORDERS"\nbad = "ORDERS?consumer.prefetch=1"\n')
    with pytest.raises(ConfigError, match=r"no 'prices' in \[client\.destinations\]; there are bad, orders"):
        lookup.destination("prices", path)
    with pytest.raises(ConfigError, match=r"consumer\.prefetchSize"):
        lookup.destination("bad", path)
    with pytest.raises(ConfigError, match=r"nowhere\.toml: cannot be read.*ACKWIRE_CONFIG"):
        lookup.destination("orders", tmp_path / "nowhere.toml")
    assert issubclass(ConfigError, ackwire.errors.AckwireError)
