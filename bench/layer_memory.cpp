// layer_memory PASS FAMILY BATCH LENGTH CHANNELS ORDER: by how many bytes one pass of the layer raises the peak of the
// resident memory. Coefficients, u and dy are there before; outputs, gradients, plans and workspace are counted.
#include <malloc.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>

#include "layer.h"

using namespace rtf::bench;

namespace {

std::size_t status_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::size_t kibibytes = 0;
    if (word == field + ":" && status >> kibibytes) return kibibytes * 1024;
  }
  throw std::runtime_error("/proc/self/status has no " + field);
}

// The kernel then counts VmHWM from the present size on.
void reset_peak() {
  std::ofstream file("/proc/self/clear_refs");
  if (!(file << "5" << std::flush)) throw std::runtime_error("cannot write /proc/self/clear_refs");
}

// Brings in the code and starts the threads, which are not the layer's memory.
void warm_up(Pass pass) {
  Layer layer(layer_filter(Family::montel, 8, 2, 2), 1, pass);
  layer.run(Samples(16), Samples(16));
}

std::size_t peak_increase(Pass pass, Family family, std::size_t batch, std::size_t length, std::size_t channels,
                          std::size_t order) {
  auto filter = layer_filter(family, length, channels, order);
  const Samples u = normal_samples(batch * length * channels, 3);
  const Samples dy = pass == Pass::forward ? Samples() : u;
  warm_up(pass);
  malloc_trim(0);
  reset_peak();
  const std::size_t before = status_bytes("VmRSS");
  Layer layer(std::move(filter), batch, pass);
  layer.run(u, dy);
  return status_bytes("VmHWM") - before;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 7) {
    std::fprintf(stderr, "usage: layer_memory PASS FAMILY BATCH LENGTH CHANNELS ORDER\n");
    return 2;
  }
  const auto size = [&](int i) { return static_cast<std::size_t>(std::stoul(argv[i])); };
  std::printf("%zu\n", peak_increase(pass_of(argv[1]), family_of(argv[2]), size(3), size(4), size(5), size(6)));
} catch (const std::exception& error) {
  std::fprintf(stderr, "layer_memory: %s\n", error.what());
  return 2;
}
