"""The peers of the maps: PyTorch's."""

from peer import case, random, serve, torch


@case("torch", "map/triad/f32")
def _(shape, seed):
    b, c = random("f32", *shape), random("f32", *shape)
    out = torch.full_like(b, float("nan"))
    return lambda: torch.add(b, c, alpha=0.75, out=out)


@case("torch", "map/convert/bf16")
def _(shape, seed):
    x = random("f32", *shape)
    out = torch.full(shape, float("nan"), device="cuda", dtype=torch.bfloat16)
    return lambda: out.copy_(x)


@case("torch", "map/negate/bf16")
def _(shape, seed):
    x = random("bf16", *shape)
    out = torch.full_like(x, float("nan"))
    return lambda: torch.neg(x, out=out)


serve()
