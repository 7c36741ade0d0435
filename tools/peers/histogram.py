"""The peers of the histograms: PyTorch's."""

from peer import case, random, serve, torch


@case("torch", "histogram/even/f32")
def _(shape, seed):
    x = random("f32", *shape)
    return lambda: torch.histc(x, bins=256, min=-0.5, max=0.5)


@case("torch", "histogram/even/u8")
def _(shape, seed):
    x = random("u8", *shape)
    return lambda: torch.bincount(x, minlength=256)


serve()
