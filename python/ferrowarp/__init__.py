"""Ferrowarp's GPU operations on arrays of PyTorch, CuPy, JAX and NumPy.

An argument is any array with ``__dlpack__``. One on a CUDA device is used where it is; one of the CPU is copied to the device,
which is a GPU or, where there is none, an emulated one in this process. A result has the type of the first argument and is where
the arguments are.

A call on tensors of PyTorch or arrays of CuPy on a GPU runs on their current stream, like the library's own operations, and waits
for nothing, unless the length of its results has to be found first. ``ferrowarp.torch`` has the operations with gradients and for
``torch.compile``.

>>> import numpy, ferrowarp
>>> ferrowarp.sort(numpy.array([3.0, 1.0, 2.0]))
array([1., 2., 3.])

``FERROWARP_DEVICE=emulator`` or ``cuda`` chooses the device before the first call; ``ferrowarp.device()`` says which it is.
"""

from ._ferrowarp import (
    Array,
    Csr,
    DeviceInfo,
    Error,
    Function,
    Module,
    __version__,
    argsort,
    attention,
    build,
    device,
    histogram,
    integers,
    layer_norm,
    matmul,
    normal,
    partition,
    permute,
    rms_norm,
    run_lengths,
    scan,
    segmented_argsort,
    segmented_reduce,
    segmented_sort,
    select,
    softmax,
    sort,
    spmv,
    stencil,
    top_k,
    transpose,
    uniform,
    unique,
)

__all__ = [
    "Array",
    "Csr",
    "DeviceInfo",
    "Error",
    "Function",
    "Module",
    "__version__",
    "argsort",
    "attention",
    "build",
    "device",
    "histogram",
    "integers",
    "layer_norm",
    "matmul",
    "normal",
    "partition",
    "permute",
    "rms_norm",
    "run_lengths",
    "scan",
    "segmented_argsort",
    "segmented_reduce",
    "segmented_sort",
    "select",
    "softmax",
    "sort",
    "spmv",
    "stencil",
    "top_k",
    "transpose",
    "uniform",
    "unique",
]
