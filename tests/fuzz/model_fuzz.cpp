#include "core/checksum.h"
#include "core/safetensors_bytes.h"
#include "fuzz.h"
#include "rtf/stream.h"
#include "stream/model_tensors.h"

using namespace rtf;

namespace {

// A stream of the model takes some samples; saved, reset and restored it is what it was.
template <class T>
void run(const ModelFile& file) {
  const stream::Model<T> model(file);
  stream::Streams<T> streams(model, 2);
  const std::size_t all[] = {streams.join(), streams.join()};
  const std::size_t outputs = file.architecture.decoder == Architecture::Decoder::pair ? 0 : model.outputs();
  std::vector<T> out(2 * outputs);
  for (int step = 0; step < 3; ++step) {
    if (file.architecture.vocabulary > 0) {
      const std::int64_t tokens[] = {0, static_cast<std::int64_t>(file.architecture.vocabulary - 1)};
      streams.step(all, tokens, out);
    } else {
      streams.step(all, std::vector<T>(2 * model.inputs(), T(0.5)), out);
    }
  }
  std::vector<std::byte> saved(model.state_bytes()), again(saved.size());
  streams.save(all[0], saved);
  streams.reset(all[0]);
  streams.restore(all[0], saved);
  streams.save(all[0], again);
  fuzz::expect(saved == again, "a state changes when it is restored");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  TensorFile tensors;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (!fuzz::accepted([&] { tensors = parse_safetensors(bytes, "fuzz.safetensors"); })) return 0;
  ModelFile file;
  if (!fuzz::accepted([&] { file = to_model(tensors, "fuzz.safetensors"); })) {
    // No damaged file has its checksum by chance.
    tensors.metadata["crc32"] = std::to_string(checksum(tensors));
    if (!fuzz::accepted([&] { file = to_model(tensors, "fuzz.safetensors"); })) return 0;
  }
  const std::string written = safetensors_bytes(from_model(file), "again.safetensors");
  const ModelFile again = to_model(parse_safetensors(written, "again.safetensors"), "again.safetensors");
  fuzz::expect(safetensors_bytes(from_model(again), "again.safetensors") == written,
               "a model that was read changes when it is written and read again");
  if (file.architecture.bidirectional) return 0;
  file.precision == DataType::f32 ? run<float>(file) : run<double>(file);
  return 0;
}
