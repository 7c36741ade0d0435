"""What the peers in Python share: random data, timing, and the lines of JSON in which `ferrowarp bench` asks.

A peer is a file that registers cases and calls `serve()`:

    from peer import case, random, serve, torch

    @case("torch", "reduce/sum/f32")
    def _(shape, seed):
        x = random("f32", *shape)
        return lambda: torch.sum(x)

    serve()

A case is called once for each copy of the data and returns what runs on it; what that returns is kept until the next
run on the same copy, and is what `check` looks at: with no check of its own, a case is right if its result is not
all NaN. In place of one function a case may return a dictionary of named variants of it, all of which are measured, and
the fastest of which is what the benchmark quotes. Cases whose library is missing are not registered. What a case returns may also be a pair (run, check), where
`check(result)` is None or says what is wrong.
"""

import json
import sys
import time

# What torch.compile is told, as variants. reduce-overhead is not among them: it copies its inputs to addresses of its own
# first, unless they are always the same ones, and the benchmark's runs take turns on several copies of the data.
_MODES = ("default", "max-autotune-no-cudagraphs")

_MISSING = []
try:
    import torch

    if not torch.cuda.is_available():
        _MISSING.append("PyTorch sees no GPU")
        torch = None
except Exception as error:
    _MISSING.append(f"PyTorch: {type(error).__name__}: {error}")
    torch = None
try:
    import cupy
except Exception as error:
    _MISSING.append(f"CuPy: {type(error).__name__}: {error}")
    cupy = None

_CASES = {}
_TORCH_TYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
_TORCH_TYPES |= {f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)} | {"u8": "uint8"}


def torch_type(element):
    """torch's type of an element type as cases name it."""
    return getattr(torch, _TORCH_TYPES[element])


def random(element, *shape):
    """Random data for torch: integers over their whole range, floats in -0.5..0.5."""
    kind = torch_type(element)
    if kind.is_floating_point:
        return torch.rand(shape, device="cuda", dtype=torch.float32 if kind.itemsize < 4 else kind).sub_(0.5).to(kind)
    limits = torch.iinfo(kind)
    if kind == torch.int64:
        high, low = (torch.randint(0, 2**32, shape, device="cuda") for _ in range(2))
        return (high << 32) | low
    return torch.randint(limits.min, limits.max + 1, shape, device="cuda", dtype=kind)


