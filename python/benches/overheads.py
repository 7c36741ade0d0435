"""How long the calling thread is in a call, beside PyTorch's own: on arrays so small that the GPU keeps up.

    pip install ferrowarp-*.whl
    python python/benches/overheads.py

Each number is the least of seven means of 300 calls, in microseconds.
"""

import time

import torch
import torch.nn.functional as functional

import ferrowarp
import ferrowarp.torch as ft

CALLS, REPETITIONS = 300, 7


def microseconds(function):
    for _ in range(20):
        function()
    means = []
    for _ in range(REPETITIONS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            function()
        means.append((time.perf_counter() - start) / CALLS * 1e6)
    torch.cuda.synchronize()
    return min(means)


def rows():
    x = torch.randn(64, 64, device="cuda")
    half = x.bfloat16()
    weight, bias, flat = x[0].clone(), x[1].clone(), x.reshape(-1)
    q = torch.randn(1, 2, 64, 64, device="cuda", dtype=torch.bfloat16)
    sdpa = functional.scaled_dot_product_attention
    none = x[:0]
    yield "softmax of nothing", lambda: ferrowarp.softmax(none), lambda: ft.softmax(none), lambda: torch.softmax(none, -1)
    yield "softmax", lambda: ferrowarp.softmax(x), lambda: ft.softmax(x), lambda: torch.softmax(x, -1)
    yield (
        "layer_norm",
        lambda: ferrowarp.layer_norm(x, weight, bias),
        lambda: ft.layer_norm(x, weight, bias),
        lambda: functional.layer_norm(x, (64,), weight, bias),
    )
    yield (
        "rms_norm",
        lambda: ferrowarp.rms_norm(x, weight),
        lambda: ft.rms_norm(x, weight),
        lambda: functional.rms_norm(x, (64,), weight, 1e-5),
    )
    yield "matmul", lambda: ferrowarp.matmul(half, half), lambda: ft.matmul(half, half), lambda: torch.matmul(half, half)
    yield "attention", lambda: ferrowarp.attention(q, q, q), lambda: ft.attention(q, q, q), lambda: sdpa(q, q, q)
    yield "sort", lambda: ferrowarp.sort(flat), lambda: ft.sort(flat), lambda: torch.sort(flat)
    yield "top_k", lambda: ferrowarp.top_k(flat, 10), lambda: ft.top_k(flat, 10), lambda: torch.topk(flat, 10)
    yield "scan", lambda: ferrowarp.scan(flat), lambda: ft.scan(flat), lambda: torch.cumsum(flat, 0)
    yield "unique (waits)", lambda: ferrowarp.unique(flat), lambda: ft.unique(flat), lambda: torch.unique_consecutive(flat)
    leaf = x.clone().requires_grad_()
    step = lambda y: y.backward(x)  # noqa: E731
    yield "softmax and gradient", None, lambda: step(ft.softmax(leaf)), lambda: step(torch.softmax(leaf, -1))


if __name__ == "__main__":
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}; microseconds a call")
    print(f"{'':22}{'ferrowarp':>12}{'ferrowarp.torch':>18}{'torch':>10}{'ratio':>8}")
    for name, own, operator, theirs in rows():
        times = [float("nan") if call is None else microseconds(call) for call in (own, operator, theirs)]
        ratio = (times[0] if own else times[1]) / times[2]
        print(f"{name:22}{times[0]:12.1f}{times[1]:18.1f}{times[2]:10.1f}{ratio:8.2f}")
