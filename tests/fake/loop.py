"""The event loop of an actor on the fake: while it waits, others run, and its clock is that of the schedule."""

from rayshot.model.event_loop import ActorLoop
from tests.fake.threads import schedule


class FakeLoop(ActorLoop):
    """See the module."""

    def __init__(self):
        self._thread = None
        super().__init__()

    def time(self):
        return schedule().now_s

    def wait(self, poll, timeout):
        ready = poll(0)
        if ready or timeout == 0:
            return ready
        plan = schedule()
        self._thread = plan.current
        try:
            plan.park("its event loop", timeout)
        finally:
            self._thread = None
        return poll(0)

    def _write_to_self(self):
        super()._write_to_self()
        if self._thread is not None:
            schedule().wake(self._thread, self._thread.ticket)
