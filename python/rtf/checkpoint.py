"""`load`: what `rtf train`, `rtf export` and `rtf.export` leave behind, back in Python."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from . import _core
from ._dispatch import path_text
from .stream import Stream

if TYPE_CHECKING:
    from .sequence_model import SequenceModel

__all__ = ["load"]

_LAYER = ("order", "denominators", "bidirectional", "numerator", "kernel_dropout", "init", "initial_gain", "constraint")
_MODEL = ("channels", "layers", "norm", "prenorm", "residual", "dropout", "inner_dropout", "tie_dropout",
          "tie_inner_dropout", "activation", "glu")  # fmt: skip
_SHAPE = ("vocabulary", "features", "decoder", "outputs", "last", "length")


def load(path: str | os.PathLike[str], *, checkpoint: str = "best") -> SequenceModel | Stream:
    """The model of a run, of a checkpoint, or of an exported file.

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
    file = Path(path_text("load", path, "that of a run's folder or of a file is needed"))
    if checkpoint not in ("best", "latest", "previous"):
        raise ValueError(f"[rtf::load] checkpoint is {checkpoint!r}; expected best, latest or previous")
    if file.is_dir():
        file = file / "checkpoints" / f"{checkpoint}.safetensors"
    if not file.is_file():
        raise FileNotFoundError(f"[rtf::load] {file}: no such file; a run's folder, a checkpoint or an exported model is needed")
    with file.open("rb") as opened:
        if opened.read(4) == b"PK\3\4":
            raise ValueError(f"[rtf::load] {file}: a file of torch.save; load_state_dict of a layer or model takes what torch.load finds in it")
    contents = _core.read_checkpoint(str(file))
    return Stream(file) if contents is None else _model(file, *contents)


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
    model.load_state_dict({name: torch.from_numpy(values) for name, values in weights.items()})
    return model.eval()


def _value(text: str) -> Any:
    """A value of the metadata, as YAML has it."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
