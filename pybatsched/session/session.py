"""A session: the bytes of one conversation in, the bytes of the replies out, a journal on the side.

This is all of a scheduler but the socket, so the server, the replayer and the tests are thin drivers of it. The first
message tells which Batsim has called: Batsim 5 begins with a greeting, others with JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from pybatsched.core import decisions as d
from pybatsched.core import events as e
from pybatsched.core.engine import Engine, Reply
from pybatsched.errors import InputError, Interrupted, PolicyError, PybatschedError, RemoteProtocolError
from pybatsched.protocol import Codec, Message, v4, v5
from pybatsched.protocol.v5_handshake import Hello, is_greeting, no_first_message, read_greeting, write_hello
from pybatsched.session.batsim5_features import features_for, lacking

if TYPE_CHECKING:
    from pybatsched.policies.registry import PolicyPlan
    from pybatsched.session.journal import JournalWriter, Note

MAX_MESSAGE_BYTES: Final = 512 * 2**20


class Session:
    """One run: a policy, an engine and a codec. `handle` takes a message and gives the reply.

    `watch` is shown every exchange, for people who want to look on. `say` is told what this Batsim lacks, at the begin:
    that files of Batsim 5 have no notes on jobs, unless somebody `keeps_notes` for them: then they stay in memory.
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
    ) -> None:
        self.plan = plan
        self.engine = Engine(plan.make, plan.source.name, checked=checked)
        self.n_messages = 0
        self._journal = journal
        self._watch = watch
        self._max_bytes = max_bytes
        self._say = say
        self._keeps_notes = keeps_notes
        self._codec: Codec = v4
        #: The last note on each job, by its id towards Batsim, if Batsim itself was not told and they are to be kept.
        self.notes: dict[str, str] = {}

    @property
    def batsim(self) -> int:
        """Which Batsim has called, by the first number of its version; 4 stands for all before 5."""
        return 4 if self._codec is v4 else 5

    @property
    def finished(self) -> bool:
        """Whether SIMULATION_ENDS has been answered."""
        return self.engine.ended

    def handle(self, raw: bytes) -> bytes:
        """Answer one message. Whatever is wrong with it or with the policy's decisions is raised, and journalled."""
        self.n_messages += 1
        journal = self._journal
        if self.n_messages == 1 and is_greeting(raw):
            return self._greet(raw)
        try:
            message = self._decode(raw) if journal is None else self._record_request(journal, raw)
            if isinstance(self._codec, v5.Codec):
                reply = self._in_words_of(self._codec, self.engine.step(message.now, v5.in_order(message.items)))
            else:
                reply = self.engine.step(message.now, message.items)
            answer = self._encode(reply)
        except PybatschedError as error:
            if isinstance(error, RemoteProtocolError) and error.message_number is None:
                error.message_number = self.n_messages
            if journal is not None:
                journal.error(self.n_messages, type(error).__name__, str(error))
            raise
        if self._watch is not None:
            self._watch(message, reply)
        if journal is not None:
            reasons = [d.reason_text(item.reason) for item in reply.decisions]
            journal.reply(self.n_messages, answer, reasons, self._notes_in(reply))
        return answer

    # --- Batsim 5 -------------------------------------------------------------------------------------------------

    def _greet(self, raw: bytes) -> bytes:
        """Answer the greeting of Batsim 5 with what the policy needs of it; from here on its language is spoken."""
        from pybatsched import __version__  # noqa: PLC0415  the package imports its modules, not the reverse

        source = self.plan.source
        codec = v5.Codec(features_for(source.cls.needs))
        failure: RemoteProtocolError | None = None
        try:
            self._check_size(raw)
            codec.init = read_greeting(raw)
        except RemoteProtocolError as error:
            error.message_number = 1
            failure = error
        if self._journal is not None:
            begins = e.SimulationBegins(config=codec.config(), timestamp=0.0)
            self._journal.header(self.plan, None, self._options(begins))
            self._journal.request(1, raw, self._max_bytes)
            if failure is not None:
                self._journal.error(1, type(failure).__name__, str(failure))
        if failure is not None:
            raise failure
        if self._say is not None:
            for text in lacking(source.cls, source.name, keeps_notes=self._keeps_notes):
                self._say(text)
        self._codec = codec
        answer = write_hello(Hello("pybatsched", __version__, codec.features))
        if self._journal is not None:
            self._journal.reply(1, answer, [])
        return answer

    def _in_words_of(self, codec: v5.Codec, reply: Reply) -> Reply:
        """Keep what Batsim 5 is not told, and give the decisions as it is told of them."""
        decisions = codec.prepared(reply.decisions)
        if self._keeps_notes:
            self.notes.update((one.job_id, one.metadata) for one in decisions if isinstance(one, d.SetJobMetadata))
        return Reply(reply.now, decisions)

    def _notes_in(self, reply: Reply) -> list[Note]:
        if self._codec is v4:
            return []
        return [
            (index, one.job_id, one.metadata)
            for index, one in enumerate(reply.decisions)
            if isinstance(one, d.SetJobMetadata)
        ]

    def handle_parts(self, parts: list[bytes]) -> bytes:
        """Answer a message as the socket gives it. More than one part is refused, and journalled as one text."""
        if len(parts) == 1:
            return self.handle(parts[0])
        self.n_messages += 1
        error = RemoteProtocolError(f"a message in {len(parts)} parts; expected one", message_number=self.n_messages)
        if self._journal is not None:
            if self.n_messages == 1:
                self._journal.header(self.plan, None, self.plan.given)
            self._journal.request(self.n_messages, b"".join(parts), self._max_bytes)
            self._journal.error(self.n_messages, type(error).__name__, str(error))
        raise error

    def record_in(self, journal: JournalWriter) -> None:
        """Record this session, from its first message on."""
        self._journal = journal

    @contextmanager
    def to_its_end(self) -> Iterator[None]:
        """Close the journal when the run inside is over, with a word on how it went."""
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
        """Close the journal, if there is one, with a word on how the run ended."""
        if self._journal is not None:
            if not self.n_messages:
                self._journal.header(self.plan, None, self.plan.given)
            self._journal.end(how)
            self._journal.close()

    def farewell(self, why: BaseException | str) -> bytes:
        """Give a reply that makes the peer stop too: Batsim aborts on a message without `now`, else it would hang."""
        text = why if isinstance(why, str) else f"{type(why).__name__}: {why}"
        return msgspec.json.encode({"error": text.encode("utf-8", "replace").decode()})

    def _encode(self, reply: Reply) -> bytes:
        try:
            return self._codec.encode_decisions(Message(reply.now, reply.decisions))
        except v5.CannotSayError as error:
            raise PolicyError(
                f"Batsim 5 knows no {error}; it is for Batsim 4", policy=self.plan.source.name, rule="Batsim 5"
            ) from None
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise PolicyError(
                f"a decision cannot be written as JSON: {error}", policy=self.plan.source.name, rule="well-formed"
            ) from None

    def _check_size(self, raw: bytes) -> None:
        if len(raw) > self._max_bytes:
            raise RemoteProtocolError(f"{len(raw)} bytes; expected at most {self._max_bytes} (--max-message)")

    def _decode(self, raw: bytes) -> Message[e.Event]:
        self._check_size(raw)
        if self.n_messages == 1 and not raw.lstrip().startswith(b"{"):
            raise RemoteProtocolError(no_first_message(raw))
        return self._codec.decode_events(raw)

    def _record_request(self, journal: JournalWriter, raw: bytes) -> Message[e.Event]:
        """Write the message down before anything is done with it; the header comes with the first one."""
        if self.n_messages > 1:
            journal.request(self.n_messages, raw, self._max_bytes)
            return self._decode(raw)
        failure: RemoteProtocolError | None = None
        message: Message[e.Event] = Message(0.0, ())
        try:
            message = self._decode(raw)
        except RemoteProtocolError as error:
            failure = error
        begins = _begins(message)
        journal.header(self.plan, begins, self._options(begins))
        journal.request(1, raw, self._max_bytes)
        if failure is not None:
            raise failure
        return message

    def _options(self, begins: e.SimulationBegins | None) -> dict[str, object]:
        try:
            return self.plan.options_for(begins).model_dump(mode="json")
        except InputError:
            return dict(self.plan.given)  # the engine will meet the same error and report it


def _begins(message: Message[e.Event]) -> e.SimulationBegins | None:
    for item in message.items:
        if isinstance(item, e.SimulationBegins):
            return item
    return None
