"""Attributes of foreign code are replaced, and come back, in whatever order."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from ipu_runtime.frameworks.patching import (
    Patch,
    answering,
    applied,
    around,
    instead,
    patches_everywhere,
)


@pytest.fixture
def owner() -> Any:
    """A class that the test may change."""

    class Foreign:
        def name(self) -> str:
            return "own"

        @staticmethod
        def kind() -> str:
            return "own kind"

    return Foreign


def _saying(word: str) -> Callable[..., str]:
    return lambda original, self: f"{word} {original(self)}"


def _patch(owner: Any, word: str) -> Patch:
    return Patch(owner, "name", around(_saying(word)))


def test_the_attribute_is_replaced_inside_and_back_afterwards(owner: Any) -> None:
    before = vars(owner)["name"]
    with _patch(owner, "new").applied():
        assert owner().name() == "new own"
    assert vars(owner)["name"] is before


def test_it_is_put_back_after_an_error(owner: Any) -> None:
    with pytest.raises(KeyError), _patch(owner, "new").applied():
        raise KeyError
    assert owner().name() == "own"


def test_a_patch_that_is_applied_twice_replaces_once(owner: Any) -> None:
    patch = _patch(owner, "new")
    with patch.applied():
        with patch.applied():
            assert owner().name() == "new own"
        assert owner().name() == "new own"
    assert owner().name() == "own"


def test_patches_of_one_attribute_stand_on_each_other(owner: Any) -> None:
    with applied([_patch(owner, "first"), _patch(owner, "second")]):
        assert owner().name() == "second first own"
    assert owner().name() == "own"


def test_who_came_first_may_leave_first(owner: Any) -> None:
    first, second = _patch(owner, "first").applied(), _patch(owner, "second").applied()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert owner().name() == "second own"
    second.__exit__(None, None, None)
    assert owner().name() == "own"


def test_an_inherited_attribute_is_inherited_again(owner: Any) -> None:
    derived = type("Derived", (owner,), {})
    with _patch(derived, "new").applied():
        assert derived().name() == "new own"
        assert owner().name() == "own"
    assert "name" not in vars(derived)


def test_an_attribute_of_one_instance_is_replaced(owner: Any) -> None:
    item = owner()
    stand_in = around(lambda original: f"only {original()}")
    with Patch(item, "name", stand_in).applied():
        assert item.name() == "only own"
        assert owner().name() == "own"
    assert vars(item) == {}


def test_an_attribute_that_nobody_has_is_gone_afterwards(owner: Any) -> None:
    with Patch(owner, "added", instead("here")).applied():
        assert owner.added == "here"
    assert not hasattr(owner, "added")


def test_a_static_method_stays_one(owner: Any) -> None:
    def replace(original: staticmethod[[], str]) -> Any:
        return staticmethod(lambda: f"new {original.__func__()}")

    with Patch(owner, "kind", replace).applied():
        assert owner().kind() == "new own kind"
    assert isinstance(vars(owner)["kind"], staticmethod)


def test_an_installed_patch_stays_below_later_ones(owner: Any) -> None:
    installed = _patch(owner, "installed")
    installed.install()
    installed.install()
    with _patch(owner, "scope").applied():
        assert owner().name() == "scope installed own"
    with installed.applied():
        pass
    assert owner().name() == "installed own"


def test_threads_that_come_and_go_leave_nothing_behind(owner: Any) -> None:
    start = threading.Barrier(4)

    def work(word: str) -> None:
        start.wait()
        for _ in range(300):
            with _patch(owner, word).applied():
                assert word in owner().name()

    errors: list[BaseException] = []

    def guarded(word: str) -> None:
        try:
            work(word)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(word,)) for word in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert owner().name() == "own"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, ModuleType]:
    """Two modules of a package, the second with a function of the first."""
    first, second = ModuleType("foreign.first"), ModuleType("foreign.second")
    vars(first)["load"] = vars(second)["load"] = lambda: "own"
    for module in (first, second):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(sys.modules, "foreign.again", second)
    return first, second


def test_a_function_is_replaced_once_wherever_it_is_imported_to(
    modules: tuple[ModuleType, ModuleType],
) -> None:
    stand_in = around(lambda original: f"new {original()}")
    patches = patches_everywhere(modules[0], "load", stand_in, "foreign.")
    with applied(patches):
        assert [module.load() for module in modules] == ["new own", "new own"]
    assert [module.load() for module in modules] == ["own", "own"]


def test_a_module_answers_to_further_names_after_its_own(
    modules: tuple[ModuleType, ModuleType],
) -> None:
    module = modules[0]
    vars(module)["__getattr__"] = {"older": 1}.__getitem__
    with answering(module, ("added",), lambda name: f"the {name}").applied():
        assert (module.added, module.older) == ("the added", 1)
    with pytest.raises(KeyError):
        _ = module.added


def test_a_name_that_a_module_does_not_have_is_an_error(
    modules: tuple[ModuleType, ModuleType],
) -> None:
    with (
        answering(modules[0], ("added",), str).applied(),
        pytest.raises(AttributeError, match=r"'foreign\.first' has no attribute 'no'"),
    ):
        _ = modules[0].no


class WithoutDictionary:
    """As TensorFlow's graphs: its attributes cannot be listed."""

    __slots__ = ("name",)


def test_patches_of_an_owner_without_a_dictionary_stand_on_each_other() -> None:
    item = WithoutDictionary()
    first, second = Patch(item, "name", instead("first")), Patch(item, "name", str)
    with first.applied():
        with second.applied():
            assert item.name == "first"
        assert item.name == "first"
    assert not hasattr(item, "name")
