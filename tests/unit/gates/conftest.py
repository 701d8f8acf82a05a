"""The bench as a program one can ask questions of: which classes are there, of what type is this, who calls whom.

Types are read off annotations, constructors and assignments, as far as the bench's own code needs it.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import bench
import fixtures

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Class:
    """A class of the program: its methods, and what its attributes are made from, with the method that says so."""

    module: str
    name: str
    bases: list[str]
    methods: dict[str, ast.FunctionDef] = field(default_factory=dict)
    attributes: dict[str, list[tuple[ast.expr, bool, ast.FunctionDef | None]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """Where an expression stands."""

    module: str
    owner: str | None
    function: ast.FunctionDef | None

    @property
    def name(self) -> str:
        parts = (self.module, self.owner, self.function.name if self.function else None)
        return ".".join(part for part in parts if part)


class Program:
    """The syntax trees of some modules, by module name → source."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self.trees: dict[str, ast.Module] = {}
        self.classes: dict[str, Class] = {}
        self.functions: dict[str, ast.FunctionDef] = {}
        self.imported: dict[str, dict[str, str]] = {}
        self._locals: dict[int, dict[str, list[tuple[ast.expr, bool]]]] = {}
        for module, source in sources.items():
            self._add(module, ast.parse(source))

    def _add(self, module: str, tree: ast.Module) -> None:
        self.trees[module] = tree
        self.imported[module] = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                self.functions[f"{module}.{node.name}"] = node
            elif isinstance(node, ast.ClassDef):
                self.classes[node.name] = _class(module, node)

    def plus(self, module: str, source: str) -> Program:
        """Return this program and one module more."""
        more = copy.copy(self)
        more.trees, more.classes = dict(self.trees), dict(self.classes)
        more.functions, more.imported = dict(self.functions), dict(self.imported)
        more._add(module, ast.parse(source))
        return more

    def places(self) -> Iterator[tuple[Place, ast.FunctionDef]]:
        """Every function and method, with where it is."""
        for module, tree in self.trees.items():
            for node in tree.body:
                if isinstance(node, ast.FunctionDef):
                    yield Place(module, None, node), node
                elif isinstance(node, ast.ClassDef):
                    for inner in node.body:
                        if isinstance(inner, ast.FunctionDef):
                            yield Place(module, node.name, inner), inner

    def attribute_types(self, cls: Class) -> Iterator[tuple[str, str | None]]:
        """Name and type of whatever a class keeps."""
        for name, values in cls.attributes.items():
            for value, is_annotation, method in values:
                place = Place(cls.module, cls.name, method)
                yield name, annotated(value) if is_annotation else self.type_of(value, place)

    def is_module(self, node: ast.expr, place: Place) -> bool:
        """Whether an expression is the name of a module of the standard library."""
        return isinstance(node, ast.Name) and any(
            isinstance(each, ast.Import) and node.id in [alias.asname or alias.name for alias in each.names]
            for each in self.trees[place.module].body
        )

    # -- types

    def type_of(self, node: ast.expr, place: Place, depth: int = 0) -> str | None:
        """Return the name of the class an expression is of, None where that cannot be told."""
        if depth > 12:
            return None
        match node:
            case ast.Name(id="self"):
                return place.owner
            case ast.Name(id=name):
                return self._of_name(name, place, depth)
            case ast.Attribute(value=value, attr=attr):
                owner = self.type_of(value, place, depth + 1)
                return self._of_attribute(owner, attr, depth) if owner else None
            case ast.Call(func=func):
                return self._of_call(func, place, depth)
            case ast.BoolOp(values=[first, *_]) | ast.IfExp(body=first) | ast.Await(value=first):
                return self.type_of(first, place, depth + 1)
        return None

    def _of_name(self, name: str, place: Place, depth: int) -> str | None:
        if place.function is None:
            return None
        for value, is_annotation in self._named(place.function).get(name, []):
            found = annotated(value) if is_annotation else self.type_of(value, place, depth + 1)
            if found:
                return found
        return None

    def _named(self, function: ast.FunctionDef) -> dict[str, list[tuple[ast.expr, bool]]]:
        if id(function) in self._locals:
            return self._locals[id(function)]
        named: dict[str, list[tuple[ast.expr, bool]]] = {}
        arguments = function.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if argument.annotation is not None:
                named.setdefault(argument.arg, []).append((argument.annotation, True))
        for node in ast.walk(function):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                named.setdefault(node.target.id, []).append((node.annotation, True))
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    for name, value in _pairs(target, node.value):
                        if isinstance(name, ast.Name):
                            named.setdefault(name.id, []).append((value, False))
            elif isinstance(node, ast.With):
                for item in node.items:
                    if isinstance(item.optional_vars, ast.Name):
                        named.setdefault(item.optional_vars.id, []).append((item.context_expr, False))
        self._locals[id(function)] = named
        return named

    def _of_attribute(self, owner: str, attr: str, depth: int) -> str | None:
        for cls in self.lineage(owner):
            if attr in cls.methods:
                method = cls.methods[attr]
                is_property = any(isinstance(d, ast.Name) and d.id == "property" for d in method.decorator_list)
                return annotated(method.returns) if is_property else None
            for value, is_annotation, method_of in cls.attributes.get(attr, []):
                place = Place(cls.module, cls.name, method_of)
                found = annotated(value) if is_annotation else self.type_of(value, place, depth + 1)
                if found:
                    return found
        return None

    def _of_call(self, func: ast.expr, place: Place, depth: int) -> str | None:
        for target in self.targets(func, place, depth + 1):
            owner, _, name = target.rpartition(".")
            if name == "__init__":
                return owner
            cls = self.classes.get(owner)
            function = cls.methods.get(name) if cls else self.functions.get(target)
            if function is not None:
                return annotated(function.returns)
        return None

    # -- calls

    def targets(self, func: ast.expr, place: Place, depth: int = 0) -> list[str]:
        """Return what ``func`` names: ``module.function``, ``Class.method``, ``Class.__init__``."""
        if isinstance(func, ast.Name):
            full = self.imported[place.module].get(func.id, f"{place.module}.{func.id}")
            if full in self.functions:
                return [full]
            if full.rpartition(".")[2] in self.classes:
                return [f"{full.rpartition('.')[2]}.__init__"]
            if place.function is not None and depth < 8:
                values = self._named(place.function).get(func.id, [])
                return [t for v, annotation in values if not annotation for t in self.targets(v, place, depth + 1)]
            return []
        if isinstance(func, ast.Attribute):
            owner = self.type_of(func.value, place, depth + 1)
            for cls in self.lineage(owner) if owner else ():
                if func.attr in cls.methods:
                    return [f"{cls.name}.{func.attr}"]
                for value, is_annotation, method in cls.attributes.get(func.attr, ()):
                    bound = not is_annotation and isinstance(value, ast.Attribute)  # self._ask = drive.ask
                    if (
                        bound
                        and depth < 8
                        and (found := self.targets(value, Place(cls.module, cls.name, method), depth))
                    ):
                        return found
        return []

    def lineage(self, name: str | None) -> Iterator[Class]:
        """A class of the program and those it is derived from, nearest first."""
        cls = self.classes.get(name or "")
        if cls is not None:
            yield cls
            for base in cls.bases:
                yield from self.lineage(base)


