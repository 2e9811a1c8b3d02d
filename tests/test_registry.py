"""Factories."""

import json

import pytest

from mxjax import registry


class Animal:
    def __init__(self, legs=4):
        self.legs = legs


register = registry.get_register_func(Animal, "animal")
alias = registry.get_alias_func(Animal, "animal")
create = registry.get_create_func(Animal, "animal")


@register
@alias("puss", "Kitty")
class Cat(Animal):
    pass


@pytest.mark.parametrize("what, legs", [
    (("cat",), 4), (("PUSS", 3), 3), (("kitty",), 4), (({"animal": "cat", "legs": 2},), 2),
    ((json.dumps(["cat", {"legs": 1}]),), 1), ((json.dumps({"animal": "cat", "legs": 5}),), 5),
])
def test_create(what, legs):
    made = create(*what)
    assert type(made) is Cat and made.legs == legs


def test_create_by_keyword_and_from_instance():
    assert create(animal="cat", legs=7).legs == 7
    cat = Cat()
    assert create(cat) is cat


def test_wrong_calls():
    with pytest.raises(ValueError, match="'dog' is not registered; known: cat, kitty, puss"):
        create("dog")
    with pytest.raises(AssertionError, match="further arguments"):
        create(Cat(), legs=3)
    with pytest.raises(TypeError, match="must be a name"):
        create(3)
    with pytest.raises(KeyError, match="which animal"):
        create()
    with pytest.raises(AssertionError, match="subclass of Animal"):
        register(int)


def test_overriding_warns():
    with pytest.warns(UserWarning, match="overriding"):
        register(type("Cat", (Animal,), {}))
    register(Cat, "other")
    assert registry.get_registry(Animal)["other"] is Cat
