#include <rtf/rtf.h>

#include <cstdio>

// Poles and zeros to coefficients, a pole pair back inside the circle, six states to four, and sections to stream.
int main() {
  rtf::ZeroPoleGain zpk;
  zpk.poles = {{0.95, 0.35}, {0.95, -0.35}, {-0.4, 0.5}, {-0.4, -0.5}, {0.3, 0.2}, {0.3, -0.2}};
  zpk.zeros = {{0.8, 0.1}, {0.8, -0.1}, {-0.5, 0.0}};
  zpk.gain = 0.5;

  const auto tf = rtf::to_transfer_function(zpk);
  std::printf("order %zu, kernel kept to %.0e\n", tf.value.order, tf.report.error);

  const auto stable = rtf::stabilize(tf.value, rtf::StabilizeMethod::reflect, 200);
  std::printf("pole radius %.4f, reflected %.4f\n", rtf::pole_radius(tf.value.a), rtf::pole_radius(stable.value.a));

  const rtf::Reduction reduced = rtf::reduce(stable.value, 4);
  std::printf("order 4, max |H - reduced H| %.4f, bound %.4f\n", reduced.error[0], reduced.bound[0]);

  for (const auto& s : rtf::to_sections(reduced.tf).value.sections)
    std::printf("section %8.4f %8.4f %8.4f / %8.4f %8.4f %8.4f\n", s[0], s[1], s[2], s[3], s[4], s[5]);
}
