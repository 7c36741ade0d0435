"""The peers of the reductions: PyTorch's and CuPy's."""

from peer import case, cupy, cupy_random, random, serve, torch

for element in ("f16", "bf16", "f32", "f64"):

    @case("torch", f"reduce/sum/{element}")
    def _(shape, seed, element=element):
        x = random(element, *shape)
        return lambda: torch.sum(x)


for form in ("max", "argmax"):

    @case("torch", f"reduce/{form}/f32")
    def _(shape, seed, form=form):
        x = random("f32", *shape)
        run = getattr(torch, form)
        return lambda: run(x)


@case("CuPy", "reduce/sum/f32")
def _(shape, seed):
    x = cupy_random("f32", *shape)
    return lambda: cupy.sum(x)


for form, axis in (("rows", 1), ("columns", 0)):

    @case("torch", f"reduce/{form}/f32")
    def _(shape, seed, axis=axis):
        x = random("f32", *shape)
        return lambda: torch.sum(x, axis)


serve()
