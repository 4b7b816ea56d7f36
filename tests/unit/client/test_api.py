"""What a newcomer sees of the package: `dir`, `help` and `from ackwire import *`."""

import pydoc
import subprocess
import sys

import ackwire
from ackwire import client


def test_every_name_of_the_client_is_shown() -> None:
    assert ackwire.__all__ == sorted(client.__all__)
    assert set(client.__all__) <= set(dir(ackwire))


def test_help_shows_the_api() -> None:
    text = pydoc.plain(pydoc.render_doc(ackwire))
    assert "connect(" in text
    assert "class Session(" in text
    assert 'ackwire.connect("tcp://localhost:61616")' in text


def test_a_broker_that_imports_the_package_does_not_load_the_client() -> None:
    program = "import sys, ackwire; dir(ackwire); sys.exit('ackwire.client' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
