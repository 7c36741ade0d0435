"""The peers of the matrix products: PyTorch's, on normal data."""

from peer import case, serve, torch


def normals(kind, *shape):
    return torch.randn(shape, device="cuda", dtype=torch.float32).to(kind)


def product(kind, shape, a_turned=False, b_turned=False):
    """A B for A of m × k and B of k × n, row-major unless turned."""
    m, n, k = shape
    a = normals(kind, k, m).t() if a_turned else normals(kind, m, k)
    b = normals(kind, n, k).t() if b_turned else normals(kind, k, n)
    d = torch.empty((m, n), device="cuda", dtype=kind)
    return lambda: torch.matmul(a, b, out=d)


@case("torch", "matmul/nn/bf16")
def _(shape, seed):
    return product(torch.bfloat16, shape)


@case("torch", "matmul/nn/f16")
def _(shape, seed):
    return product(torch.float16, shape)


@case("torch", "matmul/nt/bf16")
def _(shape, seed):
    return product(torch.bfloat16, shape, b_turned=True)


@case("torch", "matmul/tn/bf16")
def _(shape, seed):
    return product(torch.bfloat16, shape, a_turned=True)


@case("torch", "matmul/tt/bf16")
def _(shape, seed):
    return product(torch.bfloat16, shape, True, True)


@case("torch", "matmul/nn/f32")
def _(shape, seed):
    torch.backends.cuda.matmul.allow_tf32 = False
    return product(torch.float32, shape)


@case("torch", "matmul/nn/f64")
def _(shape, seed):
    return product(torch.float64, shape)


def scaled(shape, is_fast):
    """Floats of 8 bits, B turned, with scales of 1."""
    m, n, k = shape
    a, b = normals(torch.float8_e4m3fn, m, k), normals(torch.float8_e4m3fn, n, k).t()
    one = torch.ones((), device="cuda")
    d = torch.empty((m, n), device="cuda", dtype=torch.bfloat16)
    return lambda: torch._scaled_mm(
        a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=is_fast, out=d
    )


@case("torch", "matmul/fp8-nt/E4m3")
def _(shape, seed):
    return scaled(shape, False)


@case("torch, sums of 14 bits", "matmul/fp8-nt/E4m3")
def _(shape, seed):
    return scaled(shape, True)


def scales(kind, shape, of_a, of_b):
    """Floats of 8 bits, B turned, with scales of these shapes, which are turned as far as torch asks for."""
    m, n, k = shape
    a, b = normals(torch.float8_e4m3fn, m, k), normals(torch.float8_e4m3fn, n, k).t()
    of_a, of_b = (torch.randn(shape, device="cuda") for shape in (of_a, of_b))
    if kind == "blocks":
        of_a, of_b = of_a.t(), of_b.t()
    return lambda: torch._scaled_mm(
        a, b, scale_a=of_a, scale_b=of_b, out_dtype=torch.bfloat16, use_fast_accum=False
    )


@case("torch", "matmul/fp8-blocks-nt/E4m3")
def _(shape, seed):
    m, n, k = shape
    return scales("blocks", shape, (k // 128, m), (n // 128, k // 128))


@case("torch", "matmul/fp8-lines-nt/E4m3")
def _(shape, seed):
    m, n, k = shape
    return scales("lines", shape, (m, 1), (1, n))


@case("torch", "matmul/batched/bf16")
def _(shape, seed):
    batches, m, n, k = shape
    a, b = normals(torch.bfloat16, batches, m, k), normals(torch.bfloat16, batches, k, n)
    d = torch.empty((batches, m, n), device="cuda", dtype=torch.bfloat16)
    return lambda: torch.matmul(a, b, out=d)


@case("torch", "matmul/grouped/bf16")
def _(shape, seed):
    groups, rows, n, k = shape
    a, b = normals(torch.bfloat16, rows, k), normals(torch.bfloat16, groups, n, k).transpose(1, 2)
    ends = [rows * i * (i + groups) // (2 * groups * groups) for i in range(1, groups + 1)]
    ends = torch.tensor(ends, device="cuda", dtype=torch.int32)
    return lambda: torch._grouped_mm(a, b, offs=ends)


serve()
