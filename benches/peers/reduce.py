"""The peers of the reductions: PyTorch's and CuPy's."""

from peer import case, cupy, cupy_random, random, serve, torch


@case("torch", "reduce/sum/f32")
def _(shape, seed):
    x = random("f32", *shape)
    return lambda: torch.sum(x)


@case("CuPy", "reduce/sum/f32")
def _(shape, seed):
    x = cupy_random("f32", *shape)
    return lambda: cupy.sum(x)


serve()
