"""Who attaches with edited classes is told so, beside what the program does."""

import rayshot
from rayshot.runtime.door.naming import find_coordinator
from rayshot.runtime.opening.init import attach_to
from rayshot.runtime.opening.old_code import WITHIN_S
from tests.fake import account
from tests.fake.account import Account
from tests.fake.system import actor, begin, read


class Edited:
    """An account with other code."""

    __qualname__ = Account.__qualname__


def test_an_actor_that_does_not_answer_delays_nobody_and_the_warning_follows(cluster, monkeypatch, caplog):
    begin()
    for name in ("alice", "bob"):
        read(Account.options(name=name).remote(1))
    monkeypatch.setattr(account, "Account", rayshot.actor(Edited))
    cluster.act_as(cluster.new_program("another program"))
    actor(cluster, "alice").run.is_stopped = True
    before_s = cluster.schedule.now_s
    attach_to("bank", find_coordinator("bank"))
    assert cluster.schedule.now_s == before_s
    cluster.schedule.pass_s(2 * WITHIN_S)
    (said,) = (text for text in caplog.messages if "another code" in text)
    assert "of class Account than this program has: bob." in said
