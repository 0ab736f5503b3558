"""The simulator as a network peer: it connects to any scheduler that speaks Batsim's protocol and waits for replies."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeAlias

import msgspec
import zmq

from pybatsched.core import decisions as d, events as e
from pybatsched.errors import InputError, PeerLostError, RemoteProtocolError, printable, setting
from pybatsched.live.connection import GRACE_S, LOOK_AROUND_MS, Watch, connect
from pybatsched.live.keys import ClientKeys
from pybatsched.protocol import Codec, Message, v4, v5
from pybatsched.protocol.v5_handshake import Features, read_hello, write_greeting

#: Called for each message: (clock, True if the simulator sent it, its bytes).
OnMessage: TypeAlias = Callable[[float, bool, bytes], None]


class ExternalScheduler:
    """A scheduler behind a ZeroMQ endpoint. `timeout_s` limits the time until a reply; 0 means no limit.

    `on_message` is called for all messages, `before_last` before SIMULATION_ENDS is sent. With `keys` the connection
    is encrypted with CURVE. Use it as a context manager, and call it with (now, events). After `greet` it uses the
    protocol of Batsim 5.
    """

    def __init__(
        self,
        endpoint: str,
        timeout_s: float = 0.0,
        on_message: OnMessage | None = None,
        before_last: Callable[[], None] | None = None,
        keys: ClientKeys | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.n_messages = 0
        self._has_replied = False
        self._on_message = on_message
        self._before_last = before_last
        self._keys = keys
        self._asked_at = 0.0
        self._timeout_s = timeout_s
        self._codec: Codec = v4

    def __enter__(self) -> Self:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.REQ)
        self._socket.setsockopt(zmq.LINGER, 0)  # an unsent message must not block the exit
        self._socket.setsockopt(zmq.RCVTIMEO, LOOK_AROUND_MS)
        self._socket.setsockopt(zmq.SNDTIMEO, LOOK_AROUND_MS)  # a rejected client has no peer to send to
        if self._keys is not None:
            self._keys.apply_to(self._socket)
        self._watch = Watch(self._socket)
        try:
            connect(self._socket, self.endpoint)
        except InputError:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watch.close()
        self._socket.close()
        self._context.term()

    def greet(self, text: str) -> Features:
        """Start the handshake of Batsim 5 with a text for the scheduler; return the features that it requests."""
        self._send_bytes(0.0, write_greeting(text))
        raw = self._receive()
        if self._on_message is not None:
            self._on_message(0.0, False, raw)
        try:
            hello = read_hello(raw)
        except RemoteProtocolError as error:
            why = _error_in(raw)
            if why:
                raise RemoteProtocolError(f"the scheduler stopped with an error: {why}", message_number=1) from None
            error.message_number = 1
            raise
        self._codec = v5.Codec(hello.features, text)
        return hello.features

    def __call__(self, now: float, events: Sequence[e.Event]) -> tuple[float, Sequence[d.Decision]]:
        """Send events to the scheduler and return its reply.

        Raises RemoteProtocolError if the reply is not a message. A reply with only an `error` member means that the
        scheduler stopped; the exception then contains its text.
        """
        self._send(now, events)
        try:
            raw = self._receive()
            if self._on_message is not None:
                self._on_message(now, False, raw)
            reply = self._decoded(raw)
        except RemoteProtocolError as error:
            error.message_number = self.n_messages
            raise
        return reply.now, reply.items

    def send_end(self, now: float) -> None:
        """Send SIMULATION_ENDS to the scheduler of a simulation that cannot continue, and wait for its last reply."""
        self._send(now, (e.SimulationEnds(timestamp=now),))
        self._receive()

    def _send(self, now: float, events: Sequence[e.Event]) -> None:
        raw = self._codec.encode_events(Message(now, tuple(events)))
        if self._before_last is not None and any(type(event) is e.SimulationEnds for event in events):
            self._before_last()
        self._send_bytes(now, raw)

    def _send_bytes(self, now: float, raw: bytes) -> None:
        self.n_messages += 1
        self._asked_at = time.monotonic()  # before `on_message`
        if self._on_message is not None:
            self._on_message(now, True, raw)
        while True:
            try:
                self._socket.send(raw)
            except zmq.Again:
                self._look_around()
                continue
            return

    def _receive(self) -> bytes:
        while True:
            try:
                parts = self._socket.recv_multipart()
            except zmq.Again:
                self._look_around()
                continue
            self._has_replied = True
            if len(parts) != 1:
                raise RemoteProtocolError(f"expected a reply in one part, found {len(parts)} parts")
            return parts[0]

    def _decoded(self, raw: bytes) -> Message[d.Decision]:
        try:
            return self._codec.decode_decisions(raw)
        except RemoteProtocolError:
            why = _error_in(raw)
            if not why:
                raise
            raise RemoteProtocolError(f"the scheduler stopped with an error: {why}") from None

    def _look_around(self) -> None:
        """Raise PeerLostError if no reply is to be expected."""
        if problem := self._problem(time.monotonic() - self._asked_at):
            error = PeerLostError(problem)
            error.is_before_run = not self._has_replied
            raise error

    def _problem(self, silent_s: float) -> str:
        """Return why no reply is to be expected; empty if one may still come."""
        gone_s = self._watch.gone_for_s()
        if self._watch.is_refused or self._watch.has_wrong_keys:
            return f"the scheduler at {self.endpoint} rejected the connection ({_why_rejected(self._keys)})"
        if gone_s is not None and gone_s >= GRACE_S and self._watch.has_been_open:
            return (
                f"the scheduler at {self.endpoint} closed its connection {gone_s:.1f} s ago without a reply "
                f"to message {self.n_messages}"
            )
        if self._timeout_s and silent_s >= self._timeout_s:
            what = f"no reply to message {self.n_messages}" if self._watch.has_been_open else "no scheduler"
            hint = "" if self._keys is None else f"; its keys may differ from those of {setting('curve')}"
            return (
                f"{what} at {self.endpoint} for {silent_s:.1f} s ({setting('timeout', f'{self._timeout_s:g}')}){hint}"
            )
        return ""


def _why_rejected(keys: ClientKeys | None) -> str:
    if keys is None:
        return f"it may need keys ({setting('curve')}) or another client address ({setting('allow')})"
    return f"the client key is not in its DIR/clients, or it runs without {setting('curve')}"


def _error_in(raw: bytes) -> str:
    """Return the error text that a scheduler sent instead of a reply; empty if the message is not one."""
    try:
        text = msgspec.json.decode(raw, type=_Farewell).error
        return printable(text if isinstance(text, str) else msgspec.json.encode(text).decode())
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError):
        return ""


class _Farewell(msgspec.Struct):
    """A message that a scheduler sends instead of a reply when it stops."""

    error: Any
