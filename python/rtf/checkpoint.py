"""`load`: what `rtf train` and `rtf export` leave behind, back in Python."""

from __future__ import annotations

import json
import os
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .stream import Stream

if TYPE_CHECKING:
    from .sequence_model import SequenceModel

__all__ = ["load"]

_TYPES = {"F32": "<f4", "F64": "<f8"}
_LAYER = ("order", "denominators", "bidirectional", "numerator", "kernel_dropout", "init", "initial_gain", "constraint")
_MODEL = ("channels", "layers", "norm", "prenorm", "residual", "dropout", "inner_dropout", "tie_dropout",
          "tie_inner_dropout", "activation", "glu")  # fmt: skip
_SHAPE = ("vocabulary", "features", "decoder", "outputs", "last", "length")


def load(path: str | os.PathLike[str], *, checkpoint: str = "best") -> SequenceModel | Stream:
    """The model of a run, of a checkpoint, or of a file that `rtf export` wrote.

    Parameters
    ----------
    path : a run's folder, one of its checkpoints, or an exported model
    checkpoint : {'best', 'latest', 'previous'}
        Of a folder, which weights.

    Returns
    -------
    rtf.nn.SequenceModel
        Of a run or checkpoint, in evaluation mode, with the weights that `rtf eval` takes: averages where there are some.
        Layers of other kinds than rtf are refused: the command alone trains and evaluates them.
    rtf.Stream
        Of an exported model; this needs no PyTorch.

    Examples
    --------
    >>> import pathlib, subprocess, tempfile, rtf
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "copying.yaml").write_text('''
    ... task: {name: copying, symbols: 6, memory: 8, train_size: 64, val_size: 16}
    ... model: {layers: 1, channels: 8, order: 4}
    ... train: {epochs: 1, batch: 16}
    ... ''')
    >>> for command in ("rtf train copying.yaml --out run", "rtf export run -o model.safetensors"):
    ...     _ = subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)

    The model that was trained, and the same one as it is deployed:

    >>> model, stream = rtf.load(folder / "run"), rtf.load(folder / "model.safetensors")
    >>> type(model).__name__, type(stream).__name__
    ('SequenceModel', 'Stream')
    >>> model.vocabulary == stream.vocabulary
    True
    """
    file = Path(path)
    if file.is_dir():
        file = file / "checkpoints" / f"{checkpoint}.safetensors"
    if not file.is_file():
        raise FileNotFoundError(f"[rtf::load] {file}: no such file; a run's folder, a checkpoint or an exported model is needed")
    metadata, tensors = _read(file)
    if metadata.get("format", "").startswith("rtf-model "):
        return Stream(file)
    if metadata.get("format") != "1" or "crc32" not in metadata:
        raise ValueError(f"[rtf::load] {file}: neither a checkpoint of format 1 nor an exported model")
    if int(metadata["crc32"]) != _checksum(metadata, tensors):
        raise ValueError(f"[rtf::load] {file}: damaged: its checksum does not match its contents")
    return _model(file, metadata, tensors)


def _model(file: Path, metadata: dict[str, str], tensors: dict[str, NDArray[Any]]) -> SequenceModel:
    try:
        import torch
    except ModuleNotFoundError:
        raise ImportError(f"rtf.load needs PyTorch, which is not installed, for {file}: a checkpoint") from None
    from .sequence_model import SequenceModel

    def setting(key: str) -> Any:
        if key not in metadata:
            raise ValueError(f"[rtf::load] {file}: its metadata has no '{key}': `rtf train --resume` of this version adds it")
        return _value(metadata[key])

    if setting("config.model.layer") != "rtf":
        raise ValueError(f"[rtf::load] {file}: layers of kind {setting('config.model.layer')}; those of kind rtf are served here")
    options = {key: setting(f"config.model.{key}") for key in (*_LAYER, *_MODEL)}
    options.update({key: setting(f"shape.{key}") for key in _SHAPE})
    model = SequenceModel(**options)
    averages = {name.removeprefix("ema."): values for name, values in tensors.items() if name.startswith("ema.")}
    weights = {name.removeprefix("model."): values for name, values in tensors.items() if name.startswith("model.")}
    weights.update(averages)
    if setting("config.train.precision") == "fp64":
        model.double()
    model.load_state_dict({name: torch.from_numpy(values.copy()) for name, values in weights.items()})
    return model.eval()


def _value(text: str) -> Any:
    """A value of the metadata, as YAML has it."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _read(file: Path) -> tuple[dict[str, str], dict[str, NDArray[Any]]]:
    """Metadata and tensors of a safetensors file, or of the parts of one that an index names."""
    data = file.read_bytes()
    try:
        if data.startswith(b'{"parts":['):
            data = b"".join(_part(file, entry) for entry in json.loads(data)["parts"])
        (size,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8 : 8 + size])
        metadata = header.pop("__metadata__", {})
        tensors = {}
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            if entry["dtype"] in _TYPES:  # what a checkpoint has
                values = np.frombuffer(data[8 + size + begin : 8 + size + end], dtype=_TYPES[entry["dtype"]])
                tensors[name] = values.reshape(entry["shape"])
    except (ValueError, KeyError, TypeError, struct.error) as error:
        if str(error).startswith("[rtf::"):
            raise
        raise ValueError(f"[rtf::load] {file}: not a safetensors file, or cut short") from None
    return metadata, tensors


def _part(index: Path, entry: dict[str, Any]) -> bytes:
    part = index.parent / Path(entry["file"]).name
    if not part.is_file():
        raise ValueError(f"[rtf::load] {index}: incomplete: its part {part.name} is not there")
    data = part.read_bytes()
    if len(data) != entry["bytes"] or zlib.crc32(data) != entry["crc32"]:
        raise ValueError(f"[rtf::load] {index}: damaged: its part {part.name} is not what was written")
    return data


def _checksum(metadata: dict[str, str], tensors: dict[str, NDArray[Any]]) -> int:
    """Over names, shapes, values as float64 and the other metadata, in the order of their names."""
    crc = 0
    for name in sorted(tensors):
        values = tensors[name]
        crc = zlib.crc32(name.encode() + b"\0" + struct.pack(f"<{values.ndim}Q", *values.shape), crc)
        crc = zlib.crc32(values.astype("<f8").tobytes(), crc)
    for key in sorted(metadata):
        if key != "crc32":
            crc = zlib.crc32(f"{key}\0{metadata[key]}\0".encode(), crc)
    return crc
