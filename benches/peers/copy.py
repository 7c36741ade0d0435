"""The peers of the copies: PyTorch's."""

from peer import case, random, serve, torch


@case("torch", "copy/array/f32")
def _(shape, seed):
    x = random("f32", *shape)
    out = torch.full_like(x, float("nan"))
    return lambda: out.copy_(x)


@case("torch", "copy/fill/f32")
def _(shape, seed):
    out = torch.full(shape, float("nan"), device="cuda")
    return lambda: out.fill_(3.0)


@case("torch", "copy/triad/f32")
def _(shape, seed):
    a, b = random("f32", *shape), random("f32", *shape)
    out = torch.full_like(a, float("nan"))
    return lambda: torch.add(a, b, alpha=3.0, out=out)


serve()
