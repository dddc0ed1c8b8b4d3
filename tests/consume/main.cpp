// A program outside the repository: a kernel, a filter pass and a streaming step with known answers.
#include <rtf/rtf.h>

#include <cmath>
#include <cstdio>
#include <vector>

namespace {

bool equal(const std::vector<double>& got, const std::vector<double>& expected, const char* what) {
  bool same = got.size() == expected.size();
  for (std::size_t i = 0; same && i < got.size(); ++i) same = std::abs(got[i] - expected[i]) <= 1e-12;
  if (!same) std::fprintf(stderr, "consume: %s is not the known answer\n", what);
  return same;
}

}  // namespace

int main() {
  // H = 2 + w / (1 - w/2)
  auto tf = rtf::make_coefficients(1, 1, 1);
  tf.a = {-0.5};
  tf.b = {1};
  tf.h0 = {2};
  bool good = rtf::is_stable(tf.a);
  good &= equal(rtf::exact_kernel(tf, 5), {2, 1, 0.5, 0.25, 0.125}, "the kernel");

  // A ramp; the state after it is v = u / A.
  const std::vector<double> u{1, 2, 3, 4};
  std::vector<double> y(4), state(1);
  rtf::filter<double>(tf, rtf::channels_last(u.data(), 1, 4, 1), rtf::channels_last(y.data(), 1, 4, 1), {}, state);
  good &= equal(y, {2, 5, 8.5, 12.25}, "the output");
  good &= equal(state, {6.125}, "the state");

  // One sample more: y = b x + h0 u, x' = u - a x.
  const std::vector<double> next{5};
  std::vector<double> out(1);
  rtf::step<double>(tf, next, state, out);
  good &= equal(out, {16.125}, "the step");
  good &= equal(state, {8.0625}, "the state after the step");

  try {
    tf.h0.clear();
    rtf::exact_kernel(tf, 5);
    good = false;
  } catch (const rtf::Error& error) {
    good &= error.code() == rtf::ErrorCode::argument;
  }
  std::printf("consume: rtf %s %s\n", rtf::version, good ? "works" : "FAILS");
  return good ? 0 : 1;
}
