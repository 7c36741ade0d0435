"""Ferrowarp's operations as PyTorch's own: with gradients, and kept whole by ``torch.compile``.

The functions have the names and arguments of those of ``ferrowarp``. Each is an operator ``torch.ops.ferrowarp.…``, so that
``torch.compile(…, fullgraph=True)`` and ``torch.export`` trace through it. ``softmax``, ``layer_norm``, ``rms_norm``,
``attention``, ``matmul``, ``transpose`` and ``permute`` have gradients; a tensor that requires one is refused by the others, unless gradients are disabled.

>>> import torch, ferrowarp.torch
>>> x = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
>>> ferrowarp.torch.softmax(x)[0, 0].backward()

PyTorch 2.4 or newer. ``import ferrowarp`` does not import this module.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from . import _ferrowarp

__all__ = [
    "argsort",
    "attention",
    "histogram",
    "integers",
    "layer_norm",
    "matmul",
    "normal",
    "partition",
    "permute",
    "rms_norm",
    "run_lengths",
    "scan",
    "segmented_argsort",
    "segmented_reduce",
    "segmented_sort",
    "select",
    "softmax",
    "sort",
    "stencil",
    "top_k",
    "transpose",
    "uniform",
    "unique",
]


def _operator(name, schema, fake, gradient=None, save=None):
    """Defines the operator ferrowarp::name by the decorated function, for tensors of both devices.

    `fake` gives the shapes and types of its results; `save` keeps what `gradient` takes. Where there is none, the backward pass is
    an error.
    """
    name = f"ferrowarp::{name}"

    def no_gradient(ctx, *_):
        raise RuntimeError(f"{name} has no gradient: pass detached tensors")

    def define(function):
        torch.library.define(name, schema)
        torch.library.impl(name, ("cpu", "cuda"), function)
        torch.library.register_fake(name, fake)
        torch.library.register_autograd(name, gradient or no_gradient, setup_context=save)
        return getattr(torch.ops.ferrowarp, name.split("::")[1]).default

    return define


def _like_the_first(x, *_):
    return x.new_empty(x.shape)


def _refuse_gradient(operation, x):
    if x.requires_grad and torch.is_grad_enabled():
        raise BufferError(f"{operation}: `x` requires a gradient, and the operation has none: pass x.detach()")


# Softmax.


def softmax(x: Tensor, *, log: bool = False) -> Tensor:
    """The softmax along the last axis of x, or its logarithm: see ferrowarp.softmax."""
    return _softmax(x, log)


def _save_softmax(ctx, inputs, output):
    _, ctx.log = inputs
    ctx.save_for_backward(output)


def _differentiate_softmax(ctx, dy):
    (y,) = ctx.saved_tensors
    return _softmax_backward(y, dy, ctx.log), None


@_operator(
    "softmax", "(Tensor x, bool log) -> Tensor", _like_the_first, _differentiate_softmax, _save_softmax
)
def _softmax(x, log):
    return _ferrowarp.softmax(x, log=log)


@_operator("softmax_backward", "(Tensor y, Tensor dy, bool log) -> Tensor", _like_the_first)
def _softmax_backward(y, dy, log):
    return _ferrowarp.softmax_backward(y, dy.contiguous(), log)


# Norms.


def layer_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    residual: Tensor | None = None,
    epsilon: float = 1e-5,
) -> Tensor:
    """Layer norm along the last axis of x: see ferrowarp.layer_norm.

    Gradients go to x, weight, bias and residual. With a residual, they are those of x + residual, rounded to the type of x.
    """
    return _norm(x, weight, bias, residual, True, epsilon)


def rms_norm(
    x: Tensor,
    weight: Tensor | None = None,
    *,
    residual: Tensor | None = None,
    epsilon: float = 1e-5,
) -> Tensor:
    """RMS norm along the last axis of x: see ferrowarp.rms_norm. Gradients are as those of layer_norm."""
    return _norm(x, weight, None, residual, False, epsilon)


def _save_norm(ctx, inputs, output):
    x, weight, bias, residual, ctx.is_centered, ctx.epsilon = inputs
    ctx.has_bias = bias is not None
    ctx.save_for_backward(x, weight, residual)


def _differentiate_norm(ctx, dy):
    x, weight, residual = ctx.saved_tensors
    normalised = x if residual is None else x + residual
    needs = ctx.needs_input_grad
    for_weight, for_bias = weight is not None and needs[1], ctx.has_bias and needs[2]
    dx, of_weight, of_bias = _norm_backward(
        normalised, dy, weight, ctx.is_centered, ctx.epsilon, for_weight, for_bias
    )
    return (
        dx if needs[0] else None,
        of_weight if for_weight else None,
        of_bias if for_bias else None,
        dx if residual is not None and needs[3] else None,
        None,
        None,
    )


@_operator(
    "norm",
    "(Tensor x, Tensor? weight, Tensor? bias, Tensor? residual, bool is_centered, float epsilon) -> Tensor",
    _like_the_first,
    _differentiate_norm,
    _save_norm,
)
def _norm(x, weight, bias, residual, is_centered, epsilon):
    if is_centered:
        return _ferrowarp.layer_norm(x, weight, bias, residual=residual, epsilon=epsilon)
    return _ferrowarp.rms_norm(x, weight, residual=residual, epsilon=epsilon)


def _fake_norm_backward(x, dy, weight, is_centered, epsilon, for_weight, for_bias):
    of_columns = [x.new_empty(x.shape[-1:] if wanted else 0) for wanted in (for_weight, for_bias)]
    return x.new_empty(x.shape), *of_columns


# A gradient that is not asked for is an empty tensor.
@_operator(
    "norm_backward",
    "(Tensor x, Tensor dy, Tensor? weight, bool is_centered, float epsilon, bool for_weight, bool for_bias)"
    " -> (Tensor, Tensor, Tensor)",
    _fake_norm_backward,
)
def _norm_backward(x, dy, weight, is_centered, epsilon, for_weight, for_bias):
    gradients = _ferrowarp.norm_backward(
        x,
        dy.contiguous(),
        weight,
        is_centered=is_centered,
        epsilon=epsilon,
        for_weight=for_weight,
        for_bias=for_bias,
    )
    return tuple(x.new_empty(0) if own is None else own for own in gradients)


# Attention.


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
) -> Tensor:
    """softmax(scale * q k^T) v, for each head of each batch: see ferrowarp.attention.

    Gradients go to q, k and v. On Hopper the last bits of those of q differ from run to run for rows of up to 128 elements, unless
    torch.use_deterministic_algorithms(True) is set.
    """
    needs = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    return _attention(q, k, v, causal, window, scale, needs)[0]


def _save_attention(ctx, inputs, output):
    q, k, v, ctx.causal, ctx.window, ctx.scale, ctx.with_lse = inputs
    o, lse = output
    ctx.mark_non_differentiable(lse)
    ctx.save_for_backward(q, k, v, o, lse)


def _differentiate_attention(ctx, d_o, _):
    if not ctx.with_lse:
        raise RuntimeError("ferrowarp::attention has gradients with the logarithms of sums alone: pass with_lse=True")
    deterministic = torch.are_deterministic_algorithms_enabled()
    gradients = _attention_backward(*ctx.saved_tensors, d_o, ctx.causal, ctx.window, ctx.scale, deterministic)
    return *gradients, None, None, None, None


def _fake_attention(q, k, v, causal, window, scale, with_lse):
    o = q.new_empty((*q.shape[:3], v.shape[3]))
    return o, q.new_empty(q.shape[:3] if with_lse else 0, dtype=torch.float32)


# The logarithms of sums, which the backward pass takes, are empty without with_lse.
@_operator(
    "attention",
    "(Tensor q, Tensor k, Tensor v, bool causal, int? window, float? scale, bool with_lse) -> (Tensor, Tensor)",
    _fake_attention,
    _differentiate_attention,
    _save_attention,
)
def _attention(q, k, v, causal, window, scale, with_lse):
    if with_lse:
        return _ferrowarp.attention_with_lse(q, k, v, causal=causal, window=window, scale=scale)
    o = _ferrowarp.attention(q, k, v, causal=causal, window=window, scale=scale)
    return o, q.new_empty(0, dtype=torch.float32)


def _fake_attention_backward(q, k, v, *_):
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


@_operator(
    "attention_backward",
    "(Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor d_o, bool causal, int? window, float? scale,"
    " bool deterministic) -> (Tensor, Tensor, Tensor)",
    _fake_attention_backward,
)
def _attention_backward(q, k, v, o, lse, d_o, causal, window, scale, deterministic):
    tensors = q, k, v, o, lse, d_o.contiguous()
    options = {"causal": causal, "window": window, "scale": scale, "deterministic": deterministic}
    return tuple(_ferrowarp.attention_backward(*tensors, **options))


# Matrix products.


def matmul(a: Tensor, b: Tensor, *, precision: str | None = None) -> Tensor:
    """The matrix product of a and b: see ferrowarp.matmul. Gradients go to both, by products of the same precision."""
    return _matmul(a, b, precision)


def _save_matmul(ctx, inputs, output):
    a, b, ctx.precision = inputs
    ctx.save_for_backward(a, b)


def _differentiate_matmul(ctx, dc):
    a, b = ctx.saved_tensors
    dc = dc.contiguous()
    da = _product(dc, b.mT, a.dim(), ctx.precision) if ctx.needs_input_grad[0] else None
    db = _product(a.mT, dc, b.dim(), ctx.precision) if ctx.needs_input_grad[1] else None
    return da, db, None


def _product(x, y, axes, precision):
    """The product of x and y; for a gradient of one matrix (two axes) for all batches, the sum of the batches' products."""
    if axes == 2 and x.dim() == 3:
        # The sum over batches is one over the inner side too.
        x, y = x.transpose(0, 1).reshape(x.shape[1], -1), y.reshape(-1, y.shape[2])
    return _matmul(x, y, precision)


