"""The results of an audit."""

from dataclasses import dataclass

from rayshot.errors import Damaged


@dataclass(frozen=True, slots=True)
class Finding:
    """The result for one property.

    `holds` is None if there is nothing to judge it by; `detail` says what was proved, or why it was not.
    """

    name: str
    holds: bool | None
    detail: str


@dataclass(frozen=True, slots=True)
class Findings:
    """The results for all checked properties, in the order of the proof."""

    findings: tuple[Finding, ...]

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong. A property that could not be judged is not wrong."""
        return all(finding.holds is not False for finding in self.findings)

    def finding(self, name: str) -> Finding:
        """The finding with that name; raises KeyError."""
        return {finding.name: finding for finding in self.findings}[name]


class NoTrace(Exception):
    """The traces at hand do not reach far enough for a judgement."""


class Unproved(Damaged):
    """A property of a snapshot does not hold."""
