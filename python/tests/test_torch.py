"""The operators of ferrowarp.torch, on CPU tensors: gradients, opcheck, torch.compile.

They need PyTorch (`pip install torch`), which the package does not require. test_gpu.py has their tests on a GPU.
"""

import pytest

torch = pytest.importorskip("torch")

import ferrowarp  # noqa: E402
import ferrowarp.torch as ft  # noqa: E402

# A float32 sum of n products of numbers about 1 is wrong by about n ** 0.5 * 2 ** -24, and a result of a half is rounded once more.
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
HALVES = [torch.float16, torch.bfloat16]

# What opcheck tries. Faketensor and AOT are those of torch.compile.
CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


def normal(*shape, dtype=torch.float32, seed=1):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator).to(dtype)


def gradients(function, arguments, cotangent, dtype=None):
    """The gradients of the arguments, computed in that type."""
    leaves = [own.detach().to(dtype or own.dtype).requires_grad_() for own in arguments]
    result = function(*leaves)
    result.backward(cotangent.to(result.dtype))
    return [own.grad for own in leaves]


def check_gradients(own, reference, arguments, tolerance):
    """Against PyTorch's gradients in float64."""
    expected = reference(*[argument.double() for argument in arguments])
    cotangent = normal(*expected.shape, dtype=arguments[0].dtype, seed=7)
    found = gradients(own, arguments, cotangent)
    wanted = gradients(reference, arguments, cotangent, torch.float64)
    for one, other in zip(found, wanted):
        scale = max(1.0, other.abs().max().item())
        torch.testing.assert_close(one.double(), other, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("log", [False, True])
def test_gradients_of_softmax(dtype, log):
    reference = torch.log_softmax if log else torch.softmax
    check_gradients(
        lambda x: ft.softmax(x, log=log), lambda x: reference(x, -1), [normal(3, 5, 33, dtype=dtype)], TOLERANCE[dtype]
    )


def normed(x, weight, bias, residual, is_centered):
    x = x if residual is None else x + residual
    if is_centered:
        return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias)
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, 1e-5)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("is_centered, has_residual", [(True, False), (True, True), (False, False), (False, True)])
def test_gradients_of_norms(dtype, is_centered, has_residual):
    columns = 40
    x, weight = normal(6, columns, dtype=dtype), normal(columns, dtype=dtype)
    bias = [normal(columns, dtype=dtype, seed=2)] if is_centered else []
    residual = [normal(6, columns, dtype=dtype, seed=3)] if has_residual else []

    def own(x, weight, *others):
        keywords = {"residual": others[-1]} if has_residual else {}
        if is_centered:
            return ft.layer_norm(x, weight, others[0], **keywords)
        return ft.rms_norm(x, weight, **keywords)

    def reference(x, weight, *others):
        return normed(x, weight, others[0] if is_centered else None, others[-1] if has_residual else None, is_centered)

    check_gradients(own, reference, [x, weight, *bias, *residual], 2 * TOLERANCE[dtype])


def test_gradients_of_a_norm_without_weights_and_of_some_of_its_arguments():
    x = normal(4, 17)
    check_gradients(ft.layer_norm, lambda x: normed(x, None, None, None, True), [x], 2e-5)
    weight, bias = normal(17), normal(17, seed=2).requires_grad_()
    ft.layer_norm(x, weight, bias).sum().backward()
    assert x.grad is None and weight.grad is None
    torch.testing.assert_close(bias.grad, torch.full((17,), 4.0))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("causal, by_row", [(False, False), (True, False), (True, True)])
def test_gradients_of_attention(dtype, causal, by_row):
    def heads(count, rows, seed):
        shape = (2, rows, count, 16) if by_row else (2, count, rows, 16)
        return normal(*shape, dtype=dtype, seed=seed)

    arguments = [heads(2, 7, 1), heads(1, 7, 2), heads(1, 7, 3)]
    order = (lambda x: x.transpose(1, 2)) if by_row else (lambda x: x)

    def reference(q, k, v):
        shared = [own.repeat_interleave(2, dim=1) for own in (order(k), order(v))]
        return torch.nn.functional.scaled_dot_product_attention(order(q), *shared, is_causal=causal)

    own = lambda *all: ft.attention(*map(order, all), causal=causal)  # noqa: E731
    check_gradients(own, reference, arguments, 4 * TOLERANCE[dtype])


