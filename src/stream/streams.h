// What Streams owns: the memory of every stream, and rows to work in.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rtf/stream.h"
#include "rtf/workspace.h"
#include "stream/model.h"

namespace rtf::stream {

// Rows that pass through the model together: samples of one stream, or of several. Weights are read once for them.
inline constexpr std::size_t tile_rows = 16;

template <class T>
struct Streams<T>::Impl {
  Impl(const Model<T>& model, std::size_t capacity);

  using Numbers = typename Model<T>::Impl;
  struct Slot {
    bool joined = false;
    std::uint64_t samples = 0;  // seen so far
    std::uint64_t call = 0;     // the last one that named it: none may name it twice
    std::size_t fade = 0;       // samples that are still mixed with the answers of the model before
  };
  // A model with the states of all streams in it. While streams fade from one model to the next both run.
  struct Side {
    Model<T> model;
    Workspace states;
  };
  // Who the rows of a tile belong to.
  struct Tile {
    std::size_t rows = 0;
    std::size_t slot[tile_rows];
    std::uint64_t samples[tile_rows];  // that its stream had seen before
    std::size_t fade[tile_rows];
  };

  Side sides[2];
  std::size_t current = 0;           // of the sides; the other is the model before
  const Numbers* numbers;            // of the side that runs
  std::byte* states;                 // likewise
  std::size_t fading = 0, fade = 0;  // streams that fade, and over how many samples
  std::vector<Slot> slots;
  std::size_t joined = 0;
  std::uint64_t calls = 0;
  Workspace scratch;
  T *x, *h, *u, *z, *y, *before;  // rows of the input, the residual, the layer, the gate, the answers, faded ones
  double* wide;                   // rows of a layer in double
  std::size_t x_row, z_row, y_row;

  Slot& check_joined(const char* operation, std::size_t stream);
  const Slot& check_joined(const char* operation, std::size_t stream) const;
  std::byte* memory(std::size_t slot) const { return states + slot * numbers->stream_bytes; }
  double* sums(std::size_t slot) const { return reinterpret_cast<double*>(memory(slot) + numbers->sums_offset); }
  void select(std::size_t side);
  void clear(std::size_t slot);  // on the current side
  void end_fade(Slot& slot);

  // Named once each, and joined; the number of the call marks them.
  void check_streams(const char* operation, std::span<const std::size_t> streams);
  void check_out(const char* operation, const Signal<T>& out, std::size_t streams, std::size_t length) const;
  void check_in(const char* operation, const Signal<const T>& in, std::size_t streams) const;
  void check_in(const char* operation, const Signal<const std::int64_t>& in, std::size_t streams) const;

  // `inputs` numbers of each stream, called `name`.
  template <class In>
  void step(std::span<const std::size_t> streams, std::span<const In> in, const char* name, std::size_t inputs,
            std::span<T> out);
  // In, of either kind, through the model; answers are not computed without `out`.
  template <class In>
  void run(const char* operation, std::span<const std::size_t> streams, Signal<const In> in, const Signal<T>* out);
  void encode(const Signal<const T>& in, std::size_t stream, std::size_t t, std::size_t row);
  void encode(const Signal<const std::int64_t>& in, std::size_t stream, std::size_t t, std::size_t row);
  // The rows of a tile, of samples from `first` on, through the side that runs; answers into y where they are wanted.
  template <class In>
  void run_tile(const Tile& tile, const Signal<const In>& in, std::size_t first, bool answers);
  void run_blocks(const Tile& tile);
  // What a block does before its layer, from its input into that of the layer, and after it: the answer of the layer
  // into the output.
  void begin_block(const Block<T>& block, const T* from, T* to, std::size_t rows) const;
  void end_block(const Block<T>& block, T* layer, T* to, std::size_t rows) const;
  // y becomes what lies between `before` and it.
  void mix(const Tile& tile);
  // In place.
  void run_layer(const Layer& layer, const Tile& tile, T* rows);
  void normalize(const NormRows<T>& norm, const T* from, T* to, std::size_t rows) const;
  void pool(const Tile& tile);
  void multiply(const LaneMatrix<T>& matrix, const T* from, std::size_t from_row, std::size_t rows, T* to,
                std::size_t to_row) const;
  // The mean of what a stream has seen, into a row.
  void mean(std::size_t slot, T* row) const;
};

}  // namespace rtf::stream
