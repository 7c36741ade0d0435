"""The peers of attention: the backends of PyTorch's scaled_dot_product_attention, on normal data."""

from peer import case, compiled, serve, torch

try:
    import cudnn
except Exception:
    cudnn = None

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


def front_end(shape, is_causal, is_fp8):
    """cuDNN by its own front end, which may choose other kernels than PyTorch does."""
    batches, heads, kv_heads, queries, keys, depth = shape
    element = torch.float8_e4m3fn if is_fp8 else torch.bfloat16
    kind = cudnn.data_type.FP8_E4M3 if is_fp8 else cudnn.data_type.BFLOAT16
    single = cudnn.data_type.FLOAT
    handle = cudnn.create_handle()
    graph = cudnn.pygraph(
        io_data_type=kind, intermediate_data_type=single, compute_data_type=single, handle=handle
    )
    memory = {}

    def tensor(name, values, kind):
        found = graph.tensor(
            name=name, dim=list(values.shape), stride=list(values.stride()), data_type=kind
        )
        memory[found] = values
        return found

    def normals(name, heads, rows):
        values = torch.randn((batches, heads, rows, depth), device="cuda", dtype=torch.float32)
        return tensor(name, values.to(element), kind)

    inputs = dict(
        q=normals("q", heads, queries),
        k=normals("k", kv_heads, keys),
        v=normals("v", kv_heads, keys),
        attn_scale=depth**-0.5,
        use_causal_mask=is_causal,
        generate_stats=False,
    )
    one = torch.ones((1, 1, 1, 1), device="cuda")
    if is_fp8:
        names = ("descale_q", "descale_k", "descale_v", "descale_s", "scale_s", "scale_o")
        scales = {name: tensor(name, one, single) for name in names}
        o, _, *largest = graph.sdpa_fp8(**inputs, **scales)
        for found in largest:
            found.set_output(True).set_dim([1] * 4).set_stride([1] * 4).set_data_type(single)
            memory[found] = torch.zeros_like(one)
    else:
        o, _ = graph.sdpa(**inputs)
    result = torch.empty((batches, heads, queries, depth), device="cuda", dtype=element)
    o.set_output(True).set_dim(list(result.shape)).set_stride(list(result.stride()))
    o.set_data_type(kind)
    memory[o] = result
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([cudnn.heur_mode.A])
    graph.check_support()
    graph.build_plans()
    workspace = torch.empty(max(1, graph.get_workspace_size()), device="cuda", dtype=torch.uint8)

    def run():
        cudnn.set_stream(handle, torch.cuda.current_stream().cuda_stream)
        graph.execute(memory, workspace, handle=handle)
        return result

    def check(result):
        return "the result is all NaN" if bool(result.float().isnan().all()) else None

    return run, check


def dropped(shape, backend):
    batches, heads, kv_heads, queries, keys, depth = shape

    def normals(heads, rows):
        size = (batches, heads, rows, depth)
        values = torch.randn(size, device="cuda", dtype=torch.float32).to(torch.bfloat16)
        return values.requires_grad_()

    q, k, v = normals(heads, queries), normals(kv_heads, keys), normals(kv_heads, keys)
    d_o = normals(heads, queries).detach()

    def forward():
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, dropout_p=0.1, enable_gqa=heads != kv_heads
            )

    o = forward()
    return forward, lambda: torch.autograd.grad(o, (q, k, v), d_o, retain_graph=True)


def strided(shape):
    """FlexAttention with a block mask that is made before."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    batches, heads, kv_heads, queries, keys, depth = shape

    def sees(batch, head, query, key):
        is_seen = (query // 1024 == key // 1024) | (key % 1024 >= 1024 - 128)
        return is_seen & (key <= query)

    def normals(heads, rows):
        size = (batches, heads, rows, depth)
        return torch.randn(size, device="cuda", dtype=torch.float32).to(torch.bfloat16)

    q, k, v = normals(heads, queries), normals(kv_heads, keys), normals(kv_heads, keys)
    mask = create_block_mask(sees, None, None, queries, keys, device="cuda")
    attend = torch.compile(flex_attention, dynamic=False)
    return lambda: attend(q, k, v, block_mask=mask, enable_gqa=heads != kv_heads)


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


for form, is_causal in (("all", False), ("causal", True)):
    for element in ("bf16", "E4m3"):
        if cudnn is None:
            continue

        @case("cuDNN's front end", f"attention/{form}/{element}")
        def _(shape, seed, is_causal=is_causal, is_fp8=element == "E4m3"):
            return front_end(shape, is_causal, is_fp8)


for name, backend in (("cuDNN", "CUDNN_ATTENTION"), ("torch's flash", "FLASH_ATTENTION")):
    for index, form in enumerate(("dropout", "dropout-gradients")):

        @case("cuDNN" if name == "cuDNN" else "torch's flash", f"attention/{form}/bf16")
        def _(shape, seed, backend=backend, index=index):
            return dropped(shape, getattr(SDPBackend, backend))[index]


@case("torch's FlexAttention", "attention/strided/bf16")
def _(shape, seed):
    return strided(shape)


def rotary(x, cos, sin):
    low, high = x.float().chunk(2, dim=-1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1).to(x.dtype)


def append(k, v, cos, sin, k_cache, v_cache):
    k_cache.copy_(rotary(k, cos, sin))
    v_cache.copy_(v)
    return k_cache, v_cache


def rows_and_turns(shape, heads):
    batches, _, _, rows, _, depth = shape
    size = (batches, heads, rows, depth)
    x = torch.randn(size, device="cuda", dtype=torch.float32).to(torch.bfloat16)
    pairs = torch.arange(0, depth, 2, device="cuda", dtype=torch.float64) / depth
    angles = torch.arange(rows, device="cuda", dtype=torch.float64)[:, None] * 10_000.0**-pairs
    return x, angles.cos().float(), angles.sin().float()


@case("torch.compile", "attention/rotary/bf16")
def _(shape, seed):
    return compiled(rotary, *rows_and_turns(shape, shape[1]))


@case("torch.compile", "attention/append/bf16")
def _(shape, seed):
    k, cos, sin = rows_and_turns(shape, shape[2])
    v, k_cache, v_cache = (torch.randn_like(k) for _ in range(3))
    return compiled(append, k, v, cos, sin, k_cache, v_cache)


# Of these PyTorch 2.11 runs the flash backend alone: for cuDNN's it has no deterministic kernel.
for form, is_causal in (("gradients-deterministic", False), ("gradients-deterministic-causal", True)):

    @case("torch's flash", f"attention/{form}/bf16")
    def _(shape, seed, is_causal=is_causal):
        return gradients(shape, SDPBackend.FLASH_ATTENTION, is_causal, is_deterministic=True)


serve()
