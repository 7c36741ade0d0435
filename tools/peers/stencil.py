"""The peers of the stencils: PyTorch's convolution."""

from peer import case, random, serve, torch


@case("torch", "stencil/plane/f32")
def _(shape, seed):
    x = random("f32", *shape)[None, None]
    weights = torch.tensor([[0.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 0.0]], device="cuda") * 0.2
    weights = weights[None, None]
    return lambda: torch.nn.functional.conv2d(x, weights, padding=1)


serve()
