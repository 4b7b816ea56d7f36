"""Where clients and other nodes reach a broker, as settings say it."""

import socket

import pytest

from ackwire.config.member_uri import bind_address, check_member, own_uri
from ackwire.errors import ConfigError


def test_a_broker_that_listens_everywhere_is_reached_by_the_name_of_its_machine() -> None:
    assert own_uri("", ("tcp://0.0.0.0:61616", "ssl://h:61617?a=b")) == f"tcp://{socket.gethostname()}:61616"
    assert own_uri("", ("tcp://10.0.0.1:61616",)) == "tcp://10.0.0.1:61616"
    assert own_uri("ssl://a:1", ("tcp://0.0.0.0:61616",)) == "ssl://a:1"
    assert own_uri("", ()) == ""


@pytest.mark.parametrize("text", ["tcp://a:61616", "ssl://a.example:61617?x=y", "nio+ssl://[::1]:1"])
def test_uris_that_clients_can_be_told(text: str) -> None:
    check_member(text)


@pytest.mark.parametrize(
    "text", ["", "a:61616", "tcp://a", "tcp://a:1,tcp://b:2", "failover:(tcp://a:1)", "http://a:1"]
)
def test_others_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="must be like"):
        check_member(text)


def test_an_address_to_bind_has_a_host_and_a_port() -> None:
    assert bind_address("tcp://127.0.0.1:61619") == ("127.0.0.1", 61619)
    assert bind_address("[::1]:1") == ("::1", 1)
    for text in ("tcp://127.0.0.1", "tcp://:1", "tcp://h:70000", "http://h:1/x"):
        with pytest.raises(ConfigError, match="must be like"):
            bind_address(text)