@pytest.mark.parametrize("of_a, of_b", [((5, 7), (7, 3)), ((2, 5, 7), (2, 7, 3)), ((5, 7), (2, 7, 3)), ((2, 5, 7), (7, 3))])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_gradients_of_matmul(of_a, of_b, dtype):
    tolerance = {torch.float64: 1e-13, **TOLERANCE}[dtype]
    check_gradients(ft.matmul, torch.matmul, [normal(*of_a, dtype=dtype), normal(*of_b, dtype=dtype)], 4 * tolerance)


def test_second_gradients_of_matmul():
    a, b = (normal(3, 3, seed=seed).double().requires_grad_() for seed in (1, 2))
    assert torch.autograd.gradgradcheck(ft.matmul, (a, b))


def test_gradients_of_permutations():
    x = normal(2, 3, 5)
    check_gradients(ft.transpose, lambda x: x.mT, [x], 0)
    check_gradients(ft.transpose, lambda x: x.T, [x[0]], 0)
    for axes in [(2, 0, 1), (1, 2, 0), (0, 1, 2), (2, 1, 0)]:
        check_gradients(lambda x: ft.permute(x, axes), lambda x: x.permute(axes), [x], 0)
    with pytest.raises(ValueError, match="0 to 2 in some order"):
        ft.permute(x, (0, 1, 1))
    with pytest.raises(ValueError, match="needs two or three"):
        ft.transpose(x[0, 0])


def test_random_numbers_are_those_of_the_package():
    like = normal(3).requires_grad_()
    found = ft.uniform((4, 5), like=like, seed=7, offset=3, dtype=torch.float64)
    assert found.dtype == torch.float64 and not found.requires_grad
    assert torch.equal(found, ferrowarp.uniform((4, 5), seed=7, offset=3, dtype="float64", like=like.detach()))
    found = ft.normal(9, like=like, seed=7, mean=2.0, deviation=0.5)
    assert torch.equal(found, ferrowarp.normal(9, seed=7, mean=2.0, deviation=0.5, like=like.detach()))
    found = ft.integers([9], 3, 8, like=like, seed=7)
    assert found.dtype == torch.uint32 and found.tolist() == ferrowarp.integers(9, 3, 8, seed=7, like=like.detach()).tolist()
    compiled = torch.compile(lambda x: x + ft.uniform(x.shape, like=x, seed=1), fullgraph=True, backend="aot_eager")
    x = normal(4, 3)
    assert torch.equal(compiled(x), x + ft.uniform((4, 3), like=x, seed=1))


CALLS = {
    "softmax": lambda: (ft._softmax, (normal(3, 5), False)),
    "softmax_backward": lambda: (ft._softmax_backward, (normal(3, 5), normal(3, 5), True)),
    "norm": lambda: (ft._norm, (normal(3, 5), normal(5), normal(5), None, True, 1e-5)),
    "norm with a residual": lambda: (ft._norm, (normal(3, 5), None, None, normal(3, 5), False, 1e-5)),
    "norm_backward": lambda: (ft._norm_backward, (normal(3, 5), normal(3, 5), normal(5), True, 1e-5, True, False)),
    "attention": lambda: (ft._attention, (*halves(3), True, None, None, True)),
    "attention without lse": lambda: (ft._attention, (*halves(3, False), True, None, None, False)),
    "attention_backward": lambda: (
        ft._attention_backward,
        (*halves(4, False), normal(1, 1, 4), *halves(1, False), False, None, 0.5, True),
    ),
    "matmul": lambda: (ft._matmul, (normal(3, 5), normal(5, 2), "float32")),
    "sort": lambda: (ft._sort, (normal(33), True)),
    "argsort": lambda: (ft._argsort, (normal(33), True)),
    "top_k": lambda: (ft._top_k, (normal(33), 3, True)),
    "scan": lambda: (ft._scan, (normal(33), "max", False)),
    "segmented_reduce": lambda: (ft._segmented_reduce, (normal(33), torch.tensor([0, 3, 33]), "sum")),
    "segmented_sort": lambda: (ft._segmented_sort, (normal(33), torch.tensor([0, 3, 33]), True)),
    "segmented_argsort": lambda: (ft._segmented_argsort, (normal(33), torch.tensor([0, 3, 33]), False)),
    "stencil": lambda: (ft._stencil, (normal(5, 7), 0.5, [0.1, 0.15], 3, "periodic")),
    "histogram": lambda: (ft._histogram, (normal(33), 5, [-1.0, 1.0])),
    "permute": lambda: (ft._permute, (normal(2, 3, 5), [2, 0, 1])),
    "uniform": lambda: (ft._uniform, (normal(1), [3, 5], 1, 2, torch.float64)),
    "normal": lambda: (ft._normal, (normal(1), [3, 5], 1, 2, 0.5, 2.0)),
    "integers": lambda: (ft._integers, (normal(1), [15], 3, 9, 1, 2, torch.uint32)),
    "select": lambda: (ft._select, (normal(33), normal(33) > 0)),
    "partition": lambda: (ft._partition, (normal(33), normal(33) > 0)),
    "unique": lambda: (ft._unique, (torch.tensor([1, 1, 2, 2, 1]),)),
    "run_lengths": lambda: (ft._run_lengths, (torch.tensor([1, 1, 2, 2, 1]),)),
}
DIFFERENTIABLE = ("softmax", "norm", "norm with a residual", "attention", "matmul", "permute")


