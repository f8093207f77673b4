"""Keras and TensorFlow are reached for, and changed, from one room only.

`ipu_runtime/frameworks` alone imports Keras and names what is not public in either.
Nobody else but `compat`, the habits of older scripts, replaces anything of theirs, and
that only by patches of `frameworks`. Ruff sees private attributes and banned imports;
what it does not see is found here.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FRAMEWORKS = ROOT / "ipu_runtime" / "frameworks"
COMPAT = ROOT / "ipu_runtime" / "compat"
PACKAGES = ("keras", "tensorflow")
GIVES_KERAS = "ipu_runtime.frameworks.keras_api"

AFFIXES = ("endswith", "removeprefix", "removesuffix", "replace", "startswith")
OWN_TAG = "_ipu"
"""What our own attributes of foreign objects begin with."""
NOT_OURS_EITHER = frozenset(
    {
        # Of Python: named tuples, and leaving a process at once.
        "_asdict",
        "_exit",
        "_fields",
        "_replace",
        # An argument of Graphcore's queues.
        "_internal_id",
    }
)
PRIVATE_MODULE = re.compile(
    r"(keras|tensorflow)(\.\w+)*\.(_(?!_)\w+|src|python|core|compiler)\b"
)
# What scripts import: the emulated API itself.
EMULATED = ("tensorflow.python.ipu", "tensorflow.compiler.plugin")


def names_of_ours(trees: Iterator[ast.Module] | list[ast.Module]) -> set[str]:
    """Return all that our sources define: whatever else is private is not ours."""
    found: set[str] = set()
    for tree in trees:
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    found.add(name)
                case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                    found.add(name)
                case ast.Attribute(
                    value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()
                ):
                    found.add(name)
                case ast.Call(
                    func=ast.Attribute(attr="__setattr__"),
                    args=[ast.Name(id="self"), ast.Constant(value=str(name)), _],
                ):
                    found.add(name)
    return found


def is_private(name: str) -> bool:
    return bool(re.fullmatch(r"_[a-z]\w*", name)) and not name.endswith("__")


def private_names(tree: ast.Module, ours: set[str]) -> list[str]:
    """Return private attributes and texts that nobody of us has defined."""
    known = ours | NOT_OURS_EITHER
    affixes = {id(text) for node in ast.walk(tree) for text in _parts_of_texts(node)}
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) if is_private(name) and name not in known:
                found.append(ast.unparse(node))
            case ast.Constant(value=str(text)) if id(node) not in affixes:
                tag = text.startswith(OWN_TAG)
                if (is_private(text) and text not in known and not tag) or (
                    PRIVATE_MODULE.match(text) and not text.startswith(EMULATED)
                ):
                    found.append(repr(text))
    return found


def _parts_of_texts(node: ast.AST) -> list[ast.expr]:
    """Return texts that are put behind others, or looked for in them."""
    match node:
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return [left, right]
        case ast.JoinedStr(values=values):
            return [v for v in values if "ipu" not in ast.unparse(v)]
        case ast.Call(func=ast.Attribute(attr=method), args=args) if method in AFFIXES:
            return args
    return []


def assignments(tree: ast.Module) -> list[str]:
    """Return what is assigned to attributes of what comes from Keras or TensorFlow.

    That is: of what is imported, of what is reached from that by attributes, of what
    either is bound to; and functions to attributes of whatever a variable holds.
    """
    foreign = _foreign_names(tree)
    made_here = {
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
    }
    of_others = {
        item.asname or item.name
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for item in node.names
    } - foreign
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(ctx=ast.Store() | ast.Del(), value=owner):
                if _root(owner) in foreign:
                    found.append(ast.unparse(node))
            case ast.Call(
                func=ast.Name(id="setattr" | "delattr"), args=[owner, *_]
            ) if _root(owner) in foreign:
                found.append(ast.unparse(node))
        match node:
            case ast.Assign(targets=[ast.Attribute(value=owner) as target], value=new):
                replaces = isinstance(new, ast.Lambda) or (
                    isinstance(new, ast.Name) and new.id in made_here
                )
                if replaces and _root(owner) not in {"self", "cls", *of_others}:
                    found.append(ast.unparse(target))
    return found


def _foreign_names(tree: ast.Module) -> set[str]:
    foreign: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for name in names:
                    if name.name.partition(".")[0] in PACKAGES:
                        foreign.add(name.asname or name.name.partition(".")[0])
            case ast.ImportFrom(module=str(module), names=names):
                if module.partition(".")[0] in PACKAGES or module == GIVES_KERAS:
                    foreign |= {name.asname or name.name for name in names}
    grown = True
    while grown:
        before = len(foreign)
        for node in ast.walk(tree):
            foreign |= _bound_to_foreign(node, foreign)
        grown = len(foreign) > before
    return foreign


def _bound_to_foreign(node: ast.AST, foreign: set[str]) -> set[str]:
    """Return the names that a statement binds to what comes from a framework."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return {name} if _root(value) in foreign else set()
        case ast.For(target=ast.Name(id=name), iter=ast.Tuple(elts=values)):
            return {name} if any(_root(v) in foreign for v in values) else set()
    return set()


def _root(node: ast.expr) -> str:
    """Return the name that a chain of attributes begins with; empty for others."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def imports_of_keras(tree: ast.Module) -> list[str]:
    """Return the modules of Keras that are imported other than by `keras_api`."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found += [item.name for item in names]
            case ast.ImportFrom(module=str(module)):
                found.append(module)
            case ast.Call(
                func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(module)), *_],
            ):
                found.append(module)
            case ast.Attribute(value=ast.Name(id="tf"), attr="keras"):
                found.append("tensorflow.keras")
    roots = ("keras", "tf_keras", "tensorflow.keras")
    return [
        name for name in found if f"{name}.".startswith(tuple(f"{r}." for r in roots))
    ]


