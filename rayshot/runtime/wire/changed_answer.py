"""What a program is told of answers that it had got, and that a later life of its system gave otherwise."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChangedAnswer:
    """The system went back, and gave another answer to a call in its new `life` than the program had got before.

    The call was message `number` of this program to `actor`, and called its `method`. `before` is the answer that the
    program got, `now` that of the new life; both are texts of at most 100 characters: the repr of a small value, of
    others the class. Behind the first answer the program sent something: `then` is the actor and the method of its
    first message. A method is empty if the program does not keep that message any more. `count`: so many answers of
    this method changed, and this is the first of them.
    """

    life: int
    actor: str
    method: str
    number: int
    before: str
    now: str
    then: tuple[str, str]
    count: int = 1

    @property
    def what(self) -> str:
        """The call and what followed it, in words, without the answers."""
        then = ".".join(filter(None, self.then))
        return f"message {self.number} to {self.actor!r} (.{self.method}), behind which it had sent {then}"
