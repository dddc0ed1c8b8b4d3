// Whole sequences: every block sees all samples before the next block begins, so that a layer may also look ahead.
#include <algorithm>
#include <type_traits>

#include "core/arguments.h"
#include "core/carver.h"
#include "stream/flush_denormals.h"
#include "stream/streams.h"

namespace rtf::stream {

template <class T>
struct Sequences<T>::Impl {
  using Rows = typename Streams<T>::Impl;

  Impl(const Model<T>& model, std::size_t most)
      : streams(Streams<T>(std::make_unique<Rows>(model, 2))), rows(*streams.impl_), longest(most) {
    streams.join();  // both of a pair
    streams.join();
    const std::size_t each = memory_product(most, rows.numbers->row);
    const std::size_t bytes = memory_product(3, array_bytes<T>(each));
    memory = Workspace(bytes);
    std::fill_n(memory.data(), bytes, std::byte{0});  // past the channels, where norms write nothing
    Carver carver(memory, bytes, "stream::Sequences");
    h = carver.take<T>(each);
    forward = carver.take<T>(each);
    backward = carver.take<T>(each);
  }

  // visit(first sample, tile of the sequence in `slot`).
  template <class Visit>
  static void each_tile(std::size_t length, std::size_t slot, Visit&& visit) {
    for (std::size_t first = 0; first < length; first += tile_rows) {
      typename Rows::Tile tile;
      tile.rows = std::min(tile_rows, length - first);
      for (std::size_t r = 0; r < tile.rows; ++r) {
        tile.slot[r] = slot;
        tile.samples[r] = first + r;
        tile.fade[r] = 0;
      }
      visit(first, tile);
    }
  }

  // Both directions of a layer, summed: y_t = sum_{j <= t} k_j u_{t-j} + sum_{j > t} k'_{j-t-1} u_j.
  void run_layer(const Block<T>& block, std::size_t length, std::size_t slot) {
    const std::size_t row = rows.numbers->row;
    if (block.backward) {
      for (std::size_t t = 0; t < length; ++t) std::copy_n(forward + t * row, row, backward + (length - 1 - t) * row);
      each_tile(length, slot, [&](std::size_t first, const auto& tile) {
        rows.run_layer(*block.backward, tile, backward + first * row);
      });
    }
    each_tile(length, slot,
              [&](std::size_t first, const auto& tile) { rows.run_layer(block.layer, tile, forward + first * row); });
    if (!block.backward) return;
    for (std::size_t t = 0; t + 1 < length; ++t) {
      const T* later = backward + (length - 2 - t) * row;
      for (std::size_t c = 0; c < row; ++c) forward[t * row + c] += later[c];
    }
  }

  // One sequence, into h.
  template <class In>
  void run(const Signal<const In>& in, std::size_t sequence, std::size_t slot) {
    const auto& numbers = *rows.numbers;
    const std::size_t row = numbers.row, length = in.length;
    rows.clear(slot);
    each_tile(length, slot, [&](std::size_t first, const auto& tile) {
      for (std::size_t r = 0; r < tile.rows; ++r) rows.encode(in, sequence, first + r, r);
      if constexpr (std::is_same_v<In, T>) rows.multiply(numbers.encoder, rows.x, rows.x_row, tile.rows, rows.h, row);
      std::copy_n(rows.h, tile.rows * row, h + first * row);
    });
    for (const Block<T>& block : numbers.blocks) {
      each_tile(length, slot, [&](std::size_t first, const auto& tile) {
        rows.begin_block(block, h + first * row, forward + first * row, tile.rows);
      });
      run_layer(block, length, slot);
      each_tile(length, slot, [&](std::size_t first, const auto& tile) {
        rows.end_block(block, forward + first * row, h + first * row, tile.rows);
      });
    }
    if (numbers.architecture.has_last_norm()) rows.normalize(numbers.norm, h, h, length);
  }

  // The sequence in h counts as what the stream of `slot` has seen.
  void pool(std::size_t length, std::size_t slot) {
    each_tile(length, slot, [&](std::size_t first, const auto& tile) {
      std::copy_n(h + first * rows.numbers->row, tile.rows * rows.numbers->row, rows.h);
      rows.pool(tile);
    });
    rows.slots[slot].samples = length;
  }

  void decode(std::size_t length, std::size_t sequence, const Signal<T>& out) {
    const std::size_t row = rows.numbers->row;
    each_tile(length, 0, [&](std::size_t first, const auto& tile) {
      rows.multiply(rows.numbers->decoder[0], h + first * row, row, tile.rows, rows.y, rows.y_row);
      for (std::size_t r = 0; r < tile.rows; ++r)
        for (std::size_t o = 0; o < out.channels; ++o) *out.at(sequence, first + r, o) = rows.y[r * rows.y_row + o];
    });
  }

  template <class In>
  void process(const Signal<const In>& in, const Signal<T>& out) {
    constexpr const char* operation = "stream::Sequences";
    const Architecture& a = rows.numbers->architecture;
    const bool pair = a.decoder == Architecture::Decoder::pair, pools = rows.numbers->pools();
    if (in.length == 0 || in.length > longest)
      fail(ErrorCode::argument, operation, "a length of {}; 1 to {} samples are possible", in.length, longest);
    if (pair && in.batch % 2 != 0)
      fail(ErrorCode::argument, operation, "{} sequences; pairs need an even number", in.batch);
    rows.check_in(operation, in, in.batch);
    const std::size_t answers = pair ? in.batch / 2 : in.batch;
    check_signal(operation, "out", out, answers, pools ? 1 : in.length, a.outputs);
    const FlushDenormals guard;
    for (std::size_t i = 0; i < answers; ++i) {
      run(in, i, 0);
      if (!pools) {
        decode(in.length, i, out);
        continue;
      }
      pool(in.length, 0);
      if (pair) {
        run(in, i + answers, 1);
        pool(in.length, 1);
        streams.answer_pair(0, 1, std::span(answer).first(a.outputs));
      } else {
        streams.answer(0, std::span(answer).first(a.outputs));
      }
      for (std::size_t o = 0; o < a.outputs; ++o) *out.at(i, 0, o) = answer[o];
    }
  }

  Streams<T> streams;
  Rows& rows;
  std::size_t longest;
  std::vector<T> answer = std::vector<T>(rows.numbers->architecture.outputs);
  Workspace memory;
  T *h, *forward, *backward;  // (longest, row) each
};

template <class T>
Sequences<T>::Sequences(const Model<T>& model, std::size_t longest) {
  if (longest == 0)
    fail(ErrorCode::argument, "stream::Sequences", "sequences of up to 0 samples; at least 1 is needed");
  impl_ = std::make_unique<Impl>(model, longest);
}
template <class T>
Sequences<T>::~Sequences() = default;
template <class T>
Sequences<T>::Sequences(Sequences&&) noexcept = default;
template <class T>
Sequences<T>& Sequences<T>::operator=(Sequences&&) noexcept = default;

template <class T>
void Sequences<T>::process(Signal<const T> in, Signal<T> out) {
  impl_->process(in, out);
}
template <class T>
void Sequences<T>::process(Signal<const std::int64_t> tokens, Signal<T> out) {
  impl_->process(tokens, out);
}

template class Sequences<float>;
template class Sequences<double>;

}  // namespace rtf::stream
