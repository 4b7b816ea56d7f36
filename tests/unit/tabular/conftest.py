"""Generated tests take their examples from one profile."""

from tests import generated  # noqa: F401 - registers and loads it
