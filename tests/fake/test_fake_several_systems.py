"""A program that has several systems says in which it makes an actor."""

import threading

import pytest

import rayshot
from rayshot.errors import ConfigError, SystemStopped
from rayshot.runtime.door import door
from rayshot.runtime.opening import ports
from rayshot.simulation import SimulatedSystem
from tests.fake.account import Account
from tests.fake.system import begin


@pytest.fixture
def bank(cluster):
    return begin("bank")


@pytest.fixture
def shop(bank):
    return begin("shop")


def system_of(handle):
    assert door.get(handle.read.remote()) == 1
    return repr(handle).split("(")[1].split("/")[0]


def test_with_one_system_nobody_names_it_and_none_is_there_behind_its_end(bank):
    assert system_of(Account.remote(1)) == "bank"
    bank.shutdown()
    with pytest.raises(SystemStopped, match="system 'bank' was shut down"):
        Account.remote(1)
    begin("shop")
    assert system_of(Account.remote(1)) == "shop"


def test_the_life_that_follows_is_no_other_system(bank):
    rayshot.System(bank._identity)
    assert system_of(Account.remote(1)) == "bank"


@pytest.mark.parametrize("ended", [(), ("bank",), ("shop",), ("bank", "shop")], ids="-".join)
def test_with_several_one_must_be_named_also_behind_the_end_of_all_but_one(bank, shop, ended):
    for one in (bank, shop):
        if one.name in ended:
            one.shutdown()
    with pytest.raises(
        ConfigError, match=r"any of the systems bank.*, shop.*: say which, as in Class\.options"
    ) as raised:
        Account.remote(1)
    assert [name for name in ("bank", "shop") if f"{name} (shut down)" in raised.value.message] == list(ended)


def test_an_option_names_a_system_or_is_one(bank, shop):
    assert system_of(Account.options(system="bank").remote(1)) == "bank"
    assert system_of(Account.options(system=shop, name="alice").options(num_cpus=0).remote(1)) == "shop"
    assert set(shop.actors()) == {"alice"}
    queue = rayshot.Queue(actor_options={"system": bank, "name": "work"})
    assert queue.empty()
    assert "work" in bank.actors()
    for wrong in (5, "ba nk"):
        with pytest.raises(ConfigError):
            Account.options(system=wrong)


def test_inside_a_block_its_system_is_meant_and_outside_none_again(bank, shop):
    with bank:
        with shop:
            assert system_of(Account.remote(1)) == "shop"
            assert system_of(Account.options(system=bank).remote(1)) == "bank"
        assert system_of(Account.remote(1)) == "bank"
    with pytest.raises(ConfigError):
        Account.remote(1)


def test_a_block_counts_for_its_own_thread(bank, shop):
    found = []

    def make():
        try:
            Account.remote(1)
        except ConfigError as error:
            found.append(error)

    with bank:
        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
    assert found


@rayshot.actor(capture="inline")
class Opener:
    def open(self, system=None):
        return Account.options(**({} if system is None else {"system": system})).remote(1)


def test_an_actor_makes_actors_of_its_own_system_and_of_no_other(bank, shop):
    opener = Opener.options(system=shop).remote()
    with bank:
        assert system_of(door.get(opener.open.remote())) == "shop"
        assert system_of(door.get(opener.open.remote("shop"))) == "shop"
        with pytest.raises(ConfigError, match="belong to system 'shop', and not to 'bank'"):
            door.get(opener.open.remote("bank"))


@pytest.mark.parametrize("used", [(), ("bank",), ("bank", "shop")], ids=lambda used: "-".join(used) or "none")
def test_a_process_that_has_only_used_handles_takes_the_only_system_that_runs_and_chooses_none_of_several(
    cluster, bank, shop, used
):
    cluster.act_as(cluster.new_program("a task"))
    for name in used:
        ports.driver_port(name)
    with pytest.raises(ConfigError, match="any of the systems bank, shop: say which"):
        Account.remote(1)
    assert system_of(Account.options(system="shop").remote(1)) == "shop"
    cluster.act_as(cluster.program)
    shop.shutdown()
    cluster.settle()
    cluster.act_as(cluster.new_program("another task"))
    assert system_of(Account.remote(1)) == "bank"


def test_in_a_simulated_world_its_own_system_is_meant(bank, shop):
    with SimulatedSystem(0) as world:
        Account.options(name="alice").remote(1)
        with pytest.raises(ConfigError, match="and not to 'bank'"):
            Account.options(system="bank").remote(1)
        world.run()
        assert set(world.actors) == {"alice"}
