"""Graphs as csr matrices (row: vertex, column: neighbour, value: number of the edge), for DGL: sampling, subgraphs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from .._random.streams import host_generator
from ..array.creation import array
from ..array.dense import NDArray
from ..array.sparse import CSRNDArray, csr_matrix
from ..base import MXNetError
from ..context import Context
from ..ops.common import gives
from ..ops.on_host import on_host
from ..ops.params import Range, Shape

_Count = Annotated[int, Range(2)]


class _Graph:
    """A csr matrix as NumPy arrays."""

    def __init__(self, operator: str, csr: CSRNDArray) -> None:
        if csr.stype != "csr":
            raise MXNetError(f"operator {operator} expects graphs as csr matrices, got storage type {csr.stype!r}")
        self.pointers, self.columns, self.edges = (a.asnumpy() for a in (csr.indptr, csr.indices, csr.data))

    def of(self, vertex: int) -> tuple[np.ndarray, np.ndarray]:
        """(neighbours of a vertex, numbers of the edges to them)."""
        part = slice(self.pointers[vertex], self.pointers[vertex + 1])
        return self.columns[part], self.edges[part]


def _csr(rows: list[tuple[np.ndarray, np.ndarray]], shape: tuple[int, int], ctx: Context | None) -> Any:
    """A csr matrix of int64 out of (columns, values) of its first rows."""
    columns, values = ([r[k] for r in rows] or [np.zeros(0)] for k in (0, 1))
    lengths = [len(r[0]) for r in rows] + [0] * (shape[0] - len(rows))
    pointers = np.cumsum([0, *lengths])
    return csr_matrix((np.concatenate(values).astype(np.int64), np.concatenate(columns).astype(np.int64), pointers),
                      shape=shape, ctx=ctx, dtype="int64")


# -------------------------------------------------------------------- sampling
def _sample(graph: _Graph, seeds: np.ndarray, hops: int, neighbours: int, most: int, probability: np.ndarray | None,
            random: np.random.Generator) -> tuple[dict[int, int], dict[int, tuple[np.ndarray, np.ndarray]]]:
    """(distance from the seeds by vertex, sampled neighbours and edges by vertex), breadth first."""
    distance = {int(s): 0 for s in seeds}
    if len(seeds) > most:
        raise MXNetError(f"dgl sampling: {len(seeds)} seeds are more than max_num_vertices {most}")
    queue, sampled, place = list(distance), {}, 0
    while place < len(queue) and len(distance) < most:
        vertex = queue[place]
        place += 1
        if distance[vertex] >= hops:
            continue
        columns, edges = graph.of(vertex)
        if len(columns) > neighbours:
            weight = None if probability is None else probability[columns] / probability[columns].sum()
            chosen = np.sort(random.choice(len(columns), neighbours, replace=False, p=weight))
            columns, edges = columns[chosen], edges[chosen]
        sampled[vertex] = columns, edges
        for other in columns.tolist():
            if len(distance) < most and other not in distance:
                distance[other] = distance[vertex] + 1
                queue.append(other)
    if any(distance[v] < hops for v in queue[place:]):
        warnings.warn("the sampling is truncated because the maximum number of vertices is reached; use fewer seeds or "
                      "neighbours", stacklevel=2)
    return distance, sampled


def _sampled(operator: str, csr: CSRNDArray, probability: NDArray | None, seeds: tuple[NDArray, ...], hops: int,
             neighbours: int, most: int, ctx: Any) -> list[Any]:
    """All vertex arrays, then all graphs, (then all probabilities,) then all distances."""
    graph, weights = _Graph(operator, csr), None if probability is None else probability.asnumpy()
    random = host_generator(ctx)
    outputs: list[list[Any]] = [[], [], [], []]
    for seed in seeds:
        distance, sampled = _sample(graph, seed.asnumpy(), hops, neighbours, most, weights, random)
        vertices = sorted(distance)
        nothing = np.zeros(0), np.zeros(0)

        def filled(values: Sequence[float] | np.ndarray, length: int = most) -> np.ndarray:
            return np.concatenate([values, np.zeros(length - len(values))])
        numbers = filled(vertices, most + 1)
        numbers[most] = len(vertices)
        outputs[0].append(array(numbers, ctx, "int64"))
        outputs[1].append(_csr([sampled.get(v, nothing) for v in vertices], (most, csr.shape[1]), ctx))
        if weights is not None:
            outputs[2].append(array(filled(weights[vertices]), ctx, "float32"))
        outputs[3].append(array(filled([distance[v] for v in vertices]), ctx, "int64"))
    return [a for part in outputs for a in part]


@on_host("_contrib_dgl_csr_neighbor_uniform_sample", variadic="num_args", infer_type=gives("int64"),
         num_outputs=lambda p: 3 * (p["num_args"] - 1))
def uniform_sample(csr_matrix: CSRNDArray, *seed_arrays: NDArray, num_args: _Count, num_hops: int = 1,
                   num_neighbor: int = 2, max_num_vertices: int = 100, _ctx: Context | None = None) -> list[Any]:
    """Vertices within `num_hops` of each array of seeds, and at most `num_neighbor` random edges of each.

    Returns the vertices' numbers (max_num_vertices + 1,), their count at the end, then the graphs of the sampled edges
    (rows: these vertices), then the vertices' distances; int64.
    """
    return _sampled("dgl_csr_neighbor_uniform_sample", csr_matrix, None, seed_arrays, num_hops, num_neighbor,
                    max_num_vertices, _ctx)


@on_host("_contrib_dgl_csr_neighbor_non_uniform_sample", variadic="num_args", infer_type=gives("int64"),
         num_outputs=lambda p: 4 * (p["num_args"] - 2))
def non_uniform_sample(csr_matrix: CSRNDArray, probability: NDArray, *seed_arrays: NDArray, num_args: _Count,
                       num_hops: int = 1, num_neighbor: int = 2, max_num_vertices: int = 100,
                       _ctx: Context | None = None) -> list[Any]:
    """As the uniform form, with edges drawn by their vertices' `probability`, which comes before the distances."""
    return _sampled("dgl_csr_neighbor_non_uniform_sample", csr_matrix, probability, seed_arrays, num_hops, num_neighbor,
                    max_num_vertices, _ctx)


