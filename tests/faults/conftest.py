"""Tests that run once with each kind of index."""

from tests.helpers.store_on_disk import every_index  # noqa: F401 - a fixture
