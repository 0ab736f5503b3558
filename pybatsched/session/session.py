"""A session: the bytes of one conversation in, the bytes of the replies out, a journal on the side.

This is all of a scheduler but the socket, so the server, the replayer and the tests are thin drivers of it.
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
from pybatsched.protocol import Message, v4

if TYPE_CHECKING:
    from pybatsched.policies.registry import PolicyPlan
    from pybatsched.session.journal import JournalWriter

MAX_MESSAGE_BYTES: Final = 512 * 2**20


class Session:
    """One run: a policy, an engine and a codec. `handle` takes a message and gives the reply.

    `watch` is shown every exchange, for people who want to look on.
    """

    def __init__(
        self,
        plan: PolicyPlan,
        *,
        journal: JournalWriter | None = None,
        watch: Callable[[Message[e.Event], Reply], None] | None = None,
        max_bytes: int = MAX_MESSAGE_BYTES,
        checked: bool = False,
    ) -> None:
        self.plan = plan
        self.engine = Engine(plan.make, plan.source.name, checked=checked)
        self.n_messages = 0
        self._journal = journal
        self._watch = watch
        self._max_bytes = max_bytes

    @property
    def finished(self) -> bool:
        """Whether SIMULATION_ENDS has been answered."""
        return self.engine.ended

    def handle(self, raw: bytes) -> bytes:
        """Answer one message. Whatever is wrong with it or with the policy's decisions is raised, and journalled."""
        self.n_messages += 1
        journal = self._journal
        try:
            message = self._decode(raw) if journal is None else self._record_request(journal, raw)
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
            journal.reply(self.n_messages, answer, [d.reason_text(item.reason) for item in reply.decisions])
        return answer

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
            return v4.encode_decisions(Message(reply.now, reply.decisions))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise PolicyError(
                f"a decision cannot be written as JSON: {error}", policy=self.plan.source.name, rule="well-formed"
            ) from None

    def _decode(self, raw: bytes) -> Message[e.Event]:
        if len(raw) > self._max_bytes:
            raise RemoteProtocolError(f"{len(raw)} bytes; expected at most {self._max_bytes} (--max-message)")
        return v4.decode_events(raw)

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
        journal.header(self.plan, _begins(message), self._options(message))
        journal.request(1, raw, self._max_bytes)
        if failure is not None:
            raise failure
        return message

    def _options(self, message: Message[e.Event]) -> dict[str, object]:
        try:
            return self.plan.options_for(_begins(message)).model_dump(mode="json")
        except InputError:
            return dict(self.plan.given)  # the engine will meet the same error and report it


def _begins(message: Message[e.Event]) -> e.SimulationBegins | None:
    for item in message.items:
        if isinstance(item, e.SimulationBegins):
            return item
    return None
