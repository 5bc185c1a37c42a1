"""Frozen data behaves as the standard frozen dataclass with slots does."""

from __future__ import annotations

import copy
import pickle
import weakref
from dataclasses import FrozenInstanceError, asdict, astuple, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import msgspec
import pytest

from counterpoint.core.frozen import frozen

T = TypeVar("T")


@frozen
class Ours:
    KIND: ClassVar[str] = "point"

    x: int
    y: float = 2.5
    names: list[str] = field(default_factory=list[str])
    remark: str = field(default="", repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Standard:
    KIND: ClassVar[str] = "point"

    x: int
    y: float = 2.5
    names: list[str] = field(default_factory=list[str])
    remark: str = field(default="", repr=False, compare=False)


@frozen(kw_only=True)
class Named:
    a: int
    b: tuple[int, ...] = ()


@frozen(eq=False)
class Self:
    value: int


@frozen(slots=False)
class Caching:
    value: int
    half: float = field(init=False)
    more: int = field(default=3)

    def __post_init__(self) -> None:
        object.__setattr__(self, "half", self.value / 2)

    @cached_property
    def double(self) -> int:
        return self.value * 2


@frozen
class Empty:
    pass


VALUES: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1,), {}),
    ((1, 3.5), {}),
    ((1,), {"names": ["a"], "remark": "why"}),
    ((), {"x": 1, "y": 0.0}),
]


def _copied(data: T) -> T:
    return pickle.loads(pickle.dumps(data))  # noqa: S301 - made in this line


@pytest.mark.parametrize(("values", "named"), VALUES)
def test_as_the_standard_decorator(values: tuple[Any, ...], named: dict[str, Any]) -> None:
    ours, standard = Ours(*values, **named), Standard(*values, **named)
    assert repr(ours) == repr(standard).replace("Standard", "Ours")
    assert asdict(ours) == asdict(standard)
    assert astuple(ours) == astuple(standard)
    assert [(f.name, f.type, f.default, f.repr, f.compare) for f in fields(ours)] == [
        (f.name, f.type, f.default, f.repr, f.compare) for f in fields(standard)
    ]
    assert asdict(replace(ours, x=7)) == asdict(replace(standard, x=7))
    assert msgspec.json.encode(ours) == msgspec.json.encode(standard)
    assert msgspec.convert(asdict(ours), Ours) == ours
    assert Ours.__match_args__ == Standard.__match_args__
    assert ours == Ours(*values, **named)
    assert ours == replace(ours, remark="another")
    assert ours != replace(ours, x=9)
    assert ours != standard
    for same in (copy.copy(ours), copy.deepcopy(ours), _copied(ours)):
        assert same == ours
        assert same is not ours


def test_values_cannot_be_set_or_deleted() -> None:
    ours = Ours(1)
    with pytest.raises(FrozenInstanceError, match=r"assign .*'x'"):
        ours.x = 2  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(FrozenInstanceError, match=r"delete .*'x'"):
        del ours.x  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(FrozenInstanceError):
        ours.other = 2  # pyright: ignore[reportAttributeAccessIssue]
    assert not hasattr(ours, "__dict__")


def test_each_instance_has_its_own_default() -> None:
    Ours(1).names.append("a")
    assert Ours(1).names == []


@pytest.mark.parametrize("arguments", [{}, {"x": 1, "z": 2}])
def test_wrong_arguments_are_named(arguments: dict[str, int]) -> None:
    with pytest.raises(TypeError, match=r"Ours\.__init__\(\)"):
        Ours(**arguments)  # pyright: ignore[reportArgumentType, reportCallIssue]


def test_fields_by_keyword_only() -> None:
    assert Named(a=1) == Named(a=1, b=())
    assert hash(Named(a=1)) == hash(Named(a=1, b=()))
    assert Named.__match_args__ == ()
    with pytest.raises(TypeError):
        Named(1)  # pyright: ignore[reportCallIssue]


def test_weak_references_where_they_are_wanted() -> None:
    @frozen(weakref_slot=True)
    class Referred:
        value: int

    referred = Referred(1)
    assert weakref.ref(referred)() is referred
    assert copy.copy(referred) == referred
    with pytest.raises(TypeError):
        weakref.ref(Ours(1))


def test_identity_where_equality_is_not_wanted() -> None:
    one = Self(1)
    assert one != Self(1)
    assert {one: 1}[one] == 1


def test_without_slots_values_can_be_cached() -> None:
    caching = Caching(3)
    assert (caching.double, caching.half, caching.more) == (6, 1.5, 3)
    assert caching == Caching(3)
    assert _copied(caching).double == 6
    with pytest.raises(FrozenInstanceError):
        caching.value = 2  # pyright: ignore[reportAttributeAccessIssue]


def test_a_class_without_fields() -> None:
    assert Empty() == Empty()
    assert repr(Empty()) == "Empty()"


def test_patterns() -> None:
    match Ours(1, 2.0):
        case Ours(1, y):
            assert y == 2.0
        case _:
            pytest.fail("no match")


def test_what_a_class_defines_itself_is_kept() -> None:
    @frozen
    class Odd:
        value: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Odd) and self.value % 2 == other.value % 2

        def __hash__(self) -> int:
            return self.value % 2

        def __repr__(self) -> str:
            return "odd"

    assert Odd(1) == Odd(3)
    assert hash(Odd(1)) == hash(Odd(3))
    assert repr(Odd(1)) == "odd"


def test_mutable_defaults_are_refused() -> None:
    with pytest.raises(ValueError, match="default of Wrong"):

        @frozen
        class Wrong:
            names: list[str] = []  # noqa: RUF012


def test_frozen_data_is_not_extended() -> None:
    with pytest.raises(TypeError, match="Wider extends"):

        @frozen
        class Wider(Named):
            c: int = 1
