"""Bad input: one line that names what is wrong, exit code 2, and nothing written."""

import json
import os
import resource
import struct
import subprocess

import numpy as np
import pytest

from conftest import COMMAND
from sound import chunk, format_chunk, riff

GOOD = {"a": [[-0.5, 0.1]], "b": [[1, 2], [3, 4]], "h0": [0, 1]}  # two channels, one denominator, order 2
KERNEL = ["kernel", "f.json", "--length", "8", "-o", "out"]
FILTER = ["filter", "good.json", "--input", "u.npy", "-o", "out"]


def npy(header, data=b"", version=1, claimed=None):
    length = len(header) if claimed is None else claimed
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", length) + header + data


def npy_header(descr="<f8", shape="(8, 2)"):
    return f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}".encode()


def tensors(header, data=b"", claimed=None):
    text = header.encode() if isinstance(header, str) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if claimed is None else claimed) + text + data


def entry(shape, begin, end, dtype="F64"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


# A plain filter of order 1: a and b (1, 1), h0 (1).
LAYOUT = {"a": entry([1, 1], 0, 8), "b": entry([1, 1], 8, 16), "h0": entry([1], 16, 24)}
VALUES = struct.pack("<ddd", -0.5, 1, 0)

# name: (what f.json holds, what the message must say); run through `rtf kernel`
JSON = {
    "empty": ("", "f.json"),
    "not an object": ("[1, 2]", "expected an object"),
    "truncated": (json.dumps(GOOD)[:30], "not valid JSON"),
    "two values": ('{"a": []} {}', "not valid JSON"),
    "binary": ("\x00\x01\x02", "not valid JSON"),
    "zero byte": (json.dumps(GOOD) + "\0{}", "not valid JSON"),
    "key that a terminal would obey": ('{"\\u001b[2J\\u009b\\n": 1}', "unknown key '?[2J???'"),
    "deep nesting": ('{"a": ' + "[" * 100000, "nested"),
    "NaN": ('{"a": [NaN], "b": [1], "h0": 0}', "NaN"),
    "Infinity": ('{"a": [0.5], "b": [Infinity], "h0": 0}', "not valid JSON"),
    "overflowing number": ('{"a": [1e400], "b": [1], "h0": 0}', "1e400"),
    "missing key": ('{"a": [0.5], "h0": 0}', "'b'"),
    "unknown key": ('{"a": [0.5], "b": [1], "h0": 0, "c": 1}', "'c'"),
    "duplicate key": ('{"a": [0.5], "a": [0.6], "b": [1], "h0": 0}', "'a' appears twice"),
    "string coefficient": ('{"a": ["0.5"], "b": [1], "h0": 0}', "a[0]"),
    "null coefficient": ('{"a": [[0.5, null]], "b": [[1, 1]], "h0": [0]}', "a[0][1]"),
    "h0 an object": ('{"a": [0.5], "b": [1], "h0": {}}', "h0"),
    "ragged rows": ('{"a": [[0.5], [0.5, 1]], "b": [[1], [1]], "h0": [0, 0]}', "a[1]"),
    "orders differ": ('{"a": [[0.5]], "b": [[1, 2]], "h0": [0]}', "order"),
    "rows of b": ('{"a": [[0.5]], "b": [[1], [2]], "h0": [0]}', "b has 2 rows"),
    "G does not divide H": ('{"a": [[0.5], [0.4]], "b": [[1], [2], [3]], "h0": [0, 0, 0]}', "divide"),
    "no channels": ('{"a": [], "b": [], "h0": []}', "h0"),
    "length zero": (json.dumps({**GOOD, "length": 0}), "length is 0"),
    "length negative": (json.dumps({**GOOD, "length": -4}), "length is -4"),
    "length fractional": (json.dumps({**GOOD, "length": 2.5}), "length is 2.5"),
    "length a string": (json.dumps({**GOOD, "length": "8"}), 'length is "8"'),
    "length huge": ('{"a": [0.5], "b": [1], "h0": 0, "length": 99999999999999999999999}', "length"),
    "length beyond memory": (json.dumps({**GOOD, "length": 10**15}), "memory"),
    "pole on a root of unity": ('{"a": [-1], "b": [1], "h0": 0, "length": 8}', "f.json"),
}

# The same for the other forms, run through `rtf convert`.
FORMS = {
    "unknown form": ('{"form": "pfe", "poles": []}', "expected tf, ba, ss, modal, zpk, sos or mimo"),
    "form not a string": ('{"form": 3, "poles": []}', "form is 3"),
    "tf with another form's key": ('{"form": "tf", "a": [], "b": [], "h0": 1, "gain": 2}', "'gain'"),
    "ba without a": ('{"form": "ba", "b": [1]}', "has no 'a'"),
    "ba with a leading zero": ('{"form": "ba", "b": [1], "a": [0, 1]}', "a[0] is 0"),
    "ba empty": ('{"form": "ba", "b": [], "a": [1]}', "b has no values"),
    "ba of strings": ('{"form": "ba", "b": ["1"], "a": [1]}', 'b[0] is "1"'),
    "ss with A not square": ('{"form": "ss", "A": [[1, 2]], "B": [1, 0], "C": [1, 0], "D": 0}', "A is (1, 2)"),
    "ss with B too short": ('{"form": "ss", "A": [[0.1, 0], [0, 0.2]], "B": [1], "C": [1, 0], "D": 0}', "B is (1, 1)"),
    "ss with ragged A": ('{"form": "ss", "A": [[0.1, 0], [0]], "B": [1, 0], "C": [1, 0], "D": 0}', "A[1] has 1 values"),
    "ss with D missing": ('{"form": "ss", "A": [[0.1]], "B": [1], "C": [1]}', "has no 'D'"),
    "modal without a residue": ('{"form": "modal", "poles": [0.5, 0.4], "residues": [1]}', "residues has 1 values"),
    "modal with a lone pole": ('{"form": "modal", "poles": [[0.5, 0.2]], "residues": [1]}', "poles[0] is 0.5+0.2i"),
    "modal with other residues": (
        '{"form": "modal", "poles": [[0.5, 0.2], [0.5, -0.2]], "residues": [[1, 1], [1, 1]]}',
        "residues[0] is 1+1i",
    ),
    "zpk with more zeros than poles": ('{"form": "zpk", "zeros": [1, 2], "poles": [0.5], "gain": 1}', "2 zeros and 1 poles"),
    "zpk with a lone zero": ('{"form": "zpk", "zeros": [[0, 1]], "poles": [0.5], "gain": 1}', "zeros[0] is 0+1i"),
    "zpk with a triple": ('{"form": "zpk", "zeros": [], "poles": [[1, 2, 3]], "gain": 1}', "poles[0] is [1,2,3]"),
    "zpk without gain": ('{"form": "zpk", "zeros": [], "poles": [0.5]}', "has no 'gain'"),
    "sos with five columns": ('{"form": "sos", "sections": [[1, 0, 0, 1, 0]]}', "rows of 5 values"),
    "sos with a0 zero": ('{"form": "sos", "sections": [[1, 0, 0, 1, 0, 0], [1, 0, 0, 0, 1, 0]]}', "section 1 has a0 = 0"),
    "sos without sections": ('{"form": "sos", "sections": []}', "sections"),
    "no channels": ('{"form": "sos", "channels": []}', "channels is []"),
    "a bad channel": (
        '{"form": "ba", "channels": [{"b": [1], "a": [1]}, {"b": [1], "a": [0]}]}',
        "channels[1]: a[0] is 0",
    ),
    "a channel not an object": ('{"form": "ba", "channels": [[1]]}', "channels[0] is [1]"),
    "channels and more": ('{"form": "ba", "channels": [], "b": [1]}', "'b'"),
    "mimo to one channel": ('{"form": "mimo", "a": [0.5], "b": [[[1], [2]]], "h0": [[0, 0]]}', "several inputs"),
    "repeated poles to modal": ('{"a": [-1, 0.25], "b": [1, 0], "h0": 0}', "repeated pole"),
    "two poles at zero to modal": ('{"a": [0, 0], "b": [1, 1], "h0": 0}', "poles 0 and 0 are 0.0e+00 apart"),
    "overflow": ('{"form": "zpk", "zeros": [1e200, 1e200], "poles": [0, 0.5, 0.1], "gain": 1}', "too large for doubles"),
}

SAFETENSORS = {
    "empty": (b"", "truncated"),
    "header length too large": (tensors(LAYOUT, VALUES, claimed=2**63), str(2**63)),
    "header length beyond file": (tensors(LAYOUT, VALUES, claimed=5000), "5000"),
    "header length too small": (tensors(LAYOUT, VALUES, claimed=20), "not valid JSON"),
    "header not JSON": (tensors("x" * 40), "not valid JSON"),
    "header not UTF-8": (struct.pack("<Q", 4) + b"\xff\xfe\xfd{", "not valid JSON"),
    "truncated values": (tensors(LAYOUT, VALUES[:-1]), "h0"),
    "trailing bytes": (tensors(LAYOUT, VALUES + b"\0"), "trailing"),
    "overlap": (tensors({**LAYOUT, "b": entry([1, 1], 0, 8)}, VALUES), "overlap"),
    "hole": (tensors({**LAYOUT, "h0": entry([1], 24, 32)}, VALUES + b"\0" * 8), "hole"),
    "offsets reversed": (tensors({**LAYOUT, "h0": entry([1], 24, 16)}, VALUES), "h0"),
    "shape and offsets differ": (tensors({**LAYOUT, "h0": entry([2], 16, 24)}, VALUES), "h0"),
    "shape overflows": (tensors({**LAYOUT, "h0": entry([2**62, 2**62], 16, 24)}, VALUES), "too large"),
    "negative shape": (tensors({**LAYOUT, "h0": entry([-1], 16, 24)}, VALUES), "-1"),
    "integers": (tensors({**LAYOUT, "h0": entry([1], 16, 24, "I64")}, VALUES), "I64"),
    "missing tensor": (tensors({k: LAYOUT[k] for k in "ab"}, VALUES[:16]), "'h0'"),
    "unknown tensor": (tensors({**LAYOUT, "c": entry([0], 24, 24)}, VALUES), "'c'"),
    "three dimensions": (tensors({**LAYOUT, "a": entry([1, 1, 1], 0, 8)}, VALUES), "(1, 1, 1)"),
    "NaN": (tensors(LAYOUT, struct.pack("<ddd", float("nan"), 1, 0)), "nan"),
    "infinity": (tensors(LAYOUT, struct.pack("<ddd", 0.5, float("-inf"), 0)), "-inf"),
    "length not a number": (tensors({**LAYOUT, "__metadata__": {"length": "ten"}}, VALUES), "ten"),
    "length negative": (tensors({**LAYOUT, "__metadata__": {"length": "-3"}}, VALUES), "-3"),
    "metadata not a string": (tensors({**LAYOUT, "__metadata__": {"length": 3}}, VALUES), "length"),
}

NPY = {
    "empty": (b"", "not an npy file"),
    "wrong magic": (b"PK\x03\x04" * 8, "not an npy file"),
    "version 9": (npy(npy_header(), bytes(128), version=9), "version 9"),
    "truncated header": (npy(npy_header(), bytes(128))[:20], "truncated"),
    "truncated values": (npy(npy_header(), bytes(127)), "truncated"),
    "trailing bytes": (npy(npy_header(), bytes(129)), "trailing"),
    "header length lies": (npy(npy_header(), bytes(128), claimed=60000), "60000"),
    "header length lies, version 2": (npy(npy_header(), bytes(128), version=2, claimed=2**32 - 1), str(2**32 - 1)),
    "big-endian": (npy(npy_header(">f8"), bytes(128)), "'>f8'"),
    "integers": (npy(npy_header("<i8"), bytes(128)), "'<i8'"),
    "complex": (npy(npy_header("<c8"), bytes(128)), "'<c8'"),
    "objects": (npy(npy_header("|O"), bytes(128)), "'|O'"),
    "shape overflows": (npy(npy_header(shape="(4294967296, 4294967296, 2)"), bytes(128)), "too large"),
    "shape negative": (npy(npy_header(shape="(-8, 2)"), bytes(128)), "shape"),
    "shape larger than file": (npy(npy_header(shape="(1000000000000, 2)"), bytes(128)), "truncated"),
    "no shape": (npy(b"{'descr': '<f8', 'fortran_order': False}", bytes(128)), "shape"),
    "four dimensions": (npy(npy_header(shape="(1, 1, 8, 2)"), bytes(128)), "(1, 1, 8, 2)"),
    "scalar": (npy(npy_header(shape="()"), bytes(8)), "shape ()"),
    "one dimension for two channels": (npy(npy_header(shape="(16,)"), bytes(128)), "(16)"),
    "channels differ": (npy(npy_header(shape="(4, 4)"), bytes(128)), "(4, 4)"),
    "no samples": (npy(npy_header(shape="(0, 2)")), "nothing"),
    "NaN sample": (npy(npy_header(shape="(1, 2)"), struct.pack("<dd", 1, float("nan"))), "nan"),
}

HEADER, DATA = format_chunk(), chunk(b"data", bytes(16))
WAV = {
    "empty": (b"", "not a wav file"),
    "npy in a wav's clothes": (npy(npy_header(), bytes(128)), "not a wav file"),
    "RIFF of another kind": (riff(HEADER, DATA, kind=b"AVI "), "not a wav file"),
    "big-endian": (riff(HEADER, DATA, form=b"RIFX"), "RIFX"),
    "cut inside the header": (riff(HEADER, DATA, claimed=0)[:30], "truncated"),
    "cut inside the samples": (riff(HEADER, DATA)[:-3], "truncated"),
    "cut, and a stream's header": (riff(HEADER, DATA, claimed=0)[:-3], "'data' claims 16 bytes, 13 are left"),
    "claims more samples": (riff(HEADER, chunk(b"data", bytes(16), claimed=10**9)), "1000000000"),
    "claims more bytes in all": (riff(HEADER, DATA, claimed=10**9), "1000000008"),
    "chunk longer than the file": (riff(chunk(b"LIST", b"1234", claimed=2**32 - 2), HEADER, DATA), "'LIST'"),
    "chunk name not text": (riff(chunk(b"\x00\n\xff!", b"1234", claimed=99999), HEADER, DATA), "'???!'"),
    "no format": (riff(DATA), "format"),
    "no samples chunk": (riff(HEADER), "data"),
    "two formats": (riff(HEADER, HEADER, DATA), "two format chunks"),
    "format chunk too short": (riff(chunk(b"fmt ", HEADER[8:20]), DATA), "12 bytes"),
    "extensible format too short": (riff(chunk(b"fmt ", b"\xfe\xff" + HEADER[10:] + bytes(4)), DATA), "20 bytes"),
    "extensible format of a stranger": (riff(format_chunk(extensible=True, tail=bytes(14)), DATA), "neither PCM nor float"),
    "more valid bits than bits": (riff(format_chunk(extensible=True, valid=17), DATA), "17 valid bits"),
    "8 bits": (riff(format_chunk(bits=8), DATA), "8 bits"),
    "12 bits": (riff(format_chunk(bits=12), DATA), "12 bits"),
    "64-bit PCM": (riff(format_chunk(bits=64), DATA), "64 bits"),
    "16-bit float": (riff(format_chunk(tag=3), DATA), "float"),
    "mu-law": (riff(format_chunk(tag=7, bits=8), DATA), "mu-law"),
    "MP3": (riff(format_chunk(tag=0x55, bits=0, align=1), DATA), "MP3"),
    "unknown encoding": (riff(format_chunk(tag=12345), DATA), "12345"),
    "zero channels": (riff(format_chunk(channels=0), DATA), "0 channels"),
    "zero rate": (riff(format_chunk(rate=0), DATA), "0 Hz"),
    "absurd rate": (riff(format_chunk(rate=2**32 - 1), DATA), "4294967295 Hz"),
    "frames of a wrong size": (riff(format_chunk(channels=2, align=2), DATA), "frames of 2 bytes"),
    "part of a frame": (riff(HEADER, chunk(b"data", bytes(15))), "whole number of frames"),
    "no samples": (riff(format_chunk(channels=2), chunk(b"data", b"")), "nothing"),
    "channels differ": (riff(format_chunk(channels=4), DATA), "channels of u.wav: 4"),
    "RF64 without its length": (riff(HEADER, chunk(b"data", bytes(16), claimed=2**32 - 1), form=b"RF64"), "ds64"),
    "RF64 that lies": (
        riff(chunk(b"ds64", struct.pack("<QQQI", 0, 2**63, 0, 0)), HEADER, chunk(b"data", bytes(16), claimed=2**32 - 1),
             form=b"RF64", claimed=2**32 - 1),
        str(2**63),
    ),
    "NaN sample": (
        riff(format_chunk(tag=3, channels=2, bits=32), chunk(b"data", struct.pack("<ffff", 0, 1, 2, float("nan")))),
        "nan at frame 1 of channel 1",
    ),
}  # fmt: skip

# name: (arguments, what the message must say)
ARGUMENTS = {
    "unknown command": (["kernle", "good.json"], "did you mean 'kernel'"),
    "unknown command, nothing near": (["integrate"], "'integrate'"),
    "unknown option": ([*KERNEL, "--fast"], "--fast"),
    "missing filter": (["kernel", "--length", "8", "-o", "out"], "FILTER"),
    "missing length": (["kernel", "good.json", "-o", "out"], "--length"),
    "missing output": (["kernel", "good.json", "--length", "8"], "--output"),
    "length zero": (["kernel", "good.json", "--length", "0", "-o", "out"], "'0'"),
    "length negative": (["kernel", "good.json", "--length", "-8", "-o", "out"], "'-8'"),
    "length fractional": (["kernel", "good.json", "--length", "2.5", "-o", "out"], "'2.5'"),
    "length not a number": (["kernel", "good.json", "--length", "ten", "-o", "out"], "'ten'"),
    "length overflows": (["kernel", "good.json", "--length", "9" * 30, "-o", "out"], "9" * 30),
    "length beyond memory": (["kernel", "good.json", "--length", str(10**15), "-o", "out"], "memory"),
    "wrap beyond memory": (["wrap", "good.json", "--length", str(10**15), "-o", "out"], "memory"),
    "unknown method": (["kernel", "good.json", "--length", "8", "--method", "magic", "-o", "out"], "magic"),
    "unknown type": (["kernel", "good.json", "--length", "8", "--dtype", "f16", "-o", "out"], "f16"),
    "chunk zero": ([*FILTER, "--chunk", "0"], "'0'"),
    "method of another command": ([*FILTER, "--method", "newton"], "newton"),
    "no such filter": (["poles", "none.json"], "none.json"),
    "filter is a folder": (["info", "."], "folder"),
    "filter is a device": (["info", "/dev/zero"], "/dev/zero"),
    "no such input": (["filter", "good.json", "--input", "none.npy", "-o", "out"], "none.npy"),
    "no such state": ([*FILTER, "--initial-state", "none.npy"], "none.npy"),
    "state of another shape": ([*FILTER, "--initial-state", "u.npy"], "(1, 2, 2)"),
    "filter is not JSON": (["poles", "u.npy"], "not valid JSON"),
    "input is not npy": (["filter", "good.json", "--input", "good.json", "-o", "out"], "not an npy file"),
    "no such wav": (["filter", "good.json", "--input", "none.wav", "-o", "out.wav"], "none.wav"),
    "wav is a device": (["filter", "good.json", "--input", "/dev/zero/../null/.wav", "-o", "out.wav"], "/dev/"),
    "wav to npy": (["filter", "good.json", "--input", "u.wav", "-o", "out"], "from wav to wav"),
    "npy to wav": ([*FILTER[:-1], "out.wav"], "from wav to wav"),
    "state of another shape for a wav": (
        ["filter", "good.json", "--input", "u.wav", "-o", "out.wav", "--initial-state", "u.npy"],
        "(1, 2, 2)",
    ),
    "wav through an unstable file": (["filter", "unstable.json", "--input", "u.wav", "-o", "out.wav"], "unstable.json"),
    "kernel over the filter": (["kernel", "good.json", "--length", "8", "-o", "good.json"], "is the file that is read"),
    "outputs over the filter": ([*FILTER[:-1], "good.json"], "is the file that is read"),
    "state over the filter": ([*FILTER, "--final-state", "good.json"], "is the file that is read"),
    "fit over the kernel": (["fit", "k.npy", "--order", "1", "-o", "k.npy"], "is the file that is read"),
    "method without matrices": (["convert", "good.json", "--to", "zpk", "--method", "markov", "-o", "out"], "form ss"),
    "method of a copy": (["convert", "mimo.json", "--to", "ss", "--method", "markov", "-o", "out"], "needs none"),
    "feed-through without zeros": (
        ["convert", "good.json", "--to", "ss", "--feed-through", "inside", "-o", "out"],
        "is for --to zpk",
    ),
    "two outputs in one file": ([*FILTER, "--final-state", "./out"], "both"),
    "convert to nothing": (["convert", "good.json", "-o", "out"], "--to"),
    "convert to an unknown form": (["convert", "good.json", "--to", "pfe", "-o", "out"], "pfe"),
    "convert by an unknown method": (["convert", "good.json", "--to", "tf", "--method", "qr", "-o", "out"], "qr"),
    "convert with another feed-through": (
        ["convert", "good.json", "--to", "zpk", "--feed-through", "none", "-o", "out"],
        "none",
    ),
    "report over nothing": (["convert", "good.json", "--to", "zpk", "--report-length", "0", "-o", "out"], "'0'"),
    "report beyond memory": (["convert", "good.json", "--to", "zpk", "--report-length", str(10**15), "-o", "out"], "memory"),
    "zpk in safetensors": (["convert", "good.json", "--to", "zpk", "-o", "out.safetensors"], "write this one as JSON"),
    "convert an unstable trained file": (["convert", "unstable.json", "--to", "sos", "-o", "out"], "unstable.json"),
    "several inputs to modal": (["convert", "mimo.json", "--to", "modal", "-o", "out"], "several inputs"),
    "kernel of several inputs": (["kernel", "mimo.json", "--length", "8", "-o", "out"], "2 inputs and 1 output,"),
    "correct a plain file": (["correct", "good.json", "-o", "out"], "good.json"),
    "wrap a trained file": (["wrap", "trained.json", "--length", "8", "-o", "out"], "trained.json"),
    "correct an unstable file": (["correct", "unstable.json", "-o", "out"], "unstable.json"),
    "newton on an unstable file": (
        ["kernel", "unstable.json", "--length", "8", "--method", "newton", "-o", "out"],
        "unstable.json",
    ),
    "recurrence on an unstable file": (
        ["filter", "unstable.json", "--input", "u1.npy", "--method", "recurrence", "-o", "out"],
        "unstable.json",
    ),
    "no such folder": (["kernel", "good.json", "--length", "8", "-o", "none/out"], "none/out"),
    "folder is a file": (["kernel", "good.json", "--length", "8", "-o", "good.json/out"], "good.json/out"),
    "output is a folder": (["kernel", "good.json", "--length", "8", "-o", "."], "folder"),
    "output is a full device": (["kernel", "good.json", "--length", "8", "-o", "/dev/full"], "/dev/full"),
    "output is empty": (["kernel", "good.json", "--length", "8", "-o", ""], "empty"),
    "output where no file can be": (["correct", "trained.json", "-o", "/proc/out.json"], "/proc/out.json"),
    "final state in no folder": ([*FILTER, "--final-state", "none/x"], "none/x"),
    "too large for f32": (["kernel", "huge.json", "--length", "8", "--dtype", "f32", "-o", "out"], "float32"),
    "sample too large for f32": (
        ["filter", "good.json", "--input", "large.npy", "--dtype", "f32", "-o", "out"],
        "large.npy",
    ),
}

FIT = ["fit", "k.npy", "--order", "3", "-o", "out"]

# Of the toolbox: name: (arguments, what the message must say)
FITS = {
    "fit without an order": (["fit", "k.npy", "-o", "out"], "--order"),
    "fit of a negative order": (["fit", "k.npy", "--order", "-1", "-o", "out"], "'-1'"),
    "fit of a fractional order": (["fit", "k.npy", "--order", "1.5", "-o", "out"], "'1.5'"),
    "fit of an order beyond memory": (["fit", "k.npy", "--order", str(10**14), "-o", "out"], "memory"),
    "fit by an unknown method": ([*FIT, "--method", "magic"], "magic"),
    "fit of three dimensions": (["fit", "cube.npy", "--order", "3", "-o", "out"], "(2, 2, 2)"),
    "fit of no samples": (["fit", "empty.npy", "--order", "3", "-o", "out"], "nothing to fit"),
    "fit of nan": (["fit", "nan.npy", "--order", "3", "-o", "out"], "nan at flat index 2"),
    "fit of a filter file": (["fit", "good.json", "--order", "3", "-o", "out"], "not an npy file"),
    "fit of a missing file": (["fit", "none.npy", "--order", "3", "-o", "out"], "none.npy"),
    "fit into no folder": (["fit", "k.npy", "--order", "3", "-o", "none/out"], "none/out"),
    "fit to another form": ([*FIT, "--to", "sos"], "--to: sos not in"),
    "fit to ss by coefficients": ([*FIT, "--method", "prony", "--to", "ss"], "only method hankel has a state space"),
    "reduce to a higher order": (["reduce", "good.json", "--order", "3", "-o", "out"], "order 3 is above the order 2"),
    "reduce an unstable filter": (["reduce", "outside.json", "--order", "1", "-o", "out"], "modulus 1.5"),
    "reduce an unstable trained filter": (["reduce", "unstable.json", "--order", "1", "-o", "out"], "unstable.json"),
    "reduce to another form": (["reduce", "good.json", "--order", "1", "--to", "zpk", "-o", "out"], "--to: zpk not in"),
    "reduce an unstable filter to ss": (["reduce", "outside.json", "--order", "1", "--to", "ss", "-o", "out"], "modulus 1.5"),
    "reduce to ss of a higher order": (["reduce", "good.json", "--order", "3", "--to", "ss", "-o", "out"], "order 3 is above"),
    "reduce to ss as safetensors": (["reduce", "good.json", "--order", "1", "--to", "ss", "-o", "out.safetensors"], "safetensors hold the form tf alone"),
    "reduce a kernel": (["reduce", "k.npy", "--order", "1", "-o", "out"], "not valid JSON"),
    "stabilize by no method": (["stabilize", "good.json", "-o", "out"], "--method"),
    "stabilize by an unknown method": (["stabilize", "good.json", "--method", "hope", "-o", "out"], "hope"),
    "stabilize at another length": (
        ["stabilize", "trained.json", "--method", "refit", "--length", "17", "-o", "out"],
        "trained at length 16",
    ),
    "stabilize a kernel that overflows": (
        ["stabilize", "outside.json", "--method", "refit", "--length", "3000", "-o", "out"],
        "overflows within 3000 samples",
    ),
    "reflect a pole on the circle": (
        ["stabilize", "circle.json", "--method", "reflect", "-o", "out"],
        "pole on the unit circle",
    ),
    "stabilize beyond memory": (
        ["stabilize", "outside.json", "--method", "montel", "--length", str(10**14), "-o", "out"],
        "memory",
    ),
}


@pytest.fixture
def folder(tmp_path):
    """Valid files, so that each case is wrong in one respect."""
    (tmp_path / "good.json").write_text(json.dumps(GOOD))
    (tmp_path / "f.json").write_text(json.dumps(GOOD))
    (tmp_path / "trained.json").write_text(json.dumps({**GOOD, "length": 16}))
    (tmp_path / "unstable.json").write_text('{"a": [-1.5], "b": [1], "h0": 0, "length": 2000}')
    (tmp_path / "outside.json").write_text('{"a": [-1.5, 0], "b": [1, 1], "h0": 0}')
    (tmp_path / "circle.json").write_text('{"a": [-1], "b": [1], "h0": 0}')
    (tmp_path / "huge.json").write_text('{"a": [-0.5], "b": [1e300], "h0": 0}')
    (tmp_path / "mimo.json").write_text('{"form": "ss", "A": [[0.5]], "B": [[1, 2]], "C": [[1]], "D": [[0, 0]]}')
    np.save(tmp_path / "u.npy", np.ones((8, 2)))
    np.save(tmp_path / "u1.npy", np.ones(8))
    (tmp_path / "u.wav").write_bytes(riff(format_chunk(channels=2), DATA))
    np.save(tmp_path / "large.npy", np.full((8, 2), 1e200))
    np.save(tmp_path / "k.npy", np.ones(8))
    np.save(tmp_path / "nan.npy", np.array([1, 2, np.nan, 3]))
    np.save(tmp_path / "cube.npy", np.ones((2, 2, 2)))
    np.save(tmp_path / "empty.npy", np.ones((2, 0)))
    return tmp_path


def snapshot(folder):
    return {name: (folder / name).read_bytes() for name in os.listdir(folder) if (folder / name).is_file()}


def expect_refusal(rtf_raw, folder, arguments, text, **options):
    """Runs twice: with no file at the output's place, and with one that must stay as it is."""
    for existing in (False, True):
        if existing:
            (folder / "out").write_text("precious")
        before = snapshot(folder)
        done = rtf_raw(*arguments, **options)
        assert done.returncode == 2, done
        assert done.stdout == ""
        assert done.stderr.startswith("rtf") and done.stderr.endswith("\n"), done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        assert text in done.stderr
        assert snapshot(folder) == before


@pytest.mark.parametrize("content, text", JSON.values(), ids=JSON.keys())
def test_bad_json(rtf_raw, folder, content, text):
    (folder / "f.json").write_text(content)
    expect_refusal(rtf_raw, folder, KERNEL, text)


@pytest.mark.parametrize("content, text", FORMS.values(), ids=FORMS.keys())
def test_bad_forms(rtf_raw, folder, content, text):
    (folder / "f.json").write_text(content)
    expect_refusal(rtf_raw, folder, ["convert", "f.json", "--to", "modal", "-o", "out"], text)


@pytest.mark.parametrize("content, text", SAFETENSORS.values(), ids=SAFETENSORS.keys())
def test_bad_safetensors(rtf_raw, folder, content, text):
    (folder / "f.safetensors").write_bytes(content)
    expect_refusal(rtf_raw, folder, ["kernel", "f.safetensors", "--length", "8", "-o", "out"], text)


@pytest.mark.parametrize("arguments, text", FITS.values(), ids=FITS.keys())
def test_bad_fits(rtf_raw, folder, arguments, text):
    expect_refusal(rtf_raw, folder, arguments, text)


@pytest.mark.parametrize("content, text", NPY.values(), ids=NPY.keys())
def test_bad_npy(rtf_raw, folder, content, text):
    (folder / "u.npy").write_bytes(content)
    expect_refusal(rtf_raw, folder, FILTER, text)


@pytest.mark.parametrize("content, text", WAV.values(), ids=WAV.keys())
def test_bad_wav(rtf_raw, folder, content, text):
    (folder / "u.wav").write_bytes(content)
    (folder / "out.wav").write_text("precious")
    expect_refusal(rtf_raw, folder, ["filter", "good.json", "--input", "u.wav", "-o", "out.wav"], text)


@pytest.mark.parametrize("arguments, text", ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_bad_arguments(rtf_raw, folder, arguments, text):
    expect_refusal(rtf_raw, folder, arguments, text)


def test_names_that_a_terminal_would_obey(folder):
    for name in (b"\x1b[2J.json", b"two\nlines.json", b"\xff\xc2\x9b.json", "h\u00f6he.json".encode()):
        done = subprocess.run([COMMAND.encode(), b"poles", name], cwd=folder, capture_output=True)
        assert done.returncode == 2 and done.stdout == b""
        assert done.stderr.endswith(b"\n") and done.stderr.decode()[:-1].isprintable(), done.stderr
    assert "h\u00f6he.json" in done.stderr.decode()
    # Nor do lines that say what was done.
    (folder / "\x1b[2J\u202e.json").write_text(json.dumps(GOOD))
    for arguments in (
        ["info", "\x1b[2J\u202e.json"],
        ["plot", "\x1b[2J\u202e.json", "-o", "\x1b[2J\u202e.svg"],
        ["freqz", "good.json", "-o", "\x1b[2J\u202e.npy"],
        ["convert", "good.json", "--to", "zpk", "-o", "\x1b[2J\u202ezpk.json"],
    ):
        done = subprocess.run([COMMAND, *arguments], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0 and "?[2J?" in done.stdout
        assert all(line.isprintable() for line in done.stdout.split("\n")), done.stdout


def test_full_disk(rtf_raw, folder):
    """A limit on file size stands in for a full disk: the output fits, the final state does not, neither appears."""
    np.save(folder / "u.npy", np.ones((1, 2)))

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (150, 150))

    # Python ignores SIGXFSZ, and so does the child unless the signal is restored.
    options = {"preexec_fn": limit, "restore_signals": False}
    expect_refusal(rtf_raw, folder, [*FILTER, "--final-state", "x.npy"], "x.npy", **options)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder_and_file(rtf_raw, folder):
    (folder / "closed").mkdir(mode=0o500)
    expect_refusal(rtf_raw, folder, ["kernel", "good.json", "--length", "8", "-o", "closed/out"], "closed")
    (folder / "locked").write_text("precious")
    (folder / "locked").chmod(0o400)
    expect_refusal(rtf_raw, folder, ["kernel", "good.json", "--length", "8", "-o", "locked"], "locked")


def test_full_standard_output(folder):
    with open("/dev/full", "w") as full:
        done = subprocess.run([COMMAND, "info", folder / "good.json"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1
