"""The peers of the sorts: PyTorch's, which also gives the places, of 64 bits."""

from peer import case, random, serve, torch


@case("torch", "sort/keys/f32")
def _(shape, seed):
    x = random("f32", *shape)
    return lambda: torch.sort(x)[0]


@case("torch", "sort/argsort/f32")
def _(shape, seed):
    x = random("f32", *shape)
    return lambda: torch.argsort(x, stable=True)


@case("torch", "sort/top_k/f32")
def _(shape, seed):
    n, k = shape
    x = random("f32", n)
    return lambda: torch.topk(x, k)[0]


serve()