def annotated(node: ast.expr | None) -> str | None:
    """``LinearStage``, ``"LinearStage"``, ``LinearStage | None`` → ``LinearStage``."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Constant(value=str(text)):
            return annotated(ast.parse(text, mode="eval").body)
        case ast.BinOp(left=left, op=ast.BitOr()):
            return annotated(left)
        case ast.Attribute(attr=name):
            return name
    return None


def _class(module: str, node: ast.ClassDef) -> Class:
    cls = Class(module, node.name, [base for each in node.bases if (base := annotated(each))])
    for inner in node.body:
        if isinstance(inner, ast.FunctionDef):
            cls.methods[inner.name] = inner
            for statement in ast.walk(inner):
                targets = statement.targets if isinstance(statement, ast.Assign) else []
                for target in targets:
                    for name, value in _pairs(target, statement.value):
                        if isinstance(name, ast.Attribute) and isinstance(name.value, ast.Name):
                            cls.attributes.setdefault(name.attr, []).append((value, False, inner))
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Attribute):
                    cls.attributes.setdefault(statement.target.attr, []).append((statement.annotation, True, inner))
        elif isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
            cls.attributes.setdefault(inner.target.id, []).append((inner.annotation, True, None))
    return cls


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        yield from zip(target.elts, value.elts, strict=True)
    else:
        yield target, value


@pytest.fixture(scope="session")
def bench_sources() -> dict[str, str]:
    """Module name → source, of all of the bench but the simulated lab."""
    found: dict[str, str] = {}
    for package in (bench, fixtures):
        root = Path(str(package.__file__)).parent
        for path in sorted(root.rglob("*.py")):
            name = ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")
            if not name.startswith("bench.twin"):
                found[name] = path.read_text(encoding="utf-8")
    return found


@pytest.fixture(scope="session")
def program_of() -> type[Program]:
    return Program