def _fake_matmul(a, b, precision):
    batches = a.shape[:-2] if a.dim() == 3 else b.shape[:-2]
    return a.new_empty((*batches, a.shape[-2], b.shape[-1]))


@_operator(
    "matmul", "(Tensor a, Tensor b, str? precision) -> Tensor", _fake_matmul, _differentiate_matmul, _save_matmul
)
def _matmul(a, b, precision):
    return _ferrowarp.matmul(a, b, precision=precision)


# Permutations of axes.


def transpose(x: Tensor) -> Tensor:
    """A copy of x with its last two axes exchanged: see ferrowarp.transpose. The gradient is transposed back."""
    if x.dim() not in (2, 3):
        raise ValueError(f"transpose: `x` has {x.dim()} axes, and needs two or three")
    return _permute(x, [1, 0] if x.dim() == 2 else [0, 2, 1])


def permute(x: Tensor, axes: Sequence[int]) -> Tensor:
    """A copy of x with its axes in another order: see ferrowarp.permute. The gradient is permuted back."""
    if sorted(axes) != list(range(x.dim())):
        raise ValueError(f"permute: axes are {list(axes)}, and have to be 0 to {x.dim() - 1} in some order")
    return _permute(x, list(axes))


def _save_permute(ctx, inputs, output):
    _, ctx.axes = inputs


