"""What a client waits for, with what follows the answer; its channel holds what it sends
meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluicemq.errors import ChannelViolation, ProtocolViolation
from sluicemq.metadata.agreement import Agreed
from sluicemq.queues.effects import Refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.amqp.method import Method
    from sluicemq.errors import SluiceError


class Question:
    """What a client waits for: a queue's answer to a command, or an agreement on a change."""

    __slots__ = ("answer_with", "method")

    def __init__(self, method: Method, answer_with: Callable[[Any], None]) -> None:
        self.method = method
        self.answer_with = answer_with

    def blame(self, violation: ChannelViolation) -> None:
        """Have a violation name the method that has asked."""
        violation.class_id, violation.method_id = self.method.class_id, self.method.method_id

    def answer(self, answer: object) -> None:
        """Do what follows the answer. Raises ChannelViolation, or another ProtocolViolation, when
        the answer is a refusal."""
        if isinstance(answer, Refuse):
            raise ChannelViolation(answer.code, answer.text)
        if isinstance(answer, Agreed) and answer.refusal is not None:
            raise violation_of(answer.refusal)
        self.answer_with(answer)


class Declaration(Question):
    """What a client waits for that has a queue declared: what the queue says of itself. If it
    cannot, and `is_gone` says why, `again` is called: like RabbitMQ, the broker declares a queue
    anew that was deleted meanwhile. One that has had a fault, or has still to go, is not gone."""

    __slots__ = ("again", "is_gone")

    def __init__(
        self,
        method: Method,
        answer_with: Callable[[Any], None],
        is_gone: Callable[[], bool],
        again: Callable[[], None],
    ) -> None:
        super().__init__(method, answer_with)
        self.is_gone = is_gone
        self.again = again

    def answer(self, answer: object) -> None:
        if isinstance(answer, Refuse) and self.is_gone():
            self.again()
        else:
            super().answer(answer)


def violation_of(refusal: SluiceError) -> ProtocolViolation:
    """Return what the client is told when its change is refused: the refusal itself if it is a
    violation, else a 406 with its text."""
    if isinstance(refusal, ProtocolViolation):
        return refusal
    return ChannelViolation(406, str(refusal))
