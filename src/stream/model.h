// A model's weights as the inner loops read them, one after the other in the order of use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "cpu/activation_lanes.h"
#include "rtf/stream.h"
#include "rtf/workspace.h"
#include "stream/lanes.h"
#include "stream/matrix_lanes.h"

namespace rtf::stream {

// Elements that a row is a multiple of: whole vectors of every instruction set, and whole cache lines.
inline constexpr std::size_t row_multiple = 16;
constexpr std::size_t vectors_of(std::size_t width, std::size_t lanes) { return (width + lanes - 1) / lanes; }
constexpr std::size_t row_size(std::size_t width) { return (width + row_multiple - 1) / row_multiple * row_multiple; }

template <class T>
struct Embedding {
  const std::byte* rows = nullptr;  // (vocabulary, row) weights
  const T* scale = nullptr;         // (vocabulary), of int8
  std::size_t row_bytes = 0;
};

template <class T>
struct NormRows {
  const T *weight = nullptr, *bias = nullptr;
};

template <class T>
struct LaneLayer {
  LaneRecurrence<T> recurrence;
  RunLanes<T> run = nullptr;
  std::size_t lanes = 0;  // of a vector
};

// A layer runs in its own precision.
struct Layer {
  std::variant<LaneLayer<float>, LaneLayer<double>> lanes;
  bool ring = false;              // companion
  std::size_t terms = 0;          // taps, sections or pairs of poles
  std::size_t states_a_term = 0;  // numbers that each keeps
  std::size_t state_offset = 0;   // bytes into the memory of a stream
};

template <class T>
struct Block {
  NormRows<T> norm;
  Layer layer;
  std::optional<Layer> backward;  // of a bidirectional model
  LaneMatrix<T> output{};         // p in the first row_size(channels) outputs, q in the second
};

template <class T>
struct Model<T>::Impl {
  explicit Impl(const ModelFile& file);

  Architecture architecture;
  const Lanes<T>& lanes;
  DataType weight_type;           // of matrices and embeddings
  const WeightLanes<T>& weights;  // likewise
  const cpu::ActivationLanes<T>& activation;
  std::size_t row = 0;  // row_size(channels)

  Embedding<T> embedding;
  LaneMatrix<T> encoder{};
  std::vector<Block<T>> blocks;
  NormRows<T> norm;
  LaneMatrix<T> decoder[2]{};

  bool pools() const {
    return architecture.decoder == Architecture::Decoder::pool || architecture.decoder == Architecture::Decoder::pair;
  }
  std::size_t sums_offset = 0;    // bytes into the memory of a stream: (row) doubles, where the decoder pools
  std::size_t stream_bytes = 0;   // memory of a stream
  std::size_t saved_bytes = 0;    // of a saved stream
  std::uint32_t fingerprint = 0;  // of the file, whatever the processor
  Workspace memory;

 private:
  class Packer;
  void pack(const ModelFile& file, Packer& packer);
  Layer pack_layer(const LayerRealization& from, Packer& packer);
};

}  // namespace rtf::stream
