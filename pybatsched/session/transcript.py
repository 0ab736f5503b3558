"""Decode the exchanges of a journal, for both protocols."""

from __future__ import annotations

from pybatsched.core import decisions as d, events as e
from pybatsched.errors import RemoteProtocolError
from pybatsched.protocol import Codec, Message, v4, v5
from pybatsched.protocol.v5_handshake import is_greeting, read_greeting, read_hello
from pybatsched.session.journal import Exchange


class Transcript:
    """Decodes the exchanges of one journal, starting with the first, which selects the protocol. O(size) each."""

    def __init__(self) -> None:
        self._codec: Codec = v4

    def events(self, exchange: Exchange) -> Message[e.Event]:
        """Return the events of an exchange. Raises RemoteProtocolError."""
        return Message(0.0, ()) if self._is_greeting(exchange) else self._codec.decode_events(exchange.request)

    def decisions(self, exchange: Exchange) -> Message[d.Decision] | None:
        """Return the decisions, with unsent job metadata; None without a reply. Raises RemoteProtocolError."""
        if exchange.reply is None:
            return None
        if self._is_greeting(exchange):
            return Message(0.0, ())
        message = self._codec.decode_decisions(exchange.reply)
        if not exchange.notes:
            return message
        items = list(message.items)
        for index, job_id, text in exchange.notes:
            items.insert(index, d.SetJobMetadata(job_id, text, timestamp=message.now))
        return Message(message.now, tuple(items), message.extra)

    def _is_greeting(self, exchange: Exchange) -> bool:
        if exchange.n != 1 or not is_greeting(exchange.request):
            return False
        features = None if exchange.reply is None else read_hello(exchange.reply).features
        self._codec = v5.Codec(features, read_greeting(exchange.request))
        return True


def is_same(exchange: Exchange, answer: bytes) -> bool:
    """Return whether an answer equals the recorded one. Two hellos are equal if they request the same features."""
    if answer == exchange.reply or exchange.reply is None or exchange.n != 1 or not is_greeting(exchange.request):
        return answer == exchange.reply
    try:
        return read_hello(answer).features == read_hello(exchange.reply).features
    except RemoteProtocolError:
        return False
