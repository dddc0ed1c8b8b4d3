#include <rtf/rtf.h>

#include <cstdio>

int main() {
  auto trained = rtf::make_coefficients<rtf::TrainedTransferFunction>(1, 1, 2);  // channels, groups, order
  trained.a = {-1.2, 0.81};
  trained.b = {1.0, 0.5};
  trained.length = 64;
  const std::vector<double> kernel = rtf::wrapped_kernel(trained);  // training: 64 samples at once, by FFT
  const rtf::TransferFunction filter = rtf::correct(trained);       // running: the same samples, one by one
  std::vector<double> u{1.0}, y(1), state(2);
  for (std::size_t t = 0; t < 5; ++t, u[0] = 0.0) {
    rtf::step<double>(filter, u, state, y);
    std::printf("%9.6f %9.6f\n", kernel[t], y[0]);
  }
}
