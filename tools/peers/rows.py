"""The peers of the operations over rows: PyTorch's, eager and compiled, and the kernels of Triton's tutorials."""

from peer import case, compiled, random, serve, torch

EPSILON = 1e-5


def softmax(x):
    return torch.softmax(x, -1)


def layer_norm(x, weight, bias):
    return torch.nn.functional.layer_norm(x, weight.shape, weight, bias, EPSILON)


def rms_norm(x, weight, bias):
    return torch.nn.functional.rms_norm(x, weight.shape, weight, EPSILON)


for element in ("f32", "bf16"):

    @case("torch", f"rows/softmax/{element}")
    def _(shape, seed, element=element):
        x = random(element, *shape)
        return lambda: softmax(x)

    @case("torch.compile", f"rows/softmax/{element}")
    def _(shape, seed, element=element):
        x = random(element, *shape)
        return compiled(softmax, x)

    for norm in (layer_norm, rms_norm):

        @case("torch", f"rows/{norm.__name__}/{element}")
        def _(shape, seed, element=element, norm=norm):
            x = random(element, *shape)
            weight, bias = (random(element, shape[1]) for _ in range(2))
            return lambda: norm(x, weight, bias)

        @case("torch.compile", f"rows/{norm.__name__}/{element}")
        def _(shape, seed, element=element, norm=norm):
            x = random(element, *shape)
            weight, bias = (random(element, shape[1]) for _ in range(2))
            return compiled(norm, x, weight, bias)


@case("torch", "rows/softmax_backward/bf16")
def _(shape, seed):
    y, dy = (random("bf16", *shape) for _ in range(2))
    return lambda: torch.ops.aten._softmax_backward_data(dy, y, -1, torch.bfloat16)


@case("torch", "rows/layer_norm_backward/bf16")
def _(shape, seed):
    x, dy = (random("bf16", *shape) for _ in range(2))
    weight, bias = (random("bf16", shape[1]) for _ in range(2))
    sizes = list(shape[1:])
    _, mean, rstd = torch.ops.aten.native_layer_norm(x, sizes, weight, bias, EPSILON)
    backward = torch.ops.aten.native_layer_norm_backward
    return lambda: backward(dy, x, sizes, mean, rstd, weight, bias, [True, True, True])[0]


try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

# Elements of a block of Triton's: the tutorials take a whole row into one, of up to 64 KB.
_LARGEST_ROW = 65_536

if triton is not None and torch is not None:

    @triton.jit
    def _softmax_rows(out, x, stride, rows, columns, BLOCK: tl.constexpr, stages: tl.constexpr):
        for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=stages):
            offsets = tl.arange(0, BLOCK)
            inside = offsets < columns
            values = tl.load(x + row.to(tl.int64) * stride + offsets, mask=inside, other=-float("inf")).to(tl.float32)
            powers = tl.exp(values - tl.max(values, axis=0))
            tl.store(out + row.to(tl.int64) * stride + offsets, powers / tl.sum(powers, axis=0), mask=inside)

    @triton.jit
    def _layer_norm_rows(x, out, weight, bias, stride, columns, epsilon, BLOCK: tl.constexpr):
        start = tl.program_id(0).to(tl.int64) * stride
        offsets = tl.arange(0, BLOCK)
        sums = tl.zeros([BLOCK], dtype=tl.float32)
        for first in range(0, columns, BLOCK):
            inside = first + offsets < columns
            sums += tl.load(x + start + first + offsets, mask=inside, other=0.0).to(tl.float32)
        mean = tl.sum(sums, axis=0) / columns
        squares = tl.zeros([BLOCK], dtype=tl.float32)
        for first in range(0, columns, BLOCK):
            inside = first + offsets < columns
            value = tl.load(x + start + first + offsets, mask=inside, other=0.0).to(tl.float32)
            value = tl.where(inside, value - mean, 0.0)
            squares += value * value
        scale = 1 / tl.sqrt(tl.sum(squares, axis=0) / columns + epsilon)
        for first in range(0, columns, BLOCK):
            inside = first + offsets < columns
            w = tl.load(weight + first + offsets, mask=inside)
            b = tl.load(bias + first + offsets, mask=inside)
            value = tl.load(x + start + first + offsets, mask=inside, other=0.0).to(tl.float32)
            tl.store(out + start + first + offsets, (value - mean) * scale * w + b, mask=inside)

    def warps(block):
        """The tutorial's choice for a block."""
        return min(max(block // 256, 1), 8)

    for element in ("f32", "bf16"):

        @case("Triton tutorial", f"rows/softmax/{element}")
        def _(shape, seed, element=element):
            rows, columns = shape
            x = random(element, *shape)
            out = torch.full_like(x, float("nan"))
            block = triton.next_power_of_2(columns)
            if block > _LARGEST_ROW:
                raise ValueError("the tutorial's kernel keeps a row in one block, and this one is too long")
            processors = torch.cuda.get_device_properties(0).multi_processor_count

            def variant(blocks):
                def run():
                    grid = (min(blocks * processors, rows),)
                    _softmax_rows[grid](out, x, x.stride(0), rows, columns, block, 4, num_warps=8)
                    return out

                return run

            # The tutorial asks the compiled kernel how many blocks a multiprocessor holds: one of these.
            return {f"{blocks} blocks a multiprocessor": variant(blocks) for blocks in (2, 4, 8)}

        @case("Triton tutorial", f"rows/layer_norm/{element}")
        def _(shape, seed, element=element):
            rows, columns = shape
            x = random(element, *shape)
            out = torch.full_like(x, float("nan"))
            weight, bias = (random(element, columns) for _ in range(2))
            # The tutorial refuses longer rows than 64 KB; its kernel loops, so that blocks of that size serve all.
            block = min(_LARGEST_ROW // x.element_size(), triton.next_power_of_2(columns))

            def run():
                arguments = x, out, weight, bias, x.stride(0), columns, EPSILON
                _layer_norm_rows[(rows,)](*arguments, BLOCK=block, num_warps=warps(block))
                return out

            return run


serve()
