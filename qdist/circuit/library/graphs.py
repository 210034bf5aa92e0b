"""Edges: of lattices, of the user's graphs, and of the entangling layers of an ansatz."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from qdist.hints import hinted

from ..errors import CircuitError
from .arguments import listed, real

Edge: TypeAlias = tuple[int, int]
Entanglement: TypeAlias = "str | Iterable[Edge]"


def weighted_edges(graph: Any) -> tuple[int, list[tuple[int, int, float]]]:
    """The number of vertices of a graph and its edges (a, b, weight).

    Args:
        graph: pairs (a, b), triples (a, b, weight), {(a, b): weight}, or an object with such `edges`, like a networkx
            Graph (whose edge attribute "weight" is read). A missing weight is 1. Vertices are qubit numbers.

    Raises:
        CircuitError: for an edge of another form, a vertex that is not a qubit number, a loop or a repeated
            edge.
    """
    if isinstance(graph, Mapping):
        graph = [(*edge, weight) if isinstance(edge, tuple) else edge for edge, weight in graph.items()]
    edges = getattr(graph, "edges", graph)
    if callable(edges):
        edges = edges(data="weight", default=1.0)
    if not isinstance(edges, Iterable):
        raise CircuitError(f"a graph is a list of edges (a, b), or an object that has some; got {graph!r}")
    found: dict[frozenset[int], tuple[int, int, float]] = {}
    for edge in edges:
        if not isinstance(edge, Iterable) or len(ends := tuple(edge)) not in (2, 3):
            raise CircuitError(f"an edge is a pair (a, b) or a triple (a, b, weight); got {edge!r}")
        a, b, weight = ends if len(ends) == 3 else (*ends, 1.0)
        _check_vertices((a, b), "edge", edge)
        if frozenset((a, b)) in found:
            raise CircuitError(f"the edge between {a} and {b} is given twice; add up the weights")
        found[frozenset((a, b))] = (int(a), int(b), real(weight, f"the weight of edge ({a}, {b})"))
    vertices = list(getattr(graph, "nodes", ())) or [0]
    _check_vertices(vertices, "graph", graph)
    highest = max(itertools.chain(vertices, *found), default=0)
    return int(highest) + 1, list(found.values())


def _check_vertices(vertices: Sequence[Any], what: str, given: Any) -> None:
    for vertex in vertices:
        if isinstance(vertex, bool) or not hasattr(vertex, "__index__") or vertex < 0:
            raise CircuitError(
                f"the {what} {given!r} has the vertex {vertex!r}; vertices are the qubits 0, 1, 2, ... "
                "(networkx.convert_node_labels_to_integers relabels a graph)"
            )
    if len(set(vertices)) != len(vertices):
        raise CircuitError(f"the {what} {given!r} joins a vertex to itself")


@hinted
def lattice_edges(shape: int | Sequence[int], periodic: bool = False) -> list[Edge]:
    """Nearest neighbours of a chain, a rectangle or a lattice of more dimensions.

    Site (i, j, ...) of shape (a, b, ...) is the qubit with the row-major index (i * b + j) ..., so the last
    dimension runs fastest.

    Args:
        shape: a number of sites for a chain, or the sizes of all dimensions.
        periodic: close every dimension of more than two sites into a ring; one of two has its only edge
            already.

    >>> lattice_edges(4, periodic=True)
    [(0, 1), (1, 2), (2, 3), (3, 0)]
    >>> lattice_edges((2, 2))
    [(0, 2), (1, 3), (0, 1), (2, 3)]
    """
    sizes = _sizes(shape)
    edges = []
    for axis, size in enumerate(sizes):
        stride = math.prod(sizes[axis + 1 :])
        for site in itertools.product(*map(range, sizes)):
            index = 0
            for coordinate, length in zip(site, sizes):
                index = index * length + coordinate
            if site[axis] + 1 < size:
                edges.append((index, index + stride))
            elif periodic and size > 2:
                edges.append((index, index - (size - 1) * stride))
    return edges


def num_sites(shape: int | Sequence[int]) -> int:
    """The number of sites of a lattice."""
    return math.prod(_sizes(shape))


def _sizes(shape: int | Sequence[int]) -> list[int]:
    try:
        sizes = [operator.index(size) for size in (shape if isinstance(shape, Iterable) else [shape])]
    except TypeError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise CircuitError(f"a lattice has one or more positive sizes, got {shape!r}")
    return sizes


def disjoint_layers(edges: Iterable[Edge]) -> list[list[Edge]]:
    """The edges in layers of which none touches a vertex twice: a greedy edge colouring.

    >>> disjoint_layers([(0, 1), (1, 2), (2, 3)])
    [[(0, 1), (2, 3)], [(1, 2)]]
    """
    layers: list[list[Edge]] = []
    used: list[set[int]] = []
    for a, b in edges:
        for layer, vertices in zip(layers, used):
            if a not in vertices and b not in vertices:
                layer.append((a, b))
                vertices |= {a, b}
                break
        else:
            layers.append([(a, b)])
            used.append({a, b})
    return layers


def entangling_pairs(num_qubits: int, entanglement: Entanglement) -> list[Edge]:
    """The (control, target) pairs of an entangling layer.

    Args:
        num_qubits: the number of qubits.
        entanglement: "linear" (a chain: (0, 1), (1, 2), ...), "reverse_linear" (the chain from its end),
            "circular" (a ring: (n - 1, 0), then the chain), "full" (every i < j), "pairwise" (even bonds,
            then odd bonds), or the pairs themselves. The names and orders are Qiskit's.
    """
    chain = [(q, q + 1) for q in range(num_qubits - 1)]
    if not isinstance(entanglement, str):
        pairs = [listed(pair, "a pair", "two qubits") for pair in listed(entanglement, "entanglement", "pairs (a, b)")]
        if any(len(pair) != 2 for pair in pairs):
            raise CircuitError(f"entanglement must be a list of pairs (a, b); got {entanglement!r}")
        return [(a, b) for a, b in pairs]
    match entanglement:
        case "linear":
            return chain
        case "reverse_linear":
            return chain[::-1]
        case "circular":
            return ([(num_qubits - 1, 0)] if num_qubits > 2 else []) + chain
        case "full":
            return list(itertools.combinations(range(num_qubits), 2))
        case "pairwise":
            return chain[::2] + chain[1::2]
    raise CircuitError(
        f"entanglement {entanglement!r} is not known; use 'linear', 'reverse_linear', 'circular', 'full', "
        "'pairwise' or a list of pairs"
    )
