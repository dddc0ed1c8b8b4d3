"""Writes the seeds of the fuzz targets into corpus/<format>/: one small file for each way a format can be put, and for
each way it can lie. Past findings (finding_*) lie beside them as they were found."""

import json
import struct
import zlib
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
HUGE = 2**63


def npy(shape, values=b"", descr="<f8", order="False", version=1, header=None):
    text = (header or f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n").encode("latin-1")
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + values


def doubles(*values):
    return struct.pack(f"<{len(values)}d", *values)


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def npy_seeds():
    nan, infinity = float("nan"), float("inf")
    return {
        "vector": npy("(3,)", doubles(1, -0.0, 1e-310)),
        "matrix_f32": npy("(2, 2)", floats(1, 2, nan, infinity), "<f4"),
        "fortran_order": npy("(2, 3)", doubles(1, 2, 3, 4, 5, 6), order="True"),
        "version_2": npy("(1,)", doubles(1), version=2),
        "version_3": npy("(1L,)", doubles(1), version=3),
        "version_9": npy("(1,)", doubles(1), version=9),
        "scalar": npy("()", doubles(7)),
        "empty": npy("(0, 9223372036854775808)"),
        "big_endian": npy("(1,)", doubles(1), ">f8"),
        "fields": npy("", header="{'descr': [('x', '<f8')], 'fortran_order': False, 'shape': (1,)}"),
        "truncated_values": npy("(3,)", doubles(1, 2)),
        "trailing_values": npy("(1,)", doubles(1, 2)),
        "truncated_header": npy("(1,)", doubles(1))[:40],
        "header_length_lies": b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}",
        "shape_lies": npy("(1099511627776,)", doubles(1)),
        "shape_overflows": npy(f"({HUGE}, {HUGE})", doubles(1)),
        "bytes_overflow": npy(f"({HUGE},)", doubles(1)),
        "zero_hides_overflow": npy(f"({HUGE}, {HUGE}, 0)"),
        "size_overflows": npy("(99999999999999999999,)", doubles(1)),
        "negative_size": npy("(-1,)", doubles(1)),
        "dimensions_64": npy("(" + "1, " * 64 + ")", doubles(1), order="True"),
        "dimensions_65": npy("(" + "1, " * 65 + ")", doubles(1), order="True"),
        "finding_zero_byte": npy("", doubles(1), header="{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}\0more"),
        "key_twice": npy("", header="{'descr': '<f8', 'descr': '<f8'}"),
        "finding_key_escapes": npy("", header="{'\x1b[2J\n': 1}"),
        "finding_descr_not_utf8": npy("(1,)", doubles(1), "\xff\xfe\x00"),
        "finding_key_long": npy("", header="{'" + "k" * 2000 + "': 1}"),
    }


