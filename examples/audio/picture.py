"""picture.py RESPONSE.wav FOLDER: FOLDER/before.wav, after.wav and the direct convolution with the measured response,
which is written as direct.wav, side by side in FOLDER/room.png; and how far apart the last two are."""

import sys
import warnings

import matplotlib
import numpy as np
from scipy import signal
from scipy.io import wavfile

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

LOWEST = -60  # dB


def read(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wavfile.WavFileWarning)  # chunks with the name of the program and such
        rate, samples = wavfile.read(path)
    scale = np.iinfo(samples.dtype).max + 1 if samples.dtype.kind == "i" else 1
    return rate, samples / scale


def decibels(samples, rate):
    frequencies, times, power = signal.spectrogram(samples, rate, "hann", 1024, 768, mode="magnitude", scaling="spectrum")
    return frequencies, times, 20 * np.log10(np.maximum(power, 1e-9))


def main(response_path, folder):
    _, response = read(response_path)
    rate, before = read(f"{folder}/before.wav")
    _, after = read(f"{folder}/after.wav")
    response *= 0.5 / np.linalg.norm(response)  # as fit_room does
    direct = signal.fftconvolve(before, response)
    direct = np.pad(direct, (0, max(0, len(after) - len(direct))))[: len(after)]
    wavfile.write(f"{folder}/direct.wav", rate, np.int16(np.clip(np.rint(direct * 32768), -32768, 32767)))
    error = np.linalg.norm(after - direct) / np.linalg.norm(direct)
    print(f"after.wav is off from the direct convolution by {100 * error:.2f} % in l2, {20 * np.log10(error):.1f} dB")

    panels = [
        ("before: the voice", np.pad(before, (0, len(after) - len(before)))),
        ("after: the voice in the room, by the model", after),
        ("for comparison: direct convolution with the measured response", direct),
        (f"what the two differ by: {100 * error:.1f} % in l2", after - direct),
    ]
    figure, axes = plt.subplots(4, 1, figsize=(8, 8.4), sharex=True, layout="constrained")
    top = np.percentile(decibels(before, rate)[2], 99.5)  # a few points may be louder
    for axis, (title, samples) in zip(axes, panels, strict=True):
        frequencies, times, level = decibels(samples, rate)
        image = axis.imshow(
            level - top, origin="lower", aspect="auto", cmap="magma", vmin=LOWEST, vmax=0, interpolation="antialiased",
            extent=(times[0], times[-1], 0, frequencies[-1] / 1000),
        )  # fmt: skip
        axis.set(title=title, ylabel="kHz", ylim=(0, 12))
    axes[-1].set_xlabel("seconds")
    figure.colorbar(image, ax=axes, label="dB", aspect=50, pad=0.01)
    figure.savefig(f"{folder}/room.png", dpi=75)
    print(f"{folder}/room.png shows them; listen to before.wav, after.wav and direct.wav beside it")


if __name__ == "__main__":
    main(*sys.argv[1:])
