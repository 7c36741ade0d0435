"""The peers of the copies: PyTorch's."""

from peer import case, random, serve, torch


@case("torch", "copy/array/f32")
def _(shape, seed):
    x = random("f32", *shape)
    out = torch.full_like(x, float("nan"))
    return lambda: out.copy_(x)


serve()
