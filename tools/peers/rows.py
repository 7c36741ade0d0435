"""The peers of the operations over rows: PyTorch's, eager and compiled."""

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
        run = compiled(softmax)
        return lambda: run(x)

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
            run = compiled(norm)
            return lambda: run(x, weight, bias)


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


serve()
