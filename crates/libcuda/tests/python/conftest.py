"""Both clients must have found the emulator: numbers from a GPU would show nothing."""

import pytest
from cuda.bindings import driver


@pytest.fixture(scope="session", autouse=True)
def on_the_emulator():
    (code,) = driver.cuInit(0)
    assert code == driver.CUresult.CUDA_SUCCESS, code
    code, name = driver.cuDeviceGetName(64, 0)
    assert code == driver.CUresult.CUDA_SUCCESS, code
    assert name.split(b"\0")[0] == b"Ferrowarp emulator"