def _differentiate_permute(ctx, dy):
    back = sorted(range(len(ctx.axes)), key=lambda axis: ctx.axes[axis])
    return _permute(dy.contiguous(), back), None


def _fake_permute(x, axes):
    return x.new_empty([x.shape[axis] for axis in axes])


@_operator("permute", "(Tensor x, int[] axes) -> Tensor", _fake_permute, _differentiate_permute, _save_permute)
def _permute(x, axes):
    return _ferrowarp.permute(x, axes)


# Random numbers: functions of the seed, so that they are the same in each run of a compiled function. Of the tensor `like` only
# the device is used.


def uniform(
    shape: int | Sequence[int], *, like: Tensor, seed: int, offset: int = 0, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Uniform numbers in [0, 1), on the device of like: see ferrowarp.uniform. Seed and offset are below 2^63."""
    return _uniform(like.detach(), _lengths(shape), seed, offset, dtype)


def normal(
    shape: int | Sequence[int],
    *,
    like: Tensor,
    seed: int,
    offset: int = 0,
    mean: float = 0.0,
    deviation: float = 1.0,
) -> Tensor:
    """Normal numbers (float32), on the device of like: see ferrowarp.normal. Seed and offset are below 2^63."""
    return _normal(like.detach(), _lengths(shape), seed, offset, mean, deviation)


def integers(
    shape: int | Sequence[int],
    low: int,
    high: int,
    *,
    like: Tensor,
    seed: int,
    offset: int = 0,
    dtype: torch.dtype = torch.uint32,
) -> Tensor:
    """Integers from low to below high, on the device of like: see ferrowarp.integers. All arguments are below 2^63."""
    return _integers(like.detach(), _lengths(shape), low, high, seed, offset, dtype)


def _lengths(shape):
    return [shape] if isinstance(shape, (int, torch.SymInt)) else list(shape)


def _name(dtype):
    return str(dtype).removeprefix("torch.")


def _fake_numbers(like, shape, *others):
    return like.new_empty(shape, dtype=others[-1])


@_operator(
    "uniform", "(Tensor like, SymInt[] shape, int seed, int offset, ScalarType dtype) -> Tensor", _fake_numbers
)
def _uniform(like, shape, seed, offset, dtype):
    return _ferrowarp.uniform(shape, seed=seed, offset=offset, dtype=_name(dtype), like=like)


def _fake_normal(like, shape, *_):
    return like.new_empty(shape, dtype=torch.float32)


@_operator(
    "normal",
    "(Tensor like, SymInt[] shape, int seed, int offset, float mean, float deviation) -> Tensor",
    _fake_normal,
)
def _normal(like, shape, seed, offset, mean, deviation):
    return _ferrowarp.normal(shape, seed=seed, offset=offset, mean=mean, deviation=deviation, like=like)


@_operator(
    "integers",
    "(Tensor like, SymInt[] shape, int low, int high, int seed, int offset, ScalarType dtype) -> Tensor",
    _fake_numbers,
)
def _integers(like, shape, low, high, seed, offset, dtype):
    return _ferrowarp.integers(shape, low, high, seed=seed, offset=offset, dtype=_name(dtype), like=like)


# Operations without gradients.


def sort(x: Tensor, *, descending: bool = False) -> Tensor:
    """The elements of x, which has one axis, in order: see ferrowarp.sort."""
    _refuse_gradient("sort", x)
    return _sort(x, descending)


@_operator("sort", "(Tensor x, bool descending) -> Tensor", _like_the_first)
def _sort(x, descending):
    return _ferrowarp.sort(x, descending=descending)


def argsort(x: Tensor, *, descending: bool = False) -> Tensor:
    """The indices (uint32) of the elements of x in order: see ferrowarp.argsort."""
    return _argsort(x, descending)


def _fake_argsort(x, descending):
    return x.new_empty(x.shape, dtype=torch.uint32)


@_operator("argsort", "(Tensor x, bool descending) -> Tensor", _fake_argsort)
def _argsort(x, descending):
    return _ferrowarp.argsort(x, descending=descending)


def top_k(x: Tensor, k: int, *, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The k largest elements of x (or smallest), in order, and their indices (uint32): see ferrowarp.top_k."""
    _refuse_gradient("top_k", x)
    return _top_k(x, k, largest)


def _fake_top_k(x, k, largest):
    return x.new_empty(k), x.new_empty(k, dtype=torch.uint32)


@_operator("top_k", "(Tensor x, SymInt k, bool largest) -> (Tensor, Tensor)", _fake_top_k)
def _top_k(x, k, largest):
    return _ferrowarp.top_k(x, k, largest=largest)


def scan(x: Tensor, op: str = "sum", *, exclusive: bool = False) -> Tensor:
    """Each element of x combined with all before it: see ferrowarp.scan."""
    _refuse_gradient("scan", x)
    return _scan(x, op, exclusive)


@_operator("scan", "(Tensor x, str op, bool exclusive) -> Tensor", _like_the_first)
def _scan(x, op, exclusive):
    return _ferrowarp.scan(x, op, exclusive=exclusive)


def segmented_reduce(x: Tensor, offsets: Tensor, op: str = "sum") -> Tensor:
    """The "sum", "min" or "max" of each segment of x: see ferrowarp.segmented_reduce."""
    _refuse_gradient("segmented_reduce", x)
    return _segmented_reduce(x, offsets, op)


def _fake_segmented_reduce(x, offsets, op):
    is_half = x.dtype in (torch.float16, torch.bfloat16)
    return x.new_empty(offsets.shape[0] - 1, dtype=torch.float32 if is_half else x.dtype)


@_operator("segmented_reduce", "(Tensor x, Tensor offsets, str op) -> Tensor", _fake_segmented_reduce)
def _segmented_reduce(x, offsets, op):
    return _ferrowarp.segmented_reduce(x, offsets, op)


def segmented_sort(x: Tensor, offsets: Tensor, *, descending: bool = False) -> Tensor:
    """The elements of x in order within each segment: see ferrowarp.segmented_sort."""
    _refuse_gradient("segmented_sort", x)
    return _segmented_sort(x, offsets, descending)


@_operator("segmented_sort", "(Tensor x, Tensor offsets, bool descending) -> Tensor", _like_the_first)
def _segmented_sort(x, offsets, descending):
    return _ferrowarp.segmented_sort(x, offsets, descending=descending)


def segmented_argsort(x: Tensor, offsets: Tensor, *, descending: bool = False) -> Tensor:
    """The indices (uint32) of the elements of x in order within each segment: see ferrowarp.segmented_argsort."""
    return _segmented_argsort(x, offsets, descending)


def _fake_segmented_argsort(x, offsets, descending):
    return x.new_empty(x.shape, dtype=torch.uint32)


@_operator("segmented_argsort", "(Tensor x, Tensor offsets, bool descending) -> Tensor", _fake_segmented_argsort)
def _segmented_argsort(x, offsets, descending):
    return _ferrowarp.segmented_argsort(x, offsets, descending=descending)


def stencil(
    x: Tensor, centre: float, neighbours: Sequence[float], *, steps: int = 1, boundary: str = "fixed"
) -> Tensor:
    """Steps of a stencil on x, of two or three axes: see ferrowarp.stencil."""
    _refuse_gradient("stencil", x)
    return _stencil(x, centre, list(neighbours), steps, boundary)


@_operator(
    "stencil", "(Tensor x, float centre, float[] neighbours, int steps, str boundary) -> Tensor", _like_the_first
)
def _stencil(x, centre, neighbours, steps, boundary):
    return _ferrowarp.stencil(x, centre, neighbours, steps=steps, boundary=boundary)


def histogram(x: Tensor, bins: int, range: tuple[float, float] | None = None) -> Tensor:
    """How many elements of x fall into each of bins of equal width (uint32): see ferrowarp.histogram. Waits for the counts."""
    return _histogram(x, bins, None if range is None else [float(bound) for bound in range])


def _fake_histogram(x, bins, range):
    return x.new_empty(bins, dtype=torch.uint32)


@_operator("histogram", "(Tensor x, SymInt bins, float[]? range) -> Tensor", _fake_histogram)
def _histogram(x, bins, range):
    if range is not None:
        low, high = range
        range = (low, high) if x.is_floating_point() else (int(low), int(high))
    return _ferrowarp.histogram(x, bins, range)


# Results whose length is found by the call, which waits for it. torch.compile needs
# torch._dynamo.config.capture_dynamic_output_shape_ops to keep them in one graph.


def select(x: Tensor, flags: Tensor) -> Tensor:
    """The elements of x whose flag is set: see ferrowarp.select. Waits for their number."""
    _refuse_gradient("select", x)
    return _select(x, flags)


def _fake_part(x, *_):
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


@_operator("select", "(Tensor x, Tensor flags) -> Tensor", _fake_part)
def _select(x, flags):
    return _ferrowarp.select(x, flags)


def partition(x: Tensor, flags: Tensor) -> tuple[Tensor, int]:
    """All elements of x, those whose flag is set first, and how many these are: see ferrowarp.partition. Waits for their number."""
    _refuse_gradient("partition", x)
    return _partition(x, flags)


def _fake_partition(x, flags):
    return x.new_empty(x.shape), torch.library.get_ctx().new_dynamic_size()


@_operator("partition", "(Tensor x, Tensor flags) -> (Tensor, SymInt)", _fake_partition)
def _partition(x, flags):
    return _ferrowarp.partition(x, flags)


def unique(x: Tensor) -> Tensor:
    """The elements of x that differ from the one before: see ferrowarp.unique. Waits for their number."""
    _refuse_gradient("unique", x)
    return _unique(x)


@_operator("unique", "(Tensor x) -> Tensor", _fake_part)
def _unique(x):
    return _ferrowarp.unique(x)


def run_lengths(x: Tensor) -> tuple[Tensor, Tensor]:
    """The runs of equal elements of x, and their lengths (uint32): see ferrowarp.run_lengths. Waits for their number."""
    _refuse_gradient("run_lengths", x)
    return _run_lengths(x)


def _fake_run_lengths(x):
    n = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty(n), x.new_empty(n, dtype=torch.uint32)


@_operator("run_lengths", "(Tensor x) -> (Tensor, Tensor)", _fake_run_lengths)
def _run_lengths(x):
    return _ferrowarp.run_lengths(x)