# -------------------------------------------------------------------- parts of graphs
def _numbered(rows: list[tuple[np.ndarray, np.ndarray]], size: int, ctx: Context | None, mapping: bool) -> list[Any]:
    """The graph with edges numbered from 0, and where asked for the same with the numbers that they had."""
    starts = np.cumsum([0, *(len(columns) for columns, _ in rows)])
    fresh = [(columns, np.arange(start, start + len(columns))) for (columns, _), start in
             zip(rows, starts, strict=False)]
    return [_csr(fresh, (size, size), ctx), *([_csr(rows, (size, size), ctx)] if mapping else [])]


def _grouped(pairs: list[list[Any]]) -> list[Any]:
    """All first ones, then all second ones."""
    return [p[k] for k in range(len(pairs[0])) for p in pairs]


@on_host("_contrib_dgl_subgraph", variadic="num_args", infer_type=gives("int64"),
         num_outputs=lambda p: (p["num_args"] - 1) * (1 + p["return_mapping"]))
def subgraph(graph: CSRNDArray, *data: NDArray, num_args: _Count, return_mapping: bool,
             _ctx: Context | None = None) -> list[Any]:
    """The graphs that arrays of vertices (sorted) span, edges numbered anew; and the edges' old numbers."""
    source, result = _Graph("dgl_subgraph", graph), []
    for vertices in (d.asnumpy().astype(np.int64) for d in data):
        place, rows = {int(v): i for i, v in enumerate(vertices)}, []
        for vertex in vertices:
            columns, edges = source.of(vertex)
            inside = np.array([c in place for c in columns.tolist()], bool)
            rows.append((np.array([place[c] for c in columns[inside].tolist()], np.int64), edges[inside]))
        result.append(_numbered(rows, len(vertices), _ctx, return_mapping))
    return _grouped(result)


@on_host("_contrib_dgl_graph_compact", variadic="num_args", infer_type=gives("int64"),
         num_outputs=lambda p: p["num_args"] // 2 * (1 + p["return_mapping"]))
def graph_compact(*graph_data: Any, num_args: _Count, return_mapping: bool, graph_sizes: Shape,
                  _ctx: Context | None = None) -> list[Any]:
    """Sampled graphs without their empty rows, and with columns numbered like rows.

    graph_data: graphs, then their vertex arrays, as the samplers return them; graph_sizes: numbers of vertices.
    """
    count, result = len(graph_data) // 2, []
    for csr, numbers, size in zip(graph_data[:count], graph_data[count:], graph_sizes, strict=True):
        graph, place = _Graph("dgl_graph_compact", csr), {int(v): i for i, v in enumerate(numbers.asnumpy()[:size])}
        rows = []
        for row in range(size):
            columns, edges = graph.of(row)
            if any(c not in place for c in columns.tolist()):
                raise MXNetError("operator dgl_graph_compact: an edge leads to a vertex that is not in its array")
            rows.append((np.array([place[c] for c in columns.tolist()], np.int64), edges))
        result.append(_numbered(rows, size, _ctx, return_mapping))
    return _grouped(result)


@on_host("_contrib_dgl_adjacency", infer_shape=lambda p, ins, outs: outs.__setitem__(0, outs[0] or ins[0]),
         infer_type=gives("float32"))
def adjacency(data: CSRNDArray, *, _ctx: Context | None = None) -> list[Any]:
    """The graph with 1 (float32) for each edge."""
    graph = _Graph("dgl_adjacency", data)
    parts = np.ones(len(graph.edges), np.float32), graph.columns, graph.pointers
    return [csr_matrix(parts, shape=data.shape, ctx=_ctx, dtype="float32")]
