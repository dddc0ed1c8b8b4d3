#include "core/filter_bytes.h"
#include "fuzz.h"

using namespace rtf;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  AnyFilter filter;
  if (!fuzz::accepted([&] { filter = parse_filter(text, "fuzz.json"); })) return 0;
  const std::string written = filter_bytes(filter, "fuzz.json");
  fuzz::expect(filter_bytes(parse_filter(written, "fuzz.json"), "fuzz.json") == written,
               "a filter that was read changes when it is written and read again");

  // Most commands go on with its transfer function, whose cost grows with the third power of the order.
  constexpr std::size_t small = 400;
  if (size > small) return 0;
  AnyTransferFunction coefficients;
  if (!fuzz::accepted([&] { coefficients = to_coefficients(filter, "fuzz.json"); })) return 0;
  const auto& c = std::visit([](const auto& tf) -> const Coefficients& { return tf; }, coefficients);
  fuzz::expect(fuzz::accepted([&] { validate(c, "fuzz"); }), "a conversion gave what no filter may hold");
  return 0;
}
