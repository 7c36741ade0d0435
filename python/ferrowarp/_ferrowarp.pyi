from typing import Any

# What is public is declared in __init__.pyi; the gradients that ferrowarp.torch calls are not.
def __getattr__(name: str) -> Any: ...
