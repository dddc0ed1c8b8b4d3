"""What a type checker sees of the package: a program that it passes, and mistakes that it finds (`python_types` runs mypy)."""

import numpy as np
import rtf

filters = (rtf.TransferFunction([-0.5], [1.0], 0.0), rtf.TransferFunction([0.5], [1.0], 0.0))
poles = rtf.poles(filters)
order = rtf.fit(np.ones(8), order=2).filter.a.shape[-1] + rtf.reduce(filters[0], 1).filter.a.shape[-1]

layer = rtf.RTF(d_model=4, state_size=8, trunc_len=64)
shape = layer.get_k().shape
model = rtf.nn.SequenceModel(channels=4, order=2, length=8, outputs=1)
stream = rtf.Stream(layer)
zeros = rtf.convert(layer, "zpk")
off = rtf.export(model, "model.safetensors").answer_error + rtf.export(layer, "layer.safetensors").answer_error
rtf.write_filter("filter.json", filters[0])
rtf.write_filter("layer.json", layer)
again = rtf.read_filter("filter.json")
whole = rtf.Sequences("model.safetensors").process(np.ones((1, 8, 1))).shape

rtf.RTF(d_model="four", state_size=8, trunc_len=64)  # type: ignore[arg-type]
rtf.RTF(4, 8, 64, nonsense=3)  # type: ignore[call-arg]
rtf.lfiltr([1.0], [1.0], [1.0])  # type: ignore[attr-defined]
rtf.export(3, "model.safetensors")  # type: ignore[arg-type]
layer.get_k(L="all")  # type: ignore[arg-type]
