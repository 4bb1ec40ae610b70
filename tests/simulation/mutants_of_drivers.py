"""Mutants of how dead drivers are forgotten, and of the order in which a driver sends again."""

from dataclasses import replace

from rayshot.protocol.cut import Cut
from rayshot.protocol.driver import Driver
from rayshot.protocol.identity import is_driver
from rayshot.protocol.participant import Participant
from rayshot.protocol.record import Record
from tests.simulation.mutation import mutant, patched

DYING = {"driver_deaths": 2, "drivers": 2, "snapshots": 5, "activity": 40, "length": 200}


@mutant("a late batch of a forgotten driver is taken for the first one of another", duplicated_one_in=2, **DYING)
class NameForgotten(Participant):
    def _batch_arrived(self, batch):
        forgotten, self._forgotten = self._forgotten, set()
        effects = super()._batch_arrived(batch)
        self._forgotten = forgotten
        return effects


@mutant("a record does not say how many drivers were forgotten", **DYING)
class ForgettingUnsaid(Participant):
    def _make_record(self, captured, recorder):
        return replace(super()._make_record(captured, recorder), forgotten=0)


patched(
    "a dead driver is forgotten while its messages wait",
    (Record, "past_drivers", property(lambda self: frozenset(filter(is_driver, self.closed)))),
    **DYING,
)

reaches = Cut._reaches


def reaches_without_what_it_does_not_know(self, name, older):
    mine = self.records.get(name)
    if mine is None:
        return reaches(self, name, older)
    records = {**self.records, name: replace(mine, forgotten=older.forgotten + 1)}
    return reaches(replace(self, records=records), name, older)


patched(
    "a cut that does not know a driver counts as one that has forgotten it",
    (Cut, "_reaches", reaches_without_what_it_does_not_know),
    **DYING,
)


AGAIN = {"crashes": 3, "drivers": 3, "snapshots": 8, "activity": 150, "length": 300}


@mutant("a driver sends again without waiting for answers", **AGAIN)
class ImpatientDriver(Driver):
    def _answer_arrived(self, answer):
        return super()._answer_arrived(replace(answer, number=0))


@mutant("a driver takes an answer of the life before for one of this life", **AGAIN)
class ConfusedDriver(Driver):
    def _answer_arrived(self, answer):
        return super()._answer_arrived(replace(answer, incarnation=self.incarnation))


@mutant("a driver takes what a stored cut has in a mailbox for processed", **AGAIN)
class HastyDriver(Driver):
    def _release(self, cut):
        return super()._release(replace(cut, received=cut.sent))


@mutant("a driver takes what the restored cut has in a mailbox for processed", **AGAIN)
class RestoredHastyDriver(Driver):
    def _roll_back(self, back):
        return super()._roll_back(replace(back, received=back.sent))
