"""A relay on the machine of a Batsim: it forwards plain local messages to a scheduler with CURVE, unread."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Final

import msgspec
import zmq

from pybatsched.errors import InputError, PeerLostError, setting
from pybatsched.live.access import is_wide
from pybatsched.live.connection import GRACE_S, LINGER_MS, LOOK_AROUND_MS, Watch, connect, receive
from pybatsched.live.keys import ClientKeys
from pybatsched.live.server import await_and_refuse, bind

_BUSY: Final = "this relay is busy with another Batsim"


class Relay:
    """Forwards the messages of one Batsim at `near` to the scheduler at `far`. A time limit of 0 means no limit."""

    def __init__(self, near: str, far: str, keys: ClientKeys, timeout_s: float, first_timeout_s: float) -> None:
        if is_wide(near):
            raise InputError(f"{setting('endpoint', near)}: expected a local endpoint, because it is not encrypted")
        self._near_at, self._far_at = near, far
        self._keys = keys
        self._timeout_s, self._first_timeout_s = timeout_s, first_timeout_s
        self._batsim: bytes | None = None
        self._is_asking = False
        self._heard_at = 0.0
        self.n_messages = 0

    def run(self, on_ready: Callable[[str], None]) -> None:
        """Forward messages until Batsim has disconnected; stop it after an error. Raises InputError, PeerLostError."""
        with contextlib.ExitStack() as stack:
            context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
            stack.callback(context.term)
            self._near, self._far = context.socket(zmq.ROUTER), context.socket(zmq.REQ)
            self._near.setsockopt(zmq.LINGER, LINGER_MS)
            self._near.setsockopt(zmq.ROUTER_MANDATORY, 1)  # a reply to a missing peer is an error
            self._far.setsockopt(zmq.LINGER, 0)
            self._keys.apply_to(self._far)
            poller = zmq.Poller()
            self._near_watch, self._far_watch = Watch(self._near), Watch(self._far)
            for socket, watch in ((self._near, self._near_watch), (self._far, self._far_watch)):
                stack.callback(socket.close)
                stack.callback(watch.close)
                poller.register(socket, zmq.POLLIN)
            bind(self._near, self._near_at)
            connect(self._far, self._far_at)
            self._heard_at = time.monotonic()
            on_ready(self._near.getsockopt_string(zmq.LAST_ENDPOINT))
            try:
                while not self._has_left():
                    self._forward(dict(poller.poll(LOOK_AROUND_MS)))
            except BaseException as error:
                if self._batsim is not None and not self._near_watch.is_gone():
                    # As in the server: a signal may come between its message and `_is_asking`.
                    self._send_error(self._batsim, str(error))
                    with contextlib.suppress(zmq.ZMQError):  # it may have disconnected
                        await_and_refuse(self._near, self._batsim, _error_reply(str(error)))
                raise

    def _forward(self, ready: dict[zmq.Socket[bytes], int]) -> None:
        if self._far in ready and self._batsim is not None:
            reply = self._far.recv_multipart()
            try:
                self._near.send_multipart([self._batsim, b"", *reply])
            except zmq.ZMQError:
                raise PeerLostError(
                    f"Batsim disconnected before it received the reply to its message {self.n_messages}"
                ) from None
            self._is_asking = False
            self._heard_at = time.monotonic()
        if self._near in ready:
            sender, connection, envelope = receive(self._near)
            if len(envelope) < 2 or envelope[0]:
                return  # not from a REQ socket
            self._batsim = self._batsim or sender
            if sender != self._batsim or self._is_asking:
                self._send_error(sender, _BUSY)
                return
            self._near_watch.received(sender, connection)
            with contextlib.suppress(zmq.Again):  # it has just disconnected; `_has_left` reports why, or --timeout
                self._far.send_multipart(envelope[1:], zmq.NOBLOCK)
            self._is_asking = True
            self._heard_at = time.monotonic()
            self.n_messages += 1

    def _has_left(self) -> bool:
        """Return whether Batsim has disconnected after its last reply. Raises PeerLostError if a peer is lost."""
        near_gone_s, far_gone_s = self._near_watch.gone_for_s(), self._far_watch.gone_for_s()
        silent_s = time.monotonic() - self._heard_at
        is_over = self.n_messages and not self._is_asking  # a later scheduler at the endpoint does not matter
        if not is_over and (self._far_watch.is_refused or self._far_watch.has_wrong_keys):
            raise PeerLostError(f"the scheduler at {self._far_at} rejected the connection ({setting('curve')})")
        if self._batsim is None:
            if self._first_timeout_s and silent_s >= self._first_timeout_s:
                raise PeerLostError(f"no message from Batsim within {silent_s:.1f} s ({setting('first_timeout')})")
            return False
        if near_gone_s is not None and near_gone_s >= GRACE_S:
            if self._is_asking:
                raise PeerLostError(
                    f"Batsim disconnected before it received the reply to its message {self.n_messages}"
                )
            return True
        if self._is_asking and self._far_watch.has_been_open and far_gone_s is not None and far_gone_s >= GRACE_S:
            hint = f"; its keys may differ from those of {setting('curve')}" if self.n_messages == 1 else ""
            raise PeerLostError(
                f"the scheduler at {self._far_at} disconnected before it replied to message {self.n_messages}{hint}"
            )
        if self._timeout_s and silent_s >= self._timeout_s:
            how_long = f"for {silent_s:.1f} s ({setting('timeout', f'{self._timeout_s:g}')})"
            if self._is_asking:
                raise PeerLostError(
                    f"no reply to message {self.n_messages} from {self._far_at} {how_long}; "
                    f"no scheduler may be running there, or its keys may differ from those of {setting('curve')}"
                )
            silence = (
                f"no message from Batsim {how_long}, after the reply to message {self.n_messages}; "
                "it was stopped, or needs more time"
            )
            if not self._send_error(self._batsim, silence):
                return True  # it has disconnected just now
            raise PeerLostError(silence)
        return False

    def _send_error(self, batsim: bytes, why: str) -> bool:
        """Stop a waiting Batsim: it aborts on a message without `now`. Return whether it is connected."""
        try:
            self._near.send_multipart([batsim, b"", _error_reply(why)])
        except zmq.ZMQError:
            return False
        return True


def _error_reply(why: str) -> bytes:
    return msgspec.json.encode({"error": f"pybatsched relay: {why}"})
