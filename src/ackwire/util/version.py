"""The version of this package; `ackwire.__version__` is the public name."""

__version__ = "0.1.0"
