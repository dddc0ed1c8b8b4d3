#include "core/npy_bytes.h"
#include "fuzz.h"

using namespace rtf;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Array array;
  if (!fuzz::accepted([&] { array = parse_npy(bytes, "fuzz.npy"); })) return 0;
  const Array again = parse_npy(npy_bytes(array, "again.npy"), "again.npy");
  fuzz::expect(again.shape == array.shape && again.type == array.type && fuzz::same_bits(again.values, array.values),
               "an array that was read changes when it is written and read again");
  return 0;
}
