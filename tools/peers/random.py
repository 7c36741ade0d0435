"""The peers of the random numbers: PyTorch's in place, and cuRAND's Philox by way of CuPy."""

from peer import case, cupy, serve, torch, torch_type

for element in ("f32", "f64"):

    @case("torch", f"random/uniform/{element}")
    def _(shape, seed, element=element):
        out = torch.empty(*shape, device="cuda", dtype=torch_type(element))
        return lambda: out.uniform_()


@case("torch", "random/normal/f32")
def _(shape, seed):
    out = torch.empty(*shape, device="cuda")
    return lambda: out.normal_()


def curand(name, element, *more):
    """A case of a function of cuRAND's host interface: the same as in random.cu, for machines without its header."""

    @case("CuPy cuRAND", name)
    def _(shape, seed):
        from cupy_backends.cuda.libs import curand

        generator = curand.createGenerator(curand.CURAND_RNG_PSEUDO_PHILOX4_32_10)
        curand.setPseudoRandomGeneratorSeed(generator, seed)
        out = cupy.empty(shape, dtype=element)
        generate = {"uniform": curand.generateUniform, "normal": curand.generateNormal}[name.split("/")[1]]

        def run():
            curand.setStream(generator, cupy.cuda.get_current_stream().ptr)
            generate(generator, out.data.ptr, out.size, *more)
            return out

        return run


curand("random/uniform/f32", "f4")
curand("random/normal/f32", "f4", 0.0, 1.0)

serve()