def cupy_random(element, *shape):
    """Random data for CuPy: integers over their whole range, floats in -0.5..0.5."""
    count = 1
    for extent in shape:
        count *= extent
    kind = cupy.dtype({"f": "f", "i": "i", "u": "u"}[element[0]] + str(int(element[1:]) // 8))
    if kind.kind == "f":
        wide = cupy.float32 if kind.itemsize < 8 else cupy.float64
        return (cupy.random.random(count, dtype=wide) - wide(0.5)).astype(kind).reshape(shape)
    words = cupy.random.randint(0, 2**32, -(-count * kind.itemsize // 4), dtype=cupy.uint32)
    return words.view(kind)[:count].reshape(shape)


_COMPILED = {}


def compiled(function, *tensors):
    """Variants of `function(*tensors)` through torch.compile, one for each of its modes, with static shapes. The function
    takes all its tensors as arguments: what the first copy of the data compiles serves the others."""

    def variant(mode):
        key = function.__code__, mode
        if key not in _COMPILED:
            _COMPILED[key] = torch.compile(function, dynamic=False, mode=mode)
        run = _COMPILED[key]
        return lambda: run(*tensors)

    return {mode: variant(mode) for mode in _MODES}


def case(peer, name):
    """Registers a case of `torch…` or `cupy…`, if that is on the machine."""
    library = cupy if peer.lower().startswith("cupy") else torch

    def register(set_up):
        if library is not None:
            _CASES[peer, name] = set_up
        return set_up

    return register


class _Torch:
    """Timing on torch's current stream."""

    def __init__(self):
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        self.synchronize = torch.cuda.synchronize

    def begin(self, wait_ns):
        # So many cycles of a clock of at most 2 GHz.
        torch.cuda._sleep(int(wait_ns * 2))
        self.events[0].record()

    def end(self):
        self.events[1].record()
        self.events[1].synchronize()
        return self.events[0].elapsed_time(self.events[1])


class _Cupy:
    """Timing on CuPy's current stream."""

    HOLD = r"""
    extern "C" __global__ void hold(unsigned long long wait) {
        unsigned long long start, now;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
        do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); while (now - start < wait);
    }"""

    def __init__(self):
        self.events = [cupy.cuda.Event() for _ in range(2)]
        self.hold = cupy.RawKernel(self.HOLD, "hold")
        self.synchronize = cupy.cuda.Device().synchronize

    def begin(self, wait_ns):
        self.hold((1,), (1,), (cupy.uint64(wait_ns),))
        self.events[0].record()

    def end(self):
        self.events[1].record()
        self.events[1].synchronize()
        return cupy.cuda.get_elapsed_time(*self.events)


class _Ready:
    """A case with its data."""

    def __init__(self, peer, set_up, shape, copies):
        self.clock = _Cupy() if peer.lower().startswith("cupy") else _Torch()
        self.runs, self.checks = [], []
        for copy in range(copies):
            made = set_up(shape, 1 + copy)
            run, check = made if isinstance(made, tuple) else (made, _not_all_nan)
            variants = run if isinstance(run, dict) else {"": run}
            self.variants = list(variants)
            self.runs.append(list(variants.values()))
            self.checks.append(check)
        self.results = [None] * copies
        self.done = 0
        self.queue_ns = [self.warm_up(variant) for variant in range(len(self.variants))]

    def warm_up(self, variant):
        """How long the host takes to queue a run, in nanoseconds, once each copy has run."""
        for _ in range(max(len(self.runs), 3)):
            self.next(variant)
        self.clock.synchronize()
        start = time.perf_counter_ns()
        for _ in range(10):
            self.next(variant)
        taken = (time.perf_counter_ns() - start) // 10
        self.clock.synchronize()
        return taken

    def next(self, variant):
        copy = self.done % len(self.runs)
        self.done += 1
        self.results[copy] = self.runs[copy][variant]()

    def sample(self, variant, runs):
        self.clock.begin(min(self.queue_ns[variant] * runs * 3 // 2 + 20_000, 20_000_000))
        for _ in range(runs):
            self.next(variant)
        return self.clock.end() / runs

    def check(self):
        last = min(self.done, len(self.runs)) - 1
        return self.checks[0](self.results[0]) or self.checks[last](self.results[last])


def _not_all_nan(result):
    while isinstance(result, (tuple, list)):
        result = result[0]
    if bool((result != result).all()):
        return "the result is all NaN"
    return None


def _versions():
    versions = [] if torch is None else [f"PyTorch {torch.__version__}"]
    return versions + ([] if cupy is None else [f"CuPy {cupy.__version__}"])


_READY = {}


def _answer(request):
    verb, peer = request["do"], request.get("peer")
    if verb == "list":
        return {"cases": sorted(_CASES), "versions": _versions()}
    if verb == "prepare":
        set_up = _CASES[peer, request["case"]]
        _READY[peer] = _Ready(peer, set_up, request["shape"], request["copies"])
        return {"variants": _READY[peer].variants}
    if verb == "run":
        ready, variant, runs = _READY[peer], request["variant"], request["runs"]
        return {"ms": [ready.sample(variant, runs) for _ in range(request["rounds"])]}
    if verb == "check":
        wrong = _READY[peer].check()
        return {"wrong": wrong} if wrong else {}
    _READY.clear()
    if _COMPILED:
        _COMPILED.clear()
        torch._dynamo.reset()
    if torch is not None:
        torch.cuda.empty_cache()
    if cupy is not None:
        cupy.get_default_memory_pool().free_all_blocks()
    return {}


def serve():
    """Answers requests until there are no more."""
    replies, sys.stdout = sys.stdout, sys.stderr
    if torch is None and cupy is None:
        print(json.dumps({"error": "; ".join(_MISSING).replace("\n", " ")}), file=replies, flush=True)
        return
    for line in sys.stdin:
        try:
            reply = _answer(json.loads(line))
        except Exception as error:
            words = (str(error).splitlines() or [""])[0]
            reply = {"error": f"{type(error).__name__}: {words}"}
        print(json.dumps(reply), file=replies, flush=True)
