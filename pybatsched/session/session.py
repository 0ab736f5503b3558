"""A session: the scheduler without the socket. It turns messages into replies and writes a journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from pybatsched.core import decisions as d, events as e
from pybatsched.core.engine import Engine, Reply
from pybatsched.core.policy import BatsimFeature
from pybatsched.errors import (
    InputError,
    Interrupted,
    PolicyError,
    PybatschedError,
    RemoteProtocolError,
    setting,
    spelled,
)
from pybatsched.protocol import CannotEncodeError, Codec, Message, v4
from pybatsched.version import __version__

if TYPE_CHECKING:
    from pybatsched.core.services.feedback import FollowingJob
    from pybatsched.policies.registry import PolicyPlan
    from pybatsched.session.journal import JournalWriter

MAX_MESSAGE_BYTES: Final = 512 * 2**20


class Session:
    """One run: a policy, an engine and a codec. `handle` takes a message and returns the reply.

    `feedback_jobs` are jobs that the engine submits, because they follow others. `watch` is called with every exchange.
    `say` is called at the start with warnings about features that this Batsim lacks. With `keeps_notes` the job
    metadata that Batsim 5 cannot store is kept in memory.
    """

    def __init__(
        self,
        plan: PolicyPlan,
        *,
        journal: JournalWriter | None = None,
        watch: Callable[[Message[e.Event], Reply], None] | None = None,
        max_bytes: int = MAX_MESSAGE_BYTES,
        checked: bool = False,
        say: Callable[[str], None] | None = None,
        keeps_notes: bool = False,
        feedback_jobs: Sequence[FollowingJob] = (),
    ) -> None:
        self.plan = plan
        self.engine = Engine(plan.make, plan.source.name, feedback_jobs=feedback_jobs, checked=checked)
        self.n_messages = 0
        self._journal = journal
        self._watch = watch
        self._max_bytes = max_bytes
        self._say = say
        self._keeps_notes = keeps_notes
        self._codec: Codec = v4
        #: The last reply.
        self.reply = Reply(0.0, ())
        #: The last metadata of each job, by its id in Batsim, if it was not sent and `keeps_notes` is set.
        self.notes: dict[str, str] = {}

    @property
    def batsim(self) -> int:
        """The major version of the connected Batsim; 4 stands for 3.1 to 4.2."""
        return self._codec.batsim()

    @property
    def finished(self) -> bool:
        """Whether SIMULATION_ENDS has been answered."""
        return self.engine.ended

    def handle(self, raw: bytes) -> bytes:
        """Return the reply to a message. Errors of the peer or of the policy are journalled and raised."""
        self.n_messages += 1
        if self.n_messages == 1:
            registers = {BatsimFeature.DYNAMIC_JOBS} if self.engine.feedback_jobs else set()
            self._codec = _codec_for(raw, self.plan.needs() | registers)
        codec, journal = self._codec, self._journal
        try:
            message = self._receive_first(raw) if self.n_messages == 1 else self._receive(raw)
            if isinstance(message, bytes):  # the answer to a greeting
                reply, answer = Reply(0.0, ()), message
            else:
                events = message.items
                if codec is not v4:  # which changes no order and no decision
                    events = codec.order(events)
                reply = self.engine.step(message.now, events)
                if codec is not v4:
                    reply = Reply(reply.now, codec.prepare(reply.decisions))
                try:
                    answer = codec.encode_decisions(Message(*reply))
                except (CannotEncodeError, TypeError, ValueError, OverflowError, RecursionError) as error:
                    raise self._cannot_encode(error) from None
        except PybatschedError as error:
            if isinstance(error, RemoteProtocolError) and error.message_number is None:
                error.message_number = self.n_messages
            if journal is not None:
                journal.error(self.n_messages, type(error).__name__, str(error))
            raise
        self.reply = reply
        if journal is not None or self._watch is not None or self._keeps_notes:
            self._record(message, reply, answer)
        return answer

    def _record(self, message: Message[e.Event] | bytes, reply: Reply, answer: bytes) -> None:
        """Keep notes, show and journal an exchange, as far as it is wanted."""
        unsent = self._codec.unsent(reply.decisions)
        if self._keeps_notes:
            self.notes.update((one.job_id, one.metadata) for _, one in unsent)
        if self._watch is not None and not isinstance(message, bytes):
            self._watch(message, reply)
        if self._journal is not None:
            reasons = [d.reason_text(item.reason) for item in reply.decisions]
            notes = [(index, one.job_id, one.metadata) for index, one in unsent]
            self._journal.reply(self.n_messages, answer, reasons, notes)

    def handle_parts(self, parts: list[bytes]) -> bytes:
        """Return the reply to a message of the socket. Several parts are an error, and journalled as one text."""
        if len(parts) == 1:
            return self.handle(parts[0])
        self.n_messages += 1
        error = RemoteProtocolError(
            f"received a message in {len(parts)} parts; expected one", message_number=self.n_messages
        )
        if self._journal is not None:
            if self.n_messages == 1:
                self._journal.header(self.plan, None, self.plan.given, self.engine.feedback_jobs)
            self._journal.request(self.n_messages, b"".join(parts), self._max_bytes)
            self._journal.error(self.n_messages, type(error).__name__, str(error))
        raise error

    def record_in(self, journal: JournalWriter) -> None:
        """Record this session in a journal, from its first message on."""
        self._journal = journal

    @contextmanager
    def closing_journal(self) -> Iterator[None]:
        """Close the journal at the end of the block, and record how the run ended."""
        how = "failed"
        try:
            yield
            how = "ended" if self.finished else "stopped with jobs unfinished"
        except PybatschedError as error:
            how = f"failed with {type(error).__name__}"
            raise
        except (Interrupted, KeyboardInterrupt):
            how = "was interrupted"
            raise
        finally:
            self.close(how)

    def close(self, how: str) -> None:
        """Close the journal, if there is one, and record how the run ended."""
        if self._journal is not None:
            if not self.n_messages:
                self._journal.header(self.plan, None, self.plan.given, self.engine.feedback_jobs)
            self._journal.end(how)
            self._journal.close()

    def error_reply(self, why: BaseException | str) -> bytes:
        """Return a reply that makes the peer stop: Batsim aborts on a message without `now`; else it would hang."""
        text = spelled(why if isinstance(why, str) else f"{type(why).__name__}: {why}")
        return msgspec.json.encode({"error": text.encode("utf-8", "replace").decode()})

    def _cannot_encode(self, error: Exception) -> PolicyError:
        """Return the error to raise for a decision that cannot be written."""
        if isinstance(error, CannotEncodeError):
            return PolicyError(
                f"Batsim {self.batsim} does not support {error}; it is for Batsim 4",
                policy=self.plan.source.name,
                rule=f"Batsim {self.batsim}",
            )
        return PolicyError(
            f"a decision cannot be written as JSON: {error}", policy=self.plan.source.name, rule="well-formed"
        )

    def _check_size(self, raw: bytes) -> None:
        if len(raw) > self._max_bytes:
            raise RemoteProtocolError(
                f"{len(raw)} bytes; expected at most {self._max_bytes} ({setting('max_message')})"
            )

    def _receive(self, raw: bytes) -> Message[e.Event]:
        """Journal and read a message after the first one."""
        if self._journal is not None:
            self._journal.request(self.n_messages, raw, self._max_bytes)
        if len(raw) > self._max_bytes:
            self._check_size(raw)
        return self._codec.decode_events(raw)

    def _receive_first(self, raw: bytes) -> Message[e.Event] | bytes:
        """Journal and read the first message, which the header needs; return the answer to a greeting."""
        begins: e.SimulationBegins | None = None
        failure: RemoteProtocolError | None = None
        received: Message[e.Event] | bytes = b""
        config: Mapping[str, object] = {}
        try:
            self._check_size(raw)
            greeting = self._codec.greet(raw, __version__)
            if greeting is not None:
                received, config = greeting
            elif raw.lstrip().startswith(b"{"):
                received = self._codec.decode_events(raw)
                begins = next((item for item in received.items if isinstance(item, e.SimulationBegins)), None)
            else:
                from pybatsched.protocol.v5_handshake import first_message_error  # noqa: PLC0415  see `_codec_for`

                raise RemoteProtocolError(first_message_error(raw))
        except RemoteProtocolError as error:
            failure = error
        if self._journal is not None:
            self._journal.header(
                self.plan,
                begins,
                self._options(begins or e.SimulationBegins(config=config, timestamp=0.0)),
                self.engine.feedback_jobs,
            )
            self._journal.request(1, raw, self._max_bytes)
        if failure is not None:
            raise failure
        if self._say is not None:
            source = self.plan.source
            for text in self._codec.missing(source.cls, source.name, keeps_notes=self._keeps_notes):
                self._say(text)
        return received

    def _options(self, begins: e.SimulationBegins | None) -> dict[str, object]:
        try:
            return dict(self.plan.options_for(begins).model_dump(mode="json"))
        except InputError:
            return dict(self.plan.given)  # the engine reports the same error


def _codec_for(raw: bytes, needs: frozenset[BatsimFeature]) -> Codec:
    """Return the codec for the first message of a conversation. That of Batsim 5 is imported only if it may be one."""
    if raw.startswith(b"{"):
        return v4
    from pybatsched.protocol.v5 import codec_for  # noqa: PLC0415

    return codec_for(raw, needs)
