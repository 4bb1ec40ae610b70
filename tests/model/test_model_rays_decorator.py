"""Ray's decorator over ours or under it, without a cluster."""

import pytest
import ray

import rayshot
from rayshot.errors import ConfigError
from rayshot.model.handle import ActorHandle


def test_rays_decorator_stands_over_or_under_ours(world):
    seen = []

    class Base:
        def __init_subclass__(cls, tag=None, **keywords):
            super().__init_subclass__(**keywords)
            seen.append((cls.__name__, tag))

    class Plain(Base, tag="plain"):
        def options(self):
            return "own"

    over = ray.remote(num_cpus=2, num_gpus=1)(rayshot.actor(num_cpus=1, capture="inline")(Plain))
    assert seen == [("Plain", "plain"), ("Class", None), ("DerivedActorClass", None)]
    assert isinstance(over, ray.actor.ActorClass)
    for made in (over.remote, over.options(num_cpus=3).remote, Plain.remote):
        assert isinstance(made(), ActorHandle)
    with pytest.raises(ConfigError, match="dag-bind"):
        over.bind()
    assert [one.options for one, *_ in world.spawned] == [
        {"num_cpus": 2, "num_gpus": 1, "capture": "inline"},
        {"num_cpus": 3, "num_gpus": 1, "capture": "inline"},
        {"num_cpus": 1, "capture": "inline"},
    ]
    assert {one.resolve() for one, *_ in world.spawned} == {Plain}

    class Other(Base):
        pass

    assert rayshot.actor(capture="inline")(ray.remote(num_cpus=2)(Other)) is Other
    Other.remote()
    assert world.spawned[-1][0].options == {"num_cpus": 2, "capture": "inline"}


def test_an_undecorated_subclass_under_rays_decorator_is_a_plain_actor_of_rays():
    class Base:
        pass

    rayshot.actor(Base)
    plain = ray.remote(type("More", (Base,), {}))
    assert type(plain).remote is not ray.remote(Base).remote
    assert plain.remote.__func__ is ray.actor.ActorClass.remote
