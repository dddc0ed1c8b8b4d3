#include "core/checksum.h"
#include "fuzz.h"
#include "rtf/stream.h"
#include "stream/state.h"

using namespace rtf;

namespace {

using Bytes = std::vector<std::byte>;

// Three layers, one of each realization, and a decoder that keeps sums.
ModelFile small_model() {
  ModelFile file;
  Architecture& a = file.architecture;
  a.channels = 3;
  a.layers = 3;
  a.norm = Architecture::Norm::none;
  a.glu = false;
  a.outputs = 2;
  file.encoder = {{1, 0.5, 0.25}, {0, 0, 0}};
  file.blocks.resize(3);
  TransferFunction tf = make_coefficients(3, 1, 2);
  tf.a = {-0.5, 0.25};
  tf.b = {1, 2, 3, 4, 5, 6};
  file.blocks[0].layer.realization = tf;
  file.blocks[1].layer.realization = std::vector<SecondOrderSections>(3, {{{1, 0, 0, 1, -0.5, 0.25}}});
  file.blocks[2].layer.realization = std::vector<Modal>(3, {{{0.5, 0.25}, {0.5, -0.25}}, {{1, 1}, {1, -1}}, 0.5});
  file.blocks[2].layer.precision = DataType::f64;
  file.decoder = {{{1, 0, 0, 0, 1, 0}, {0, 0}}};
  return file;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const stream::Model<float> model(small_model());
  static stream::Streams<float> streams(model, 1);
  static const std::size_t one = streams.join();
  static const Bytes fresh = [] {
    Bytes bytes(model.state_bytes());
    streams.save(one, bytes);
    return bytes;
  }();
  const auto saved = [] {
    Bytes bytes(model.state_bytes());
    streams.save(one, bytes);
    return bytes;
  };
  const auto* at = reinterpret_cast<const std::byte*>(data);
  Bytes bytes(at, at + size);
  streams.reset(one);
  if (!fuzz::accepted([&] { streams.restore(one, bytes); }))
    fuzz::expect(saved() == fresh, "a refused state has changed the stream");

  // The same numbers with the size, the head and the checksum that this model's states have.
  using stream::StateHeader;
  bytes.resize(fresh.size());
  StateHeader head, given;
  std::memcpy(&head, fresh.data(), sizeof head);
  std::memcpy(&given, bytes.data(), sizeof given);
  head.samples = given.samples;
  std::memcpy(bytes.data(), &head, sizeof head);
  constexpr std::size_t summed = offsetof(StateHeader, checksum) + sizeof head.checksum;
  head.checksum = crc32(0, bytes.data() + summed, bytes.size() - summed);
  std::memcpy(bytes.data(), &head, sizeof head);
  streams.restore(one, bytes);
  fuzz::expect(saved() == bytes, "a state changes when it is restored");
  const float in[] = {0.5f};
  float out[2];
  streams.step({&one, 1}, in, out);
  return 0;
}