def halves(count, needs=True):
    all = [normal(1, 1, 4, 16, dtype=torch.bfloat16, seed=seed) for seed in range(count)]
    return [own.requires_grad_(needs) for own in all]


@pytest.mark.parametrize("name", CALLS)
def test_opcheck(name):
    operator, arguments = CALLS[name]()
    if name in DIFFERENTIABLE:
        for own in arguments:
            if isinstance(own, torch.Tensor):
                own.requires_grad_()
    torch.library.opcheck(operator, arguments, test_utils=CHECKS)


def test_compile_keeps_the_operators_in_one_graph():
    def step(x, weight, q):
        y = ft.rms_norm(x, weight)
        y = ft.softmax(ft.matmul(y, y.T) * 0.1)
        o = ft.attention(q, q, q, causal=True)
        values, indices = ft.top_k(y.detach().reshape(-1), 3)
        ordered = ft.sort(y.detach()[0].contiguous())
        return y.sum() + o.float().sum(), values, indices, ordered

    arguments = [normal(5, 16), normal(16), normal(1, 2, 6, 16, dtype=torch.bfloat16)]

    def run(function):
        leaves = [own.clone().requires_grad_() for own in arguments]
        loss, *others = function(*leaves)
        loss.backward()
        return [loss, *others, *[own.grad for own in leaves]]

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    for found, expected in zip(run(compiled), run(step)):
        torch.testing.assert_close(found, expected)


def test_compile_keeps_results_of_unknown_length():
    import torch._dynamo

    def step(x):
        return ft.unique(ft.sort(x)) * 2

    def parted(x):
        all, count = ft.partition(x, x > 1)
        return all + count

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
        x = torch.tensor([3, 1, 3, 2, 1])
        assert compiled(x).tolist() == [2, 4, 6]
        compiled = torch.compile(parted, fullgraph=True, backend="aot_eager")
        assert compiled(x).tolist() == [6, 6, 5, 4, 4]


def test_results_are_those_of_the_package():
    x = normal(100)
    assert torch.equal(ft.sort(x), x.sort().values)
    assert torch.equal(ft.argsort(x).to(torch.int64), x.argsort(stable=True))
    assert torch.equal(ft.scan(x, "max"), x.cummax(0).values)
    assert torch.equal(ft.select(x, x > 0), x[x > 0])
    bytes = torch.tensor([3, 1, 3], dtype=torch.uint8)
    assert ft.histogram(bytes, 5).tolist() == [0, 1, 0, 2, 0]
    assert ft.histogram(bytes, 2, (0, 4)).tolist() == [1, 2]
    parted, count = ft.partition(x, x > 0)
    assert count == (x > 0).sum() and torch.equal(parted[:count], x[x > 0])
    assert torch.equal(parted[count:], x[x <= 0].flip(0))
    values, lengths = ft.run_lengths(torch.tensor([5, 5, 6]))
    assert values.tolist() == [5, 6] and lengths.tolist() == [2, 1]


def test_where_there_is_no_gradient():
    x = normal(8).requires_grad_()
    for call in (ft.sort, ft.scan, ft.unique, lambda x: ft.partition(x, x > 0), lambda x: ft.top_k(x, 2), ferrowarp.sort, ferrowarp.softmax):
        with pytest.raises(BufferError, match=r"detach\(\)"):
            call(x)
        with torch.no_grad():
            call(x)
    q = normal(1, 1, 4, 264, dtype=torch.bfloat16).requires_grad_()
    with pytest.raises(ValueError, match="1 to 256 elements"):
        ft.attention(q, q, q)
    x = normal(2, 3).requires_grad_()
    (first,) = torch.autograd.grad(ft.softmax(x)[:, 0].sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="has no gradient"):
        first.sum().backward()