def knows_frameworks(tree: ast.Module) -> bool:
    """Whether anything in a source imports Keras or TensorFlow, itself or from us."""
    return bool(_foreign_names(tree)) or "ipu_runtime.frameworks" in ast.unparse(tree)


SOURCES = {
    path: tree
    for package in ("ipu_runtime", "workbench")
    for path in sorted((ROOT / package).rglob("*.py"))
    if knows_frameworks(tree := ast.parse(path.read_text(encoding="utf-8")))
    or package == "ipu_runtime"
}
OURS = names_of_ours(list(SOURCES.values()))


def outside(*rooms: Path) -> Iterator[tuple[str, ast.Module]]:
    for path, tree in SOURCES.items():
        if not any(room in path.parents for room in rooms):
            yield str(path.relative_to(ROOT)), tree


def test_only_one_room_names_what_is_private() -> None:
    found = {
        path: names
        for path, tree in outside(FRAMEWORKS)
        if (names := private_names(tree, OURS))
    }
    assert found == {}


def test_only_patches_of_one_room_change_foreign_attributes() -> None:
    found = {
        path: names
        for path, tree in outside(FRAMEWORKS, COMPAT)
        if (names := assignments(tree))
    }
    assert found == {}


def test_only_one_room_imports_keras() -> None:
    found = {
        path: names
        for path, tree in outside(FRAMEWORKS)
        if path.startswith("ipu_runtime") and (names := imports_of_keras(tree))
    }
    assert found == {}


@pytest.mark.slow
def test_no_class_of_ours_overrides_what_is_private() -> None:
    import ipu_runtime

    for module in pkgutil.walk_packages(ipu_runtime.__path__, "ipu_runtime."):
        if "__main__" not in module.name:
            importlib.import_module(module.name)
    found = {
        (kind.__qualname__, name)
        for kind in _subclasses(object)
        if str(kind.__module__).startswith("ipu_runtime.")
        and not kind.__module__.startswith("ipu_runtime.frameworks.")
        for name in vars(kind)
        if is_private(name)
        and name != "_abc_impl"  # Every abstract class has one.
        and any(
            name in vars(base)
            for base in kind.__mro__
            if str(base.__module__).partition(".")[0] in PACKAGES
        )
    }
    assert found == set()


def _subclasses(kind: type) -> set[type]:
    direct = set(type.__subclasses__(kind))
    return direct.union(*map(_subclasses, direct))


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(self): return self._metrics", ["self._metrics"]),
        ("def f(model): return getattr(model, '_layers', None)", ["'_layers'"]),
        ("vars(tensor).get('_keras_history')", ["'_keras_history'"]),
        ("replacing(Model, '_set_monitor_op')", ["'_set_monitor_op'"]),
        ("import_module('keras.src.losses')", ["'keras.src.losses'"]),
        ("x = 'tensorflow.python.framework'", ["'tensorflow.python.framework'"]),
        ("x = 'keras._tf_keras.keras'", ["'keras._tf_keras.keras'"]),
        ("x = 'tensorflow.python.ipu.ops'", []),
        ("class A:\n    def f(self): self._own = self._own + 1", []),
        ("x = name.endswith('_momentum') or name + '_call'", []),
        ("vars(layer)['_ipu_stage'] = 1", []),
        ("config = settings._replace(count=1)", []),
        ("f'''{name}_batch_begin'''", []),
        ("Patch(keras.Model, '__new__', new)", []),
    ],
)
def test_a_planted_private_name_is_found(source: str, names: list[str]) -> None:
    tree = ast.parse(source)
    assert private_names(tree, names_of_ours([tree])) == names


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import keras\nkeras.Model.fit = f", ["keras.Model.fit"]),
        ("import tensorflow as tf\ndel tf.nn.relu", ["tf.nn.relu"]),
        ("import tensorflow as tf\ntf.x += 1", ["tf.x"]),
        (
            "from tensorflow.python.framework import ops\nops.Graph.device = f",
            ["ops.Graph.device"],
        ),
        (
            "from ipu_runtime.frameworks.keras_api import Model\nModel.fit = f",
            ["Model.fit"],
        ),
        (
            "from keras import layers\nkind = layers.Layer\nkind.call = f",
            ["kind.call"],
        ),
        (
            "import tensorflow as tf\nfor kind in (tf.Session, B):\n    kind.run = f",
            ["kind.run"],
        ),
        (
            "import keras\nsetattr(keras.Model, name, f)",
            ["setattr(keras.Model, name, f)"],
        ),
        ("graph = get()\ndef f(): ...\ngraph.capture = f", ["graph.capture"]),
        ("module.__getattr__ = lambda name: name", ["module.__getattr__"]),
        ("import keras\nmodel = keras.Model()\nmodel.stop_training = True", []),
        ("class A:\n    def f(self): self.g = lambda: 1", []),
        ("import threading\ndef f(): ...\nthreading.excepthook = f", []),
        ("import numpy as np\noptions.count = np.zeros(2)", []),
    ],
)
def test_a_planted_assignment_is_found(source: str, found: list[str]) -> None:
    assert assignments(ast.parse(source)) == found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import keras", ["keras"]),
        ("from keras.layers import Dense", ["keras.layers"]),
        ("import tf_keras as keras", ["tf_keras"]),
        ("def f():\n    importlib.import_module('keras')", ["keras"]),
        ("layer = tf.keras.layers.Dense(2)", ["tensorflow.keras"]),
        ("from ipu_runtime.frameworks.keras_api import keras", []),
    ],
)
def test_a_planted_import_of_keras_is_found(source: str, found: list[str]) -> None:
    assert imports_of_keras(ast.parse(source)) == found
