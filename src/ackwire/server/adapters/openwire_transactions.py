"""Transactions of an OpenWire client, local ones and XA."""

from functools import partial
from typing import Final, final

from ackwire.broker.transactions import XA_INVALID, TransactionError
from ackwire.errors import BrokerError, Unsupported
from ackwire.server.adapters.openwire_client import OpenWireClient, given
from ackwire.wire.openwire import commands

_XID_PART_BYTES_MAX: Final = 1024
"""Bytes in each part of an XA id. XA itself says 64; ActiveMQ does not look."""


@final
class Transactions:
    """Carries out TransactionInfo."""

    __slots__ = ("_client",)

    def __init__(self, client: OpenWireClient) -> None:
        self._client = client

    def transaction_info(self, info: commands.TransactionInfo) -> bool | None:
        client = self._client
        transactions = client.broker.transaction_manager
        if info.type == commands.TransactionType.RECOVER:
            prepared = tuple(
                xid
                for xid in transactions.prepared(client.open_connection)
                if isinstance(xid, commands.XATransactionId)
            )
            answer = commands.DataArrayResponse(correlation_id=info.command_id, data=prepared)
            on_failed = partial(client.refuse, command_id=info.command_id, response_required=True)
            client.broker.when_durable(partial(client.send, answer), on_failed)  # what it lists must be a promise
            return True
        transaction_id = given(info.transaction_id, "TransactionInfo without a transaction id")
        try:
            self._check_transaction_id(transaction_id)
            return self._carry_out(info, transaction_id)
        except TransactionError as error:
            error.is_xa = isinstance(transaction_id, commands.XATransactionId)
            raise

    def _check_transaction_id(self, transaction_id: commands.TransactionId) -> None:
        """Local ones carry the client's own id; those of XA are of a bounded size."""
        client = self._client
        if isinstance(transaction_id, commands.LocalTransactionId):
            connection_id = transaction_id.connection_id
            client.check_own(None if connection_id is None else connection_id.value)
        elif isinstance(transaction_id, commands.XATransactionId):
            parts = (transaction_id.global_transaction_id, transaction_id.branch_qualifier)
            if any(len(part or b"") > _XID_PART_BYTES_MAX for part in parts):
                raise TransactionError(f"a part of an XA id has over {_XID_PART_BYTES_MAX} bytes", XA_INVALID)

    def _carry_out(self, info: commands.TransactionInfo, transaction_id: commands.TransactionId) -> bool | None:
        client = self._client
        transactions = client.broker.transaction_manager
        on_failed = partial(self._failed, info)
        match info.type:
            case commands.TransactionType.BEGIN:
                is_xa = isinstance(transaction_id, commands.XATransactionId)
                transactions.begin(client.open_connection, transaction_id, is_xa=is_xa)
            case commands.TransactionType.END:
                pass
            case commands.TransactionType.PREPARE:
                answer = partial(self._answer_prepare, info.command_id)
                if transactions.prepare(client.open_connection, transaction_id, answer, on_failed):
                    client.wait(info.command_id)
                return True
            case commands.TransactionType.COMMIT_ONE_PHASE | commands.TransactionType.COMMIT_TWO_PHASE:
                one_phase = info.type == commands.TransactionType.COMMIT_ONE_PHASE
                respond = partial(self._answer_commit, info.response_required, info.command_id)
                if transactions.commit(client.open_connection, transaction_id, respond, on_failed, one_phase=one_phase):
                    client.wait(info.command_id)
                return True
            case commands.TransactionType.ROLLBACK:
                transactions.roll_back(client.open_connection, transaction_id)
            case commands.TransactionType.FORGET:
                transactions.forget(client.open_connection, transaction_id)
            case _:
                raise Unsupported(f"transaction operation {info.type} is unknown")
        return None

    def _answer_prepare(self, command_id: int, result: int) -> None:
        client = self._client
        client.send(commands.IntegerResponse(correlation_id=command_id, result=result))
        client.go_on_behind(command_id)

    def _answer_commit(self, is_required: bool, command_id: int) -> None:
        client = self._client
        if is_required:
            client.respond(command_id)
        client.go_on_behind(command_id)

    def _failed(self, info: commands.TransactionInfo, error: BrokerError) -> None:
        client = self._client
        if isinstance(error, TransactionError):
            error.is_xa = isinstance(info.transaction_id, commands.XATransactionId)
        client.refuse(error, info.command_id, info.response_required)
        client.go_on_behind(info.command_id)
