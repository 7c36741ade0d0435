"""Ferrowarp's operations as PyTorch's own: with gradients, and kept whole by ``torch.compile``.

The functions have the names and arguments of those of ``ferrowarp``. Each is an operator ``torch.ops.ferrowarp.…``, so that
``torch.compile(…, fullgraph=True)`` and ``torch.export`` trace through it. ``softmax``, ``layer_norm``, ``rms_norm``,
``attention`` and ``matmul`` have gradients; a tensor that requires one is refused by the others, unless gradients are disabled.

>>> import torch, ferrowarp.torch
>>> x = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
>>> ferrowarp.torch.softmax(x)[0, 0].backward()

PyTorch 2.4 or newer. ``import ferrowarp`` does not import this module.
"""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor
from torch.library import custom_op

from . import _ferrowarp

__all__ = [
    "argsort",
    "attention",
    "histogram",
    "layer_norm",
    "matmul",
    "rms_norm",
    "run_lengths",
    "scan",
    "segmented_reduce",
    "select",
    "softmax",
    "sort",
    "top_k",
    "unique",
]


def _refuse_gradient(operation: str, x: Tensor) -> None:
    if x.requires_grad and torch.is_grad_enabled():
        raise BufferError(f"{operation}: `x` requires a gradient, and the operation has none: pass x.detach()")


# Softmax.


def softmax(x: Tensor, *, log: bool = False) -> Tensor:
    """The softmax along the last axis of x, or its logarithm: see ferrowarp.softmax."""
    return _softmax(x, log)


@custom_op("ferrowarp::softmax", mutates_args=(), schema="(Tensor x, bool log) -> Tensor")
def _softmax(x, log):
    return _ferrowarp.softmax(x, log=log)


@custom_op("ferrowarp::softmax_backward", mutates_args=(), schema="(Tensor y, Tensor dy, bool log) -> Tensor")
def _softmax_backward(y, dy, log):
    return _ferrowarp.softmax_backward(y, dy.contiguous(), log)


@_softmax.register_fake
@_softmax_backward.register_fake
def _like_the_first(x, *others):
    return x.new_empty(x.shape)


def _save_softmax(ctx, inputs, output):
    _, ctx.log = inputs
    ctx.save_for_backward(output)


def _differentiate_softmax(ctx, dy):
    (y,) = ctx.saved_tensors
    return _softmax_backward(y, dy, ctx.log), None


_softmax.register_autograd(_differentiate_softmax, setup_context=_save_softmax)


# Norms.


def layer_norm(
    x: Tensor,
    weight: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    *,
    residual: Optional[Tensor] = None,
    epsilon: float = 1e-5,
) -> Tensor:
    """Layer norm along the last axis of x: see ferrowarp.layer_norm.

    Gradients go to x, weight, bias and residual. With a residual, they are those of x + residual, rounded to the type of x.
    """
    return _norm(x, weight, bias, residual, True, epsilon)


def rms_norm(
    x: Tensor,
    weight: Optional[Tensor] = None,
    *,
    residual: Optional[Tensor] = None,
    epsilon: float = 1e-5,
) -> Tensor:
    """RMS norm along the last axis of x: see ferrowarp.rms_norm. Gradients are as those of layer_norm."""
    return _norm(x, weight, None, residual, False, epsilon)


@custom_op(
    "ferrowarp::norm",
    mutates_args=(),
    schema="(Tensor x, Tensor? weight, Tensor? bias, Tensor? residual, bool is_centered, float epsilon) -> Tensor",
)
def _norm(x, weight, bias, residual, is_centered, epsilon):
    if is_centered:
        return _ferrowarp.layer_norm(x, weight, bias, residual=residual, epsilon=epsilon)
    return _ferrowarp.rms_norm(x, weight, residual=residual, epsilon=epsilon)


_norm.register_fake(_like_the_first)


# What is not asked for is an empty tensor.
@custom_op(
    "ferrowarp::norm_backward",
    mutates_args=(),
    schema="(Tensor x, Tensor dy, Tensor? weight, bool is_centered, float epsilon, bool for_weight, bool for_bias)"
    " -> (Tensor, Tensor, Tensor)",
)
def _norm_backward(x, dy, weight, is_centered, epsilon, for_weight, for_bias):
    dx, of_weight, of_bias = _ferrowarp.norm_backward(
        x,
        dy.contiguous(),
        weight,
        is_centered=is_centered,
        epsilon=epsilon,
        for_weight=for_weight,
        for_bias=for_bias,
    )
    return dx, x.new_empty(0) if of_weight is None else of_weight, x.new_empty(0) if of_bias is None else of_bias


@_norm_backward.register_fake
def _(x, dy, weight, is_centered, epsilon, for_weight, for_bias):
    of_columns = [x.new_empty(x.shape[-1:] if wanted else 0) for wanted in (for_weight, for_bias)]
    return x.new_empty(x.shape), *of_columns


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


