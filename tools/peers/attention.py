"""The peers of attention: the backends of PyTorch's scaled_dot_product_attention, on normal data."""

from peer import case, serve, torch

if torch is not None:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.attention.bias import causal_lower_right


def attention(shape, backend, is_causal=False):
    batches, heads, kv_heads, queries, keys, depth = shape

    def normals(heads, rows):
        size = (batches, heads, rows, depth)
        return torch.randn(size, device="cuda", dtype=torch.float32).to(torch.bfloat16)

    q, k, v = normals(heads, queries), normals(kv_heads, keys), normals(kv_heads, keys)
    # Fewer queries than keys are aligned at their ends; one query alone sees all keys.
    mask = causal_lower_right(queries, keys) if is_causal and 1 < queries < keys else None

    def run():
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(
                q,
                k,
                v,
                attn_mask=mask,
                is_causal=is_causal and queries == keys,
                enable_gqa=heads != kv_heads,
            )

    return run


def gradients(shape, backend, is_causal=False, is_deterministic=False):
    batches, heads, kv_heads, queries, keys, depth = shape

    def normals(heads, rows):
        size = (batches, heads, rows, depth)
        values = torch.randn(size, device="cuda", dtype=torch.float32).to(torch.bfloat16)
        return values.requires_grad_()

    q, k, v = normals(heads, queries), normals(kv_heads, keys), normals(kv_heads, keys)
    d_o = normals(heads, queries).detach()
    with sdpa_kernel(backend):
        o = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=is_causal, enable_gqa=heads != kv_heads
        )

    def run():
        torch.use_deterministic_algorithms(is_deterministic)
        try:
            return torch.autograd.grad(o, (q, k, v), d_o, retain_graph=True)
        finally:
            torch.use_deterministic_algorithms(False)

    return run


for form, is_causal in (("all", False), ("causal", True), ("decode", True), ("chunk", False)):
    for name, backend in (("cuDNN", "CUDNN_ATTENTION"), ("flash", "FLASH_ATTENTION")):

        @case("cuDNN" if name == "cuDNN" else "torch's flash", f"attention/{form}/bf16")
        def _(shape, seed, backend=backend, is_causal=is_causal):
            return attention(shape, getattr(SDPBackend, backend), is_causal)

        if form in ("all", "causal"):
            of_gradients = "gradients" if form == "all" else "gradients-causal"

            @case("cuDNN" if name == "cuDNN" else "torch's flash", f"attention/{of_gradients}/bf16")
            def _(shape, seed, backend=backend, is_causal=is_causal):
                return gradients(shape, getattr(SDPBackend, backend), is_causal)


# Of these PyTorch 2.11 runs the flash backend alone: for cuDNN's it has no deterministic kernel.
for form, is_causal in (("gradients-deterministic", False), ("gradients-deterministic-causal", True)):

    @case("torch's flash", f"attention/{form}/bf16")
    def _(shape, seed, is_causal=is_causal):
        return gradients(shape, SDPBackend.FLASH_ATTENTION, is_causal, is_deterministic=True)


serve()
