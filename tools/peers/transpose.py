"""The peers of the transposes: PyTorch's."""

from peer import case, random, serve, torch

for form, element in [("square", "f32"), ("square", "u8"), ("rectangular", "f32"), ("ragged", "f32")]:

    @case("torch", f"transpose/{form}/{element}")
    def _(shape, seed, element=element):
        x = random(element, *shape)
        return lambda: x.t().contiguous()


for axes in [(0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]:

    @case("torch", "transpose/permute-{}{}{}/f32".format(*axes))
    def _(shape, seed, axes=axes):
        x = random("f32", *shape)
        return lambda: x.permute(axes).contiguous()


serve()
