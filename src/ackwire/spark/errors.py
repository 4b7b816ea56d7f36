"""What can go wrong between Spark and a broker.

    AckwireError
    ├── ConfigError
    │   └── BadOption            an option or a column that cannot be used; says which ones can
    └── ConnectorError
        ├── BrokerAway           no answer in time; says where, what was tried and for how long
        ├── Refused              the broker answered with an error; carries its sentence
        ├── BadAnswer            the broker's answer breaks the contract: too few rows, other columns
        └── DataLoss             messages that the checkpoint asks for are gone

Spark shows these as text, with the name of the class in front; a program sees Spark's own exceptions.
"""

from ackwire.errors import AckwireError, ConfigError


class BadOption(ConfigError):
    """An option, or a column, that cannot be used that way."""


class ConnectorError(AckwireError):
    """Spark and the broker could not work together."""


class BrokerAway(ConnectorError):
    """The broker did not answer, or had no room, for as long as `retryTimeout` allows."""


class Refused(ConnectorError):
    """The broker answered with an error."""

    def __init__(self, text: str, status: int, code: str) -> None:
        super().__init__(text)
        self.status = status
        self.code = code


class BadAnswer(ConnectorError):
    """The broker's answer is not what was asked for; nothing of it may be used."""


class DataLoss(ConnectorError):
    """Messages that a checkpoint or a range asks for are gone."""