_norm.register_autograd(_differentiate_norm, setup_context=_save_norm)


# Attention.

# The backward pass has kernels for rows of at most as many elements.
_MOST_DEPTH_OF_GRADIENTS = 128


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    window: Optional[int] = None,
    scale: Optional[float] = None,
) -> Tensor:
    """softmax(scale * q k^T) v, for each head of each batch: see ferrowarp.attention.

    Gradients go to q, k and v, of up to 128 elements a row.
    """
    needs = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    if needs and max(q.shape[-1], v.shape[-1]) > _MOST_DEPTH_OF_GRADIENTS:
        raise ValueError(
            f"attention: rows have {q.shape[-1]} elements, those of values {v.shape[-1]}, and gradients are of at most "
            f"{_MOST_DEPTH_OF_GRADIENTS}: pass q.detach(), k.detach() and v.detach()"
        )
    return _attention(q, k, v, causal, window, scale, needs)[0]


# The logarithms of sums, which the backward pass takes, are empty without with_lse.
@custom_op(
    "ferrowarp::attention",
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor v, bool causal, int? window, float? scale, bool with_lse) -> (Tensor, Tensor)",
)
def _attention(q, k, v, causal, window, scale, with_lse):
    if with_lse:
        return _ferrowarp.attention_with_lse(q, k, v, causal=causal, window=window, scale=scale)
    o = _ferrowarp.attention(q, k, v, causal=causal, window=window, scale=scale)
    return o, q.new_empty(0, dtype=torch.float32)


@_attention.register_fake
def _(q, k, v, causal, window, scale, with_lse):
    o = q.new_empty((*q.shape[:3], v.shape[3]))
    return o, q.new_empty(q.shape[:3] if with_lse else 0, dtype=torch.float32)


@custom_op(
    "ferrowarp::attention_backward",
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor d_o, bool causal, int? window, float? scale)"
    " -> (Tensor, Tensor, Tensor)",
)
def _attention_backward(q, k, v, o, lse, d_o, causal, window, scale):
    d_o = d_o.contiguous()
    return tuple(
        _ferrowarp.attention_backward(q, k, v, o, lse, d_o, causal=causal, window=window, scale=scale)
    )


@_attention_backward.register_fake
def _(q, k, v, *others):
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _save_attention(ctx, inputs, output):
    q, k, v, ctx.causal, ctx.window, ctx.scale, with_lse = inputs
    o, lse = output
    ctx.mark_non_differentiable(lse)
    ctx.with_lse = with_lse
    ctx.save_for_backward(q, k, v, o, lse)


def _differentiate_attention(ctx, d_o, _):
    if not ctx.with_lse:
        raise RuntimeError("attention: gradients need the logarithms of sums: pass with_lse=True to the operator")
    return *_attention_backward(*ctx.saved_tensors, d_o, ctx.causal, ctx.window, ctx.scale), None, None, None, None


_attention.register_autograd(_differentiate_attention, setup_context=_save_attention)


# Matrix products.


def matmul(a: Tensor, b: Tensor, *, precision: Optional[str] = None) -> Tensor:
    """The matrix product of a and b: see ferrowarp.matmul. Gradients go to both, by products of the same precision."""
    return _matmul(a, b, precision)


@custom_op("ferrowarp::matmul", mutates_args=(), schema="(Tensor a, Tensor b, str? precision) -> Tensor")
def _matmul(a, b, precision):
    return _ferrowarp.matmul(a, b, precision=precision)


@_matmul.register_fake
def _(a, b, precision):
    batches = a.shape[:-2] if a.dim() == 3 else b.shape[:-2]
    return a.new_empty((*batches, a.shape[-2], b.shape[-1]))


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
    """The product of x and y; for a matrix in place of a batch (axes is 2), the sum of the batch's products."""
    if axes == 3 or x.dim() == y.dim() == 2:
        return _matmul(x, y, precision)
    # The sum over batches is one over the inner side too.
    return _matmul(_inner(x, -1), _inner(y, -2), precision)


def _inner(x, side):
    """A batch with its first axis and that side as one axis."""
    if side == -1:
        return x.transpose(0, 1).reshape(x.shape[1], -1)
    return x.reshape(-1, x.shape[2])


_matmul.register_autograd(_differentiate_matmul, setup_context=_save_matmul)


# Operations without gradients.


def sort(x: Tensor, *, descending: bool = False) -> Tensor:
    """The elements of x, which has one axis, in order: see ferrowarp.sort."""
    _refuse_gradient("sort", x)
    return _sort(x, descending)


@custom_op("ferrowarp::sort", mutates_args=(), schema="(Tensor x, bool descending) -> Tensor")
def _sort(x, descending):
    return _ferrowarp.sort(x, descending=descending)


_sort.register_fake(_like_the_first)


