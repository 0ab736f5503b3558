"""The simulator as Batsim over the wire: it connects, asks and waits, for any scheduler that speaks the protocol."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeAlias

import msgspec
import zmq

from pybatsched.core import decisions as d, events as e
from pybatsched.errors import InputError, PeerLostError, RemoteProtocolError, printable
from pybatsched.live.connection import GRACE_S, LOOK_AROUND_MS, Watch, connect
from pybatsched.live.keys import ClientKeys
from pybatsched.protocol import Codec, Message, v4, v5
from pybatsched.protocol.v5_handshake import Features, read_hello, write_greeting

#: Hears each message as it is on the wire: (clock, True for ours, its bytes).
Hear: TypeAlias = Callable[[float, bool, bytes], None]


class ExternalScheduler:
    """A scheduler behind a ZeroMQ endpoint. `timeout_s` is how long it may take to answer, 0 for ever.

    `hear` hears all messages, and `before_last` is called before SIMULATION_ENDS leaves.
    With `keys` all is said in CURVE.
    Use it as a context manager, and call it with (now, events). Batsim 5's language is spoken after a `greet`.
    """

    def __init__(
        self,
        endpoint: str,
        timeout_s: float = 0.0,
        hear: Hear | None = None,
        before_last: Callable[[], None] | None = None,
        keys: ClientKeys | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.n_messages = 0
        self._hear = hear
        self._before_last = before_last
        self._keys = keys
        self._asked_at = 0.0
        self._timeout_s = timeout_s
        self._codec: Codec = v4

    def __enter__(self) -> Self:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.REQ)
        self._socket.setsockopt(zmq.LINGER, 0)  # a message nobody fetched must not keep the process
        self._socket.setsockopt(zmq.RCVTIMEO, LOOK_AROUND_MS)
        self._socket.setsockopt(zmq.SNDTIMEO, LOOK_AROUND_MS)  # who was turned away has nowhere to send to
        if self._keys is not None:
            self._keys.put_on(self._socket)
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
        """Begin as Batsim 5 does, with a text for the scheduler; gives what it asks for."""
        self._send_bytes(0.0, write_greeting(text))
        raw = self._receive()
        if self._hear is not None:
            self._hear(0.0, False, raw)
        try:
            hello = read_hello(raw)
        except RemoteProtocolError as error:
            said = _farewell_in(raw)
            if said:
                raise RemoteProtocolError(f"the scheduler has given up: {said}", message_number=1) from None
            error.message_number = 1
            raise
        self._codec = v5.Codec(hello.features, text)
        return hello.features

    def __call__(self, now: float, events: Sequence[e.Event]) -> tuple[float, Sequence[d.Decision]]:
        """Tell the scheduler and give its reply. A reply that is no message is a RemoteProtocolError.

        So is one with nothing but an `error`, as our own scheduler and others say farewell: in that text is why.
        """
        self._send(now, events)
        try:
            raw = self._receive()
            if self._hear is not None:
                self._hear(now, False, raw)
            reply = self._decoded(raw)
        except RemoteProtocolError as error:
            error.message_number = self.n_messages
            raise
        return reply.now, reply.items

    def farewell(self, now: float) -> None:
        """Tell a scheduler whose simulation cannot go on that it is over, and hear its last word."""
        self._send(now, (e.SimulationEnds(timestamp=now),))
        self._receive()

    def _send(self, now: float, events: Sequence[e.Event]) -> None:
        raw = self._codec.encode_events(Message(now, tuple(events)))
        if self._before_last is not None and any(type(event) is e.SimulationEnds for event in events):
            self._before_last()
        self._send_bytes(now, raw)

    def _send_bytes(self, now: float, raw: bytes) -> None:
        self.n_messages += 1
        self._asked_at = time.monotonic()  # before it may be heard
        if self._hear is not None:
            self._hear(now, True, raw)
        while True:
            try:
                self._socket.send(raw)
            except zmq.Again:
                self._look_around(time.monotonic() - self._asked_at)
                continue
            return

    def _receive(self) -> bytes:
        while True:
            try:
                parts = self._socket.recv_multipart()
            except zmq.Again:
                self._look_around(time.monotonic() - self._asked_at)
                continue
            if len(parts) != 1:
                raise RemoteProtocolError(f"a reply in {len(parts)} parts; expected one")
            return parts[0]

    def _decoded(self, raw: bytes) -> Message[d.Decision]:
        try:
            return self._codec.decode_decisions(raw)
        except RemoteProtocolError:
            why = _farewell_in(raw)
            if not why:
                raise
            raise RemoteProtocolError(f"the scheduler has given up: {why}") from None

    def _look_around(self, silent_s: float) -> None:
        gone_s = self._watch.gone_for_s()
        if self._watch.is_refused or self._watch.has_wrong_keys:
            raise PeerLostError(f"the scheduler at {self.endpoint} does not let us in ({_why_not(self._keys)})")
        if gone_s is not None and gone_s >= GRACE_S and self._watch.has_been_open:
            raise PeerLostError(
                f"the scheduler at {self.endpoint} closed its connection {gone_s:.1f} s ago without answering "
                f"message {self.n_messages}"
            )
        if self._timeout_s and silent_s >= self._timeout_s:
            what = f"no answer to message {self.n_messages}" if self._watch.has_been_open else "no scheduler"
            hint = "" if self._keys is None else "; it may have other keys than those of --curve"
            raise PeerLostError(f"{what} at {self.endpoint} for {silent_s:.1f} s (--timeout {self._timeout_s:g}){hint}")


def _why_not(keys: ClientKeys | None) -> str:
    if keys is None:
        return "it may want keys, --curve, or another address, --allow"
    return "our key is not among its clients, or it has none itself: --curve"


def _farewell_in(raw: bytes) -> str:
    """Give why a scheduler has given up, if it says so in place of a reply."""
    try:
        said = msgspec.json.decode(raw, type=_Farewell).error
        return printable(said if isinstance(said, str) else msgspec.json.encode(said).decode())
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError):
        return ""


class _Farewell(msgspec.Struct):
    """A reply that says why there is none."""

    error: Any