def safetensors(header, data=b"", length=None):
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(shape, begin, end, dtype="F64"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors_seeds():
    plain = {"a": tensor([1, 2], 0, 16), "b": tensor([2, 2], 16, 48), "h0": tensor([2], 48, 64)}
    values = doubles(-0.5, 0.1, 1, 2, 3, 4, 0, 1)
    gain = {"a": tensor([1, 0], 0, 0), "b": tensor([1, 0], 0, 0), "h0": tensor([1], 0, 4, "F32")}
    one = tensor([1], 0, 8)
    return {
        "filter": safetensors(plain, values),
        "trained": safetensors({"__metadata__": {"length": "64", "format": "pt"}, **plain}, values),
        "length_too_large": safetensors({"__metadata__": {"length": "99999999999999999999"}, **plain}, values),
        "order_0": safetensors(gain, floats(2)),
        "scalar": safetensors({"h0": tensor([], 0, 8)}, doubles(1)),
        "flat": safetensors({"a": tensor([1], 0, 8), "b": tensor([1], 8, 16), "h0": tensor([], 16, 24)}, doubles(-0.5, 1, 0)),
        "not_finite": safetensors({"a": tensor([1], 0, 8), "b": tensor([1], 8, 16), "h0": tensor([1], 16, 24)}, doubles(float("nan"), float("inf"), 0)),
        "empty": safetensors({}),
        "any_order": safetensors({"x": tensor([1], 8, 12, "F32"), "y": one}, doubles(1) + floats(1)),
        "padded": safetensors('{"x":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}   ', doubles(1)),
        "half": safetensors({"x": tensor([1], 0, 2, "F16")}, b"\0\0"),
        "truncated_length": b"\x02\0\0\0",
        "truncated_values": safetensors(plain, values[:-1]),
        "trailing_values": safetensors(plain, values + b"\0"),
        "header_length_lies": safetensors({}, length=2**64 - 1),
        "header_length_wraps": safetensors({}, length=2**64 - 8),
        "offsets_lie": safetensors({"x": tensor([2**50], 0, 2**53)}, doubles(1)),
        "offsets_backwards": safetensors({"x": tensor([1], 8, 0)}, doubles(1)),
        "shape_overflows": safetensors({"x": tensor([HUGE, HUGE], 0, 8)}, doubles(1)),
        "zero_hides_overflow": safetensors({"x": tensor([HUGE, HUGE, 0], 0, 0)}),
        "overlap": safetensors({"x": one, "y": tensor([1], 4, 12)}, doubles(1) + floats(1)),
        "narrow": safetensors({"x": tensor([2], 0, 4, "BF16"), "y": tensor([3], 4, 7, "I8")}, b"\x80\x3f\xa0\x7f" + whole(-128, 0, 127)),
        "narrow_filter": safetensors({"a": tensor([1], 0, 2, "BF16"), "b": tensor([1], 2, 3, "I8"), "h0": tensor([1], 3, 7, "F32")}, halves(0.5) + whole(1) + floats(1)),
        "hole": safetensors({"x": tensor([1], 8, 16)}, doubles(0, 1)),
        "name_twice": safetensors('{"x":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},"x":1}', doubles(1)),
        "finding_zero_byte": safetensors('{"x":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}\0more', doubles(1)),
        "nested": safetensors("[" * 1000),
        "metadata_number": safetensors({"__metadata__": {"length": 4}}),
        "finding_name_escapes": safetensors({"\u001b[2J\n\u0085\u2028": 1}),
        "finding_metadata_escapes": safetensors({"__metadata__": {"\u0007\r": 1}}),
        "finding_many_dimensions": safetensors({"a": tensor([1] * 600, 0, 8), "b": tensor([1], 8, 16), "h0": tensor([1], 16, 24)}, doubles(1, 2, 3)),
    }


def halves(*values):
    """bfloat16, of numbers that have one."""
    return b"".join(floats(value)[2:] for value in values)


def whole(*values):
    return struct.pack(f"<{len(values)}b", *values)


def model(recurrences, tensors, precision="f32", crc=None, version="rtf-model 1", **architecture):
    """A model of these recurrences, [(realization, precision)], and tensors, {name: (shape, values)}; `weights` of the
    architecture is the type of matrices and embeddings."""
    base = {"vocabulary": 0, "features": 1, "channels": 1, "layers": len(recurrences), "norm": "none", "prenorm": True, "residual": True,
            "activation": "gelu", "glu": False, "decoder": "pool", "outputs": 1, "last": 1, "bidirectional": False, "length": 8, "precision": precision}
    metadata = {
        "architecture": json.dumps(base | architecture),
        "format": version,
        "layers": json.dumps([{"realization": form, "precision": of, "pole_radius": 0.5, "error": 0} for form, of in recurrences]),
    }
    header, data, total = {}, b"", 0
    for name in sorted(tensors):
        shape, values = tensors[name]
        wide = next((of for i, (_, of) in enumerate(recurrences) if f"blocks.{i}.layer." in name or f"blocks.{i}.backward." in name), precision) == "f64"
        total = zlib.crc32(doubles(*values), zlib.crc32(struct.pack(f"<{len(shape)}Q", *shape), zlib.crc32(name.encode() + b"\0", total)))
        write, dtype = (doubles, "F64") if wide else (floats, "F32")
        if "weights" in architecture and name.endswith(".weight") and len(shape) == 2:
            write, dtype = {"bf16": (halves, "BF16"), "int8": (whole, "I8")}.get(architecture["weights"], (write, dtype))
        begin, data = len(data), data + write(*values)
        header[name] = tensor(list(shape), begin, len(data), dtype)
    for key in sorted(metadata):
        total = zlib.crc32(metadata[key].encode() + b"\0", zlib.crc32(key.encode() + b"\0", total))
    return safetensors({"__metadata__": metadata | {"crc32": str(total if crc is None else crc)}} | header, data)


def linear(name, outputs, inputs, bias=True):
    return {name + ".weight": ((outputs, inputs), [0.5] * (outputs * inputs))} | ({name + ".bias": ((outputs,), [0.25] * outputs)} if bias else {})


def companion(name, channels=1, order=2):
    return {name + ".a": ((1, order), [-0.5] * order), name + ".b": ((channels, order), [1.0] * channels * order), name + ".h0": ((channels,), [0.5] * channels)}


def scaled(tensors, scale=0.25):
    """Matrices of int8: two times its scale each."""
    rows = {name: shape[0] for name, (shape, _) in tensors.items() if name.endswith(".weight") and len(shape) == 2}
    return tensors | {name: (tensors[name][0], [2] * len(tensors[name][1])) for name in rows} | {
        name.replace(".weight", ".scale"): ((count,), [scale] * count) for name, count in rows.items()}  # fmt: skip


def model_seeds():
    ends = linear("encoder", 1, 1) | linear("decoder", 1, 1)
    layer = "blocks.0.layer"
    norm = {"blocks.0.norm.weight": ((2,), [1.0, 1]), "blocks.0.norm.bias": ((2,), [0.0, 0]), "norm.weight": ((2,), [1.0, 1]), "norm.bias": ((2,), [0.0, 0])}
    wide = linear("encoder", 2, 3) | norm | companion(layer, 2) | linear("blocks.0.output", 4, 2) | linear("decoder", 3, 2)
    pair = linear("encoder", 5, 1, bias=False) | linear("decoder.0", 1, 4) | linear("decoder.1", 2, 1)
    tokens = linear("encoder", 5, 1, bias=False) | linear("decoder", 1, 1)
    plain = [("companion", "f32")]
    return {
        "no_layers": model([], ends),
        "companion": model(plain, ends | companion(layer)),
        "companion_f64": model([("companion", "f64")], ends | companion(layer)),
        "order_0": model(plain, ends | companion(layer, order=0)),
        "sos": model([("sos", "f32")], ends | {layer + ".sections": ((1, 1, 6), [1.0, 0, 0, 1, -0.5, 0.25])}),
        "modal": model([("modal", "f32")], ends | {layer + ".poles": ((1, 2, 2), [0.5, 0.25, 0.5, -0.25]), layer + ".residues": ((1, 2, 2), [1.0, 1, 1, -1]),
                                                   layer + ".h0": ((1,), [0.0])}),
        "layer_norm_glu": model(plain, wide, features=3, channels=2, outputs=3, norm="layer", glu=True, decoder="last"),
        "batch_norm_f64": model([("companion", "f64")], wide, "f64", features=3, channels=2, outputs=3, norm="batch", glu=True, decoder="position"),
        "pair": model([], pair, vocabulary=5, outputs=2, decoder="pair"),
        "bidirectional": model(plain * 2, ends | companion(layer) | companion("blocks.0.backward"), bidirectional=True, layers=1),
        "tokens": model([], tokens, vocabulary=5),
        "bf16": model(plain, wide, features=3, channels=2, outputs=3, norm="layer", glu=True, decoder="position", weights="bf16"),
        "int8": model(plain, scaled(wide), features=3, channels=2, outputs=3, norm="layer", glu=True, decoder="position", weights="int8"),
        "int8_tokens": model([], scaled(tokens), vocabulary=5, weights="int8"),
        "int8_pair": model([], scaled(pair), vocabulary=5, outputs=2, decoder="pair", weights="int8"),
        "int8_without_scale": model([], ends | {"encoder.weight": ((1, 1), [2]), "decoder.weight": ((1, 1), [2])}, weights="int8"),
        "int8_scale_0": model([], scaled(ends, 0.0), weights="int8"),
        "int8_scale_negative": model([], scaled(ends, -1.0), weights="int8"),
        "int8_scale_infinite": model([], scaled(ends, float("inf")), weights="int8"),
        "int8_scale_smallest": model([], scaled(ends, 2.0**-149), weights="int8"),
        "int8_beyond": model([], scaled(ends) | {"encoder.weight": ((1, 1), [-128])}, weights="int8"),
        "bf16_not_finite": model([], ends | {"encoder.weight": ((1, 1), [float("inf")])}, weights="bf16"),
        "bf16_in_f64": model([], ends, "f64", weights="bf16"),
        "weights_unknown": model([], ends, weights="int4"),
        "scale_without_int8": model([], ends | {"encoder.scale": ((1,), [1.0])}),
        "finding_features_of_tokens": model([], tokens, vocabulary=5, features=2**32 - 1),
        "wrong_checksum": model(plain, ends | companion(layer), crc=1),
        "newer_version": model(plain, ends | companion(layer), version="rtf-model 2"),
        "layers_lie": model(plain, ends | companion(layer), layers=2**32 - 1),
        "channels_lie": model([], ends, channels=2**32 - 1),
        "finding_format_escapes": model([], ends, version="\x1b[2J\n"),
        "finding_tensor_escapes": model([], ends | {"\n": ((1,), [1.0])}),
    }


def state_seeds():
    """Numbers of the stream: see state_fuzz.cpp, which gives them their head."""
    head = struct.pack("<8sIIIIQ", b"rtfstate", 1, 0, 0, 4, 3)
    return {"empty": b"", "head": head, "newer_version": head[:8] + struct.pack("<I", 2) + head[12:], "zeros": head + b"\0" * 200,
            "many_samples": struct.pack("<8sIIIIQ", b"rtfstate", 1, 0, 0, 4, 2**64 - 1) + floats(*[0.5] * 50), "not_finite": head + floats(*[float("nan"), float("inf")] * 30)}


def chunk(name, body, length=None):
    return name + struct.pack("<I", len(body) if length is None else length) + body + b"\0" * (len(body) % 2)


def wave_format(tag, channels, bits, rate=44100, extensible=False, speakers=0):
    frame = channels * bits // 8
    body = struct.pack("<HHIIHH", 0xFFFE if extensible else tag, channels, rate, min(rate * frame, 2**32 - 1), frame % 65536, bits)
    if extensible:
        body += struct.pack("<HHIH", 22, bits, speakers, tag) + bytes.fromhex("000000001000800000aa00389b71")
    return chunk(b"fmt ", body)


def wav(*chunks, name=b"RIFF", length=None):
    body = b"WAVE" + b"".join(chunks)
    return name + struct.pack("<I", len(body) if length is None else length) + body


def wav_seeds():
    stereo, samples = wave_format(1, 2, 16), chunk(b"data", struct.pack("<4h", 0, 32767, -32768, 1))
    ds64 = chunk(b"ds64", struct.pack("<QQQI", 100, 8, 2, 0))
    open_ended = 2**32 - 1
    return {
        "pcm16": wav(stereo, samples),
        "pcm24_odd": wav(wave_format(1, 1, 24, extensible=True), chunk(b"data", b"\x01\x02\x83")),
        "pcm32": wav(wave_format(1, 1, 32, extensible=True, speakers=4), chunk(b"data", b"\0\0\0\x80")),
        "f32": wav(wave_format(3, 1, 32), chunk(b"fact", struct.pack("<I", 2)), chunk(b"data", floats(1.5, float("nan")))),
        "f64": wav(wave_format(3, 1, 64, rate=1), chunk(b"data", doubles(-1e300))),
        "no_samples": wav(stereo, chunk(b"data", b"")),
        "data_first": wav(samples, stereo),
        "unknown_chunks": wav(chunk(b"LIST", b"abc"), stereo, chunk(b"\xff\x1b[m", b"x"), samples, chunk(b"id3 ", b"y")),
        "stream": wav(stereo, chunk(b"data", b"\0" * 8, open_ended), length=open_ended),
        "rf64": wav(ds64, stereo, chunk(b"data", b"\0" * 8, open_ended), name=b"RF64", length=open_ended),
        "rf64_lies": wav(chunk(b"ds64", struct.pack("<QQQI", 2**64 - 1, 2**64 - 1, 2**62, 0)), stereo,
                         chunk(b"data", b"\0" * 8, open_ended), name=b"RF64", length=open_ended),
        "rf64_without_ds64": wav(stereo, chunk(b"data", b"\0" * 8, open_ended), name=b"RF64", length=open_ended),
        "ds64_short": wav(chunk(b"ds64", b"\0" * 8), stereo, samples, name=b"RF64"),
        "many_channels": wav(wave_format(1, 32767, 16), chunk(b"data", b"")),
        "no_channels": wav(wave_format(1, 0, 16), samples),
        "frame_wraps": wav(wave_format(1, 32768, 16), samples),
        "rate_0": wav(wave_format(1, 2, 16, rate=0), samples),
        "a_law": wav(wave_format(6, 1, 8), chunk(b"data", b"ab")),
        "big_endian": wav(stereo, samples, name=b"RIFX"),
        "format_short": wav(chunk(b"fmt ", b"\x01\0\x02\0"), samples),
        "extensible_short": wav(chunk(b"fmt ", struct.pack("<HHIIHH", 0xFFFE, 1, 8000, 16000, 2, 16)), samples),
        "half_a_frame": wav(stereo, chunk(b"data", b"\0" * 6)),
        "data_lies": wav(stereo, chunk(b"data", b"\0" * 8, 2**31), length=0),
        "chunk_lies": wav(chunk(b"\x1b[2J", b"", 2**32 - 2), stereo, samples, length=0),
        "riff_lies": wav(stereo, samples, length=2**31),
        "two_data": wav(stereo, samples, samples),
        "two_formats": wav(stereo, stereo, samples),
        "truncated": wav(stereo, samples)[:30],
    }


def filter_seeds():
    forms = {
        "tf": {"a": [[-0.5, 0.1]], "b": [[1, 2], [3, 4]], "h0": [0, 1]},
        "tf_named": {"form": "tf", "a": [-0.5], "b": [1], "h0": 0},
        "tf_trained": {"a": [-0.5], "b": [1], "h0": 0, "length": 64},
        "tf_order_0": {"a": [], "b": [], "h0": [2, 3]},
        "tf_groups": {"a": [[-0.5], [0.5]], "b": [[1], [2], [3], [4]], "h0": [0, 1, 2, 3]},
        "ba": {"form": "ba", "b": [1, 2], "a": [2, -0.5]},
        "ba_channels": {"form": "ba", "channels": [{"b": [1, 2], "a": [1, -0.5]}, {"b": [3], "a": [2]}]},
        "ss": {"form": "ss", "A": [[0.5, 0.1], [0, 0.2]], "B": [1, 0], "C": [1, 1], "D": 0.5},
        "ss_system": {"form": "ss", "A": [[0.5]], "B": [[1, 2]], "C": [[1], [2], [3]], "D": [[0, 0], [0, 0], [0, 0]]},
        "ss_order_0": {"form": "ss", "A": [], "B": [], "C": [], "D": 1},
        "modal": {"form": "modal", "poles": [[0.5, 0.2], [0.5, -0.2]], "residues": [[1, 1], [1, -1]], "h0": 1},
        "zpk": {"form": "zpk", "zeros": [-1, -1], "poles": [[0.5, 0.2], [0.5, -0.2]], "gain": 0.1},
        "zpk_outside": {"form": "zpk", "zeros": [], "poles": [2, 3], "gain": 1, "h0": 1},
        "sos": {"form": "sos", "sections": [[1, 2, 1, 1, -0.5, 0.2], [1, 0, 0, 2, 0, 0]]},
        "mimo": {"form": "mimo", "a": [-0.5], "b": [[[1], [2]], [[3], [4]]], "h0": [[0, 0], [0, 1]]},
        "mimo_channel": {"form": "mimo", "a": [-0.5], "b": [[[1]]], "h0": [[1]]},
        "repeated_poles": {"form": "zpk", "zeros": [], "poles": [0.5, 0.5, 0.5], "gain": 1},
        "large_and_small": {"form": "ba", "b": [1e300, 1e-300], "a": [1e-300, 1e300]},
        "leading_zero": {"form": "ba", "b": [1], "a": [0, 1]},
        "ragged": {"a": [[1], [1, 2]], "b": [1], "h0": 1},
        "no_conjugate": {"form": "modal", "poles": [[0.5, 0.2]], "residues": [1]},
        "unknown_form": {"form": "lattice", "k": [0.5]},
        "inputs_0": {"form": "ss", "A": [], "B": [], "C": [], "D": [[]]},
        "length_0": {"a": [], "b": [], "h0": 1, "length": 0},
        "length_too_large": {"a": [], "b": [], "h0": 1, "length": 2**53 + 1},
        "finding_key_escapes": {"\u001b[2J\n": 1, "a": [], "b": [], "h0": 1},
        "finding_form_key_escapes": {"form": "ba", "channels": [{"\u007f\u009b": 1}]},
    }
    texts = {
        "key_twice": '{"a": [], "a": [], "b": [], "h0": 1}',
        "finding_key_twice_escapes": '{"\\n": 1, "\\n": 2}',
        "number_overflows": '{"a": [1e999], "b": [1], "h0": 1}',
        "not_a_number": '{"a": [NaN], "b": [Infinity], "h0": 1}',
        "negative_zero": '{"a": [-0.0], "b": [-0], "h0": -0.0}',
        "nested": '{"a": ' + "[" * 100,
        "truncated": '{"a": [1, 2',
        "byte_order_mark": '\ufeff{"a": [], "b": [], "h0": 1}',
    }
    return {name: json.dumps(value).encode() for name, value in forms.items()} | {
        name: text.encode() for name, text in texts.items()
    } | {"not_utf8": b'{"\xff\xfe": 1}', "finding_zero_byte": b'{"a": [], "b": [], "h0": 1}\0more'}


def png(columns=2, rows=2, depth=8, colour=0, interlace=0, body=None, before=(), size=None):
    def part(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    row = b"\0" + b"\x5a" * ((columns * depth + 7) // 8)
    header = struct.pack(">IIBBBBB", *(size or (columns, rows)), depth, colour, 0, 0, interlace)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + b"".join(part(*one) for one in before) + part(
        b"IDAT", zlib.compress(row * rows) if body is None else body) + part(b"IEND", b"")  # fmt: skip


def png_seeds():
    whole = png()
    return {
        "grey": whole,
        "bits_1": png(depth=1, columns=9),
        "bits_4": png(depth=4, columns=3),
        "bits_16": png(depth=16),
        "interlaced": png(interlace=1, columns=1, rows=1),
        "colours": png(colour=2),
        "palette": png(colour=3, before=[(b"PLTE", b"abcdef")]),
        "palette_missing": png(colour=3),
        "alpha": png(colour=4),
        "transparent": png(before=[(b"tRNS", b"\0\x05")]),
        "gamma": png(before=[(b"gAMA", struct.pack(">I", 45455)), (b"sBIT", b"\x05")]),
        "text": png(before=[(b"zTXt", b"k\0\0" + zlib.compress(b"x" * 3000))]),
        "unknown_chunk": png(before=[(b"\x1b[2J", b"")]),
        "filters": png(body=zlib.compress(bytes([1, 9, 9, 4, 9, 9]))),
        "filter_9": png(body=zlib.compress(bytes([9, 9, 9, 9, 9, 9]))),
        "empty": b"",
        "size_lies": png(size=(8000, 8000)),
        "size_huge": png(size=(2**31 - 1, 2**31 - 1)),
        "size_0": png(size=(0, 0)),
        "truncated": whole[:50],
        "finding_chunk_lies": whole[:33] + struct.pack(">I", 2**28) + b"zTXt" + whole[33:],
        "truncated_pixels": png(body=zlib.compress(b"\0\0\0")[:5]),
        "wrong_checksum": whole[:-1] + b"?",
        "not_deflate": png(body=b"no deflate"),
    }


def records(kind, shape, counts, values, labels, ends=(), words=(), number=None, sums=True):
    """`shape` is rows, columns, documents, classes; `values` are bytes, and `number` how many pixels or tokens they are."""

    def padded(part):
        return part + b"\0" * (-len(part) % 64)

    text = b"".join(struct.pack("<I", len(word)) + word for word in words)
    content = padded(values) + padded(struct.pack(f"<{len(ends)}Q", *ends)) + padded(struct.pack(f"<{len(labels)}H", *labels)) + padded(text)
    total = zlib.crc32(struct.pack("<I", zlib.crc32(content))) if sums else 0
    rest = struct.pack("<II13Q", total, kind, *shape, *counts, number, len(words), len(text), 5, 0, 0)
    return b"rtfdata\n" + struct.pack("<II", 1, zlib.crc32(rest)) + rest + content


def records_seeds():
    tokens = struct.pack("<5H", 0, 1, 1, 0, 1)
    words = (b"a", b"\xc3\xa9")
    images = records(1, (2, 3, 0, 2), (2, 1, 0), bytes(range(18)), (0, 1, 1), number=18)
    return {
        "images": images,
        "texts": records(2, (0, 0, 1, 2), (1, 0, 1), tokens, (0, 1), (2, 5), words, 5),
        "pairs": records(2, (0, 0, 2, 2), (1, 0, 1), tokens, (0, 1), (0, 2, 5, 5), words, 5),
        "no_samples": records(1, (2, 3, 0, 2), (0, 0, 0), b"", (), number=0),
        "empty": b"",
        "truncated_header": images[:100],
        "truncated": images[:-64],
        "trailing": images + b"x",
        "newer_version": images[:8] + b"\2" + images[9:],
        "wrong_checksum": records(1, (2, 3, 0, 2), (2, 1, 0), bytes(range(18)), (0, 1, 1), number=18, sums=False),
        "label_beyond": records(1, (2, 3, 0, 2), (2, 1, 0), bytes(range(18)), (0, 1, 2), number=18),
        "token_beyond": records(2, (0, 0, 1, 2), (1, 0, 1), tokens, (0, 1), (2, 5), words[:1], 5),
        "ends_backwards": records(2, (0, 0, 1, 2), (1, 0, 1), tokens, (0, 1), (5, 2), words, 5),
        "ends_short": records(2, (0, 0, 1, 2), (1, 0, 1), tokens, (0, 1), (2, 4), words, 5),
        "word_lies": records(2, (0, 0, 1, 2), (1, 0, 1), tokens, (0, 1), (2, 5), (b"\xff" * 4, b""), 5)[:-64] + struct.pack("<I", 2**32 - 1) + b"\0" * 60,
        "counts_overflow": records(1, (2, 3, 0, 2), (HUGE, HUGE, 0), bytes(range(18)), (0, 1, 1), number=18),
        "sides_lie": records(1, (2**14, 2**14, 0, 2), (2**32, 0, 0), b"", (), number=2**60),
        "kind_9": records(9, (2, 3, 0, 2), (2, 1, 0), bytes(range(18)), (0, 1, 1), number=18),
    }


def tar(*entries, end=1024):
    """Entries are name, content, type, and what the header says of the size."""
    archive = b""
    for name, content, kind, size in entries:
        header = bytearray(512)
        header[: len(name)] = name
        header[100:108] = b"0000644\0"
        header[124:136] = b"%011o\0" % size if isinstance(size, int) else size
        header[156:157] = kind
        header[257:265] = b"ustar\x0000"
        header[148:156] = b" " * 8
        header[148:155] = b"%06o\0" % sum(header)
        archive += bytes(header) + content + b"\0" * (-len(content) % 512)
    return archive + b"\0" * end


def tar_seeds():
    def review(text, name=b"train/pos/0_9.txt"):
        return name, text, b"0", len(text)

    both = review(b"good"), review(b"bad \xff\xf0\x9f", b"train/neg/0_1.txt")
    plain, long_name = tar(*both), b"x" * 60 + b"/train/pos/1_9.txt\0"
    packed = zlib.compressobj(9, wbits=31)
    return {
        "reviews": plain,
        "gzipped": packed.compress(plain) + packed.flush(),
        "one_class": tar(both[0]),
        "empty": b"",
        "end_alone": tar(),
        "long_name": tar(*both, (b"././@LongLink", long_name, b"L", len(long_name)), review(b"again", b"cut")),
        "extended": tar(*both, (b"pax", b"26 path=train/pos/2_9.txt\n", b"x", 26), review(b"again", b"cut")),
        "extended_lies": tar(*both, (b"pax", b"99 path=train/pos/2_9.txt\n", b"x", 26), review(b"again", b"cut")),
        "size_lies": tar((b"train/pos/0_9.txt", b"good", b"0", 2**33 - 1)),
        "size_no_number": tar((b"train/pos/0_9.txt", b"good", b"0", b"many        ")),
        "name_lies": tar((b"././@LongLink", b"", b"L", 2**32), end=0),
        "no_end": tar(*both, end=0),
        "truncated": plain[:700],
        "wrong_checksum": plain[:149] + b"7" + plain[150:],
        "name_escapes": tar((b"train/pos/\x1b[2J\n.txt", b"", b"0", 2000), end=0),
    }


def tsv_seeds():
    header = b"Source\tTarget\n"
    return {
        "listops": header + b"( ( ( [MAX 3 ) 5 ) ] )\t5\n( [SM 1 ] )\t1\n",
        "carriage_returns": b"Source\tTarget\r\n( [MED 1 2 ] )\t1\r\n",
        "token_unknown": header + b"( [SUM\x1b[2J 1 ] )\t1\n",
        "target_unknown": header + b"( [SM 1 ] )\t\xff\xfe\n",
        "source_empty": header + b"( )\t1\n",
        "half_a_row": header + b"( [SM 1",
        "header_alone": header,
        "empty": b"",
        "pairs": b"1.0\ta\tb\t\"x\xe2\x82\ty\n0.0\ta\tb\t\t\n",
        "label_unknown": b"2.0\ta\tb\tx\ty\n",
        "columns_6": b"1.0\ta\tb\tx\ty\tz\n",
        "many_columns": b"\t" * 3000,
        "zeros": b"\0" * 300,
        "pictures": b"imgs/0 sample_0.png 0 1 1.0 14 4 2 0.5 1 1\n",
        "picture_is_a_folder": b". . 0 1\n",
        "finding_picture_escapes": b"imgs/\x1b[2J sample_0.png 0 1\n",
        "finding_picture_long": b"imgs/0 " + b"s" * 2000 + b" 0 1\n",
        "label_9": b"imgs/0 sample_0.png 0 9\n",
    }


def seeds():
    """Bytes by path, relative to the corpus."""
    formats = {"filter": filter_seeds(), "model": model_seeds(), "npy": npy_seeds(), "png": png_seeds(), "records": records_seeds(), "safetensors": safetensors_seeds(),
               "state": state_seeds(), "tar": tar_seeds(), "tsv": tsv_seeds(), "wav": wav_seeds()}  # fmt: skip
    return {f"{name}/{seed}": data for name, files in formats.items() for seed, data in files.items()}


if __name__ == "__main__":
    for path, data in seeds().items():
        (CORPUS / path).parent.mkdir(parents=True, exist_ok=True)
        (CORPUS / path).write_bytes(data)