def argsort(x: Tensor, *, descending: bool = False) -> Tensor:
    """The indices (uint32) of the elements of x in order: see ferrowarp.argsort."""
    return _argsort(x, descending)


@custom_op("ferrowarp::argsort", mutates_args=(), schema="(Tensor x, bool descending) -> Tensor")
def _argsort(x, descending):
    return _ferrowarp.argsort(x, descending=descending)


@_argsort.register_fake
def _(x, descending):
    return x.new_empty(x.shape, dtype=torch.uint32)


def top_k(x: Tensor, k: int, *, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The k largest elements of x (or smallest), in order, and their indices (uint32): see ferrowarp.top_k."""
    _refuse_gradient("top_k", x)
    return _top_k(x, k, largest)


@custom_op("ferrowarp::top_k", mutates_args=(), schema="(Tensor x, SymInt k, bool largest) -> (Tensor, Tensor)")
def _top_k(x, k, largest):
    return _ferrowarp.top_k(x, k, largest=largest)


@_top_k.register_fake
def _(x, k, largest):
    return x.new_empty(k), x.new_empty(k, dtype=torch.uint32)


def scan(x: Tensor, op: str = "sum", *, exclusive: bool = False) -> Tensor:
    """Each element of x combined with all before it: see ferrowarp.scan."""
    _refuse_gradient("scan", x)
    return _scan(x, op, exclusive)


@custom_op("ferrowarp::scan", mutates_args=(), schema="(Tensor x, str op, bool exclusive) -> Tensor")
def _scan(x, op, exclusive):
    return _ferrowarp.scan(x, op, exclusive=exclusive)


_scan.register_fake(_like_the_first)


def segmented_reduce(x: Tensor, offsets: Tensor, op: str = "sum") -> Tensor:
    """The "sum", "min" or "max" of each segment of x: see ferrowarp.segmented_reduce."""
    _refuse_gradient("segmented_reduce", x)
    return _segmented_reduce(x, offsets, op)


@custom_op(
    "ferrowarp::segmented_reduce", mutates_args=(), schema="(Tensor x, Tensor offsets, str op) -> Tensor"
)
def _segmented_reduce(x, offsets, op):
    return _ferrowarp.segmented_reduce(x, offsets, op)


@_segmented_reduce.register_fake
def _(x, offsets, op):
    is_half = x.dtype in (torch.float16, torch.bfloat16)
    return x.new_empty(offsets.shape[0] - 1, dtype=torch.float32 if is_half else x.dtype)


def histogram(x: Tensor, bins: int, range: Optional[tuple[float, float]] = None) -> Tensor:
    """How many elements of x fall into each of bins of equal width (uint32): see ferrowarp.histogram. Waits for its result."""
    return _histogram(x, bins, None if range is None else [float(bound) for bound in range])


@custom_op("ferrowarp::histogram", mutates_args=(), schema="(Tensor x, SymInt bins, float[]? range) -> Tensor")
def _histogram(x, bins, range):
    if range is not None and not x.is_floating_point():
        range = [int(bound) for bound in range]
    return _ferrowarp.histogram(x, bins, None if range is None else tuple(range))


@_histogram.register_fake
def _(x, bins, range):
    return x.new_empty(bins, dtype=torch.uint32)


# Results as long as they turn out to be: a call waits, and torch.compile needs
# torch._dynamo.config.capture_dynamic_output_shape_ops for a whole graph.


def select(x: Tensor, flags: Tensor) -> Tensor:
    """The elements of x whose flag is set: see ferrowarp.select. Waits for their number."""
    _refuse_gradient("select", x)
    return _select(x, flags)


@custom_op("ferrowarp::select", mutates_args=(), schema="(Tensor x, Tensor flags) -> Tensor")
def _select(x, flags):
    return _ferrowarp.select(x, flags)


def unique(x: Tensor) -> Tensor:
    """The elements of x that differ from the one before: see ferrowarp.unique. Waits for their number."""
    _refuse_gradient("unique", x)
    return _unique(x)


@custom_op("ferrowarp::unique", mutates_args=(), schema="(Tensor x) -> Tensor")
def _unique(x):
    return _ferrowarp.unique(x)


@_select.register_fake
@_unique.register_fake
def _(x, *others):
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


def run_lengths(x: Tensor) -> tuple[Tensor, Tensor]:
    """The runs of equal elements of x, and their lengths (uint32): see ferrowarp.run_lengths. Waits for their number."""
    _refuse_gradient("run_lengths", x)
    return _run_lengths(x)


@custom_op("ferrowarp::run_lengths", mutates_args=(), schema="(Tensor x) -> (Tensor, Tensor)")
def _run_lengths(x):
    return _ferrowarp.run_lengths(x)


@_run_lengths.register_fake
def _(x):
    n = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty(n), x.new_empty(n, dtype=torch.uint32)
