"""Algorithm 1 in eager PyTorch, as the published layer computes it: real FFTs, a zero-padded convolution, autograd."""

import torch


class TorchLayer(torch.nn.Module):
    """u of shape (batch, channels, length); a, b (channels, order); h0 (channels)."""

    def __init__(self, a, b, h0, length, dtype=torch.float32):
        super().__init__()
        self.a = torch.nn.Parameter(torch.as_tensor(a, dtype=dtype))
        self.b = torch.nn.Parameter(torch.as_tensor(b, dtype=dtype))
        self.h0 = torch.nn.Parameter(torch.as_tensor(h0, dtype=dtype))
        self.length = length

    def kernel(self):
        a = torch.nn.functional.pad(self.a, (1, 0), value=1.0)
        b = torch.nn.functional.pad(self.b, (1, 0))
        spectrum = torch.fft.rfft(b, n=self.length) / torch.fft.rfft(a, n=self.length) + self.h0[:, None]
        return torch.fft.irfft(spectrum, n=self.length)

    def forward(self, u):
        length = u.shape[-1]
        k = torch.fft.rfft(self.kernel()[:, :length], n=2 * length)
        return torch.fft.irfft(torch.fft.rfft(u, n=2 * length) * k, n=2 * length)[..., :length]

    def step(self, u, x):
        """One sample u (batch, channels) from state x (batch, channels, order): the output and the next state."""
        y = (self.b * x).sum(-1) + self.h0 * u
        v = u - (self.a * x).sum(-1)
        return y, torch.cat((v[..., None], x[..., :-1]), dim=-1)


class ReleasedLayer(TorchLayer):
    """The same in the layout and order of the published code: u (batch, length, channels), the kernel and all samples
    transformed together along the length, which is not the axis whose numbers lie side by side."""

    def forward(self, u):
        batch, length, channels = u.shape
        columns = torch.cat((self.kernel()[:, :length].T, u.transpose(0, 1).flatten(1)), dim=1)
        spectra = torch.fft.rfft(columns, n=2 * length, dim=0)
        products = spectra[:, channels:].unflatten(1, (batch, channels)).transpose(0, 1) * spectra[:, :channels]
        return torch.fft.irfft(products, n=2 * length, dim=1)[:, :length]


def run_pass(layer, name, u, y_gradient):
    """One forward pass without a graph, or forward and backward into fresh gradients."""
    if name == "forward":
        with torch.inference_mode():
            return layer(u)
    u.grad = None
    layer.zero_grad(set_to_none=True)
    y = layer(u)
    y.backward(y_gradient)
    return y.detach()
