"""Mutants of a module: its source with one operator, constant or choice changed, everywhere it can be."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_SWAPPED = {"min": "max", "max": "min"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed source.

    Args:
        line: where. said: what was changed. source: the whole module.
    """

    line: int
    said: str
    source: str


def mutants(source: str, functions: set[str] | None = None) -> Iterator[Mutant]:
    """Every mutant of the functions of a module.

    Args:
        source: the module's text.
        functions: names; None = all of them, methods included. Decorators, defaults and docstrings stay as they are.
    """
    tree = ast.parse(source)
    chosen = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (functions is None or node.name in functions)
    ]
    places = {id(inner): inner for function in chosen for part in function.body for inner in ast.walk(part)}
    for node in list(places.values()):
        for said, change in _changes(node):
            yield Mutant(getattr(node, "lineno", 0), said, _with(tree, node, change))


def _with(tree: ast.Module, node: ast.AST, change: ast.AST) -> str:
    """The module's text with one node replaced."""

    class Replace(ast.NodeTransformer):
        def visit(self, one: ast.AST) -> ast.AST:
            return change if one is node else self.generic_visit(one)

    copied = copy.deepcopy(tree, {id(node): node})  # in which the node is the very same, so that it can be found
    return ast.unparse(ast.fix_missing_locations(Replace().visit(copied)))


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for other in _COMPARED.get(type(node.ops[0]), ()):
            yield (
                f"{type(node.ops[0]).__name__} -> {other.__name__}",
                ast.Compare(node.left, [other()], node.comparators),
            )
    elif isinstance(node, ast.BinOp) and type(node.op) in _COMPUTED:
        other_op = _COMPUTED[type(node.op)]
        yield f"{type(node.op).__name__} -> {other_op.__name__}", ast.BinOp(node.left, other_op(), node.right)
    elif isinstance(node, ast.AugAssign) and type(node.op) in _COMPUTED:
        other_op = _COMPUTED[type(node.op)]
        yield (
            f"{type(node.op).__name__}= -> {other_op.__name__}=",
            ast.AugAssign(node.target, other_op(), node.value),
        )
    elif isinstance(node, ast.BoolOp):
        flipped = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield f"{type(node.op).__name__} -> {type(flipped).__name__}", ast.BoolOp(flipped, node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not left out", node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield f"{node.value} -> {not node.value}", ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield f"{node.value} -> {node.value + 1}", ast.Constant(node.value + 1)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _SWAPPED:
        yield (
            f"{node.func.id} -> {_SWAPPED[node.func.id]}",
            ast.Call(ast.Name(_SWAPPED[node.func.id]), node.args, node.keywords),
        )
    elif isinstance(node, ast.Break):
        yield "break -> pass", ast.Pass()
    elif isinstance(node, ast.Continue):
        yield "continue -> pass", ast.Pass()
