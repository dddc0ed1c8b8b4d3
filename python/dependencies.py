"""What a wheel needs beside what pyproject.toml says: the very PyTorch that it is built for."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from typing import Any


def dynamic_metadata(settings: Mapping[str, Any], project: Mapping[str, Any]) -> dict[str, list[str]]:
    try:
        torch = importlib.metadata.version("torch").partition("+")[0]
    except importlib.metadata.PackageNotFoundError:  # what needs it is left out: RTF_TORCH=AUTO
        return {}
    return {"dependencies": [f"torch=={torch}"]}
