// Rows of samples through the model.
#include <algorithm>
#include <type_traits>

#include "stream/flush_denormals.h"
#include "stream/streams.h"

namespace rtf::stream {
namespace {

constexpr double epsilon = 1e-5;  // of layer norm, as the trainer has it

}  // namespace

template <class T>
void Streams<T>::Impl::multiply(const LaneMatrix<T>& matrix, const T* from, std::size_t from_row, std::size_t rows,
                                T* to, std::size_t to_row) const {
  if (!matrix.identity) return numbers->weights.multiply(matrix, from, from_row, rows, to, to_row);
  const std::size_t inputs = matrix.inputs, last = row_size(inputs) - row_multiple;
  for (std::size_t r = 0; r < rows; ++r) {
    // Zeros past the inputs, as a product leaves them: norms sum whole vectors, and what is not finite would stay
    // there.
    std::fill_n(to + r * to_row + last, row_multiple, T(0));
    // One by one: of a few channels a call of memcpy takes longer.
    for (std::size_t i = 0; i < inputs; ++i) to[r * to_row + i] = from[r * from_row + i];
  }
}

template <class T>
void Streams<T>::Impl::encode(const Signal<const T>& in, std::size_t stream, std::size_t t, std::size_t row) {
  T* to = x + row * x_row;
  for (std::size_t c = 0; c < in.channels; ++c) to[c] = *in.at(stream, t, c);
}

template <class T>
void Streams<T>::Impl::encode(const Signal<const std::int64_t>& in, std::size_t stream, std::size_t t,
                              std::size_t row) {
  const auto token = static_cast<std::size_t>(*in.at(stream, t, 0));
  const Embedding<T>& all = numbers->embedding;
  numbers->weights.widen(all.rows + token * all.row_bytes, all.scale == nullptr ? T(1) : all.scale[token],
                         numbers->row / numbers->lanes.lanes, h + row * numbers->row);
}

template <class T>
void Streams<T>::Impl::normalize(const NormRows<T>& norm, const T* from, T* to, std::size_t rows) const {
  for (std::size_t r = 0; r < rows; ++r, from += numbers->row, to += numbers->row) {
    if (numbers->architecture.norm == Architecture::Norm::layer) {
      numbers->lanes.layer_norm(from, norm.weight, norm.bias, numbers->architecture.channels, static_cast<T>(epsilon),
                                to);
    } else {
      numbers->lanes.affine(from, norm.weight, norm.bias, numbers->row / numbers->lanes.lanes, to);
    }
  }
}

template <class T>
void Streams<T>::Impl::run_layer(const Layer& layer, const Tile& tile, T* rows) {
  std::visit(
      [&]<class R>(const LaneLayer<R>& lanes) {
        LaneState<R> of_rows[tile_rows];
        for (std::size_t r = 0; r < tile.rows; ++r)
          of_rows[r] = {reinterpret_cast<R*>(memory(tile.slot[r]) + layer.state_offset),
                        layer.ring && layer.terms > 0 ? tile.samples[r] % layer.terms : 0};
        if constexpr (std::is_same_v<R, T>) {
          lanes.run(lanes.recurrence, of_rows, tile.rows, rows, numbers->row);
        } else if constexpr (std::is_same_v<R, double>) {
          std::copy_n(rows, tile.rows * numbers->row, wide);
          lanes.run(lanes.recurrence, of_rows, tile.rows, wide, numbers->row);
          for (std::size_t i = 0; i < tile.rows * numbers->row; ++i) rows[i] = static_cast<T>(wide[i]);
        }
      },
      layer.lanes);
}

template <class T>
void Streams<T>::Impl::begin_block(const Block<T>& block, const T* from, T* to, std::size_t rows) const {
  const Architecture& a = numbers->architecture;
  if (a.has_norms() && a.prenorm) {
    normalize(block.norm, from, to, rows);
  } else {
    std::copy_n(from, rows * numbers->row, to);
  }
}

template <class T>
void Streams<T>::Impl::end_block(const Block<T>& block, T* layer, T* to, std::size_t rows) const {
  const Architecture& a = numbers->architecture;
  const std::size_t row = numbers->row, all = rows * row;
  if (a.activation == Architecture::Activation::gelu) numbers->activation.gelu(layer, nullptr, all, layer);
  if (a.glu) {
    multiply(block.output, layer, row, rows, z, z_row);
    for (std::size_t r = 0; r < rows; ++r) {
      T* into = to + r * row;
      numbers->activation.glu(z + r * z_row, z + r * z_row + row, nullptr, a.residual ? into : nullptr, row, into);
    }
  } else if (a.residual) {
    for (std::size_t i = 0; i < all; ++i) to[i] += layer[i];
  } else {
    std::copy_n(layer, all, to);
  }
  if (a.has_norms() && !a.prenorm) normalize(block.norm, to, to, rows);
}

template <class T>
void Streams<T>::Impl::run_blocks(const Tile& tile) {
  for (const Block<T>& block : numbers->blocks) {
    begin_block(block, h, u, tile.rows);
    run_layer(block.layer, tile, u);
    end_block(block, u, h, tile.rows);
  }
}

template <class T>
void Streams<T>::Impl::mean(std::size_t slot, T* row) const {
  const double* total = sums(slot);
  const double count = static_cast<double>(slots[slot].samples);
  for (std::size_t c = 0; c < numbers->row; ++c) row[c] = static_cast<T>(total[c] / count);
}

// h becomes the mean over all samples up to each.
template <class T>
void Streams<T>::Impl::pool(const Tile& tile) {
  for (std::size_t r = 0; r < tile.rows; ++r) {
    double* total = sums(tile.slot[r]);
    T* row = h + r * numbers->row;
    const double count = static_cast<double>(tile.samples[r] + 1);
    for (std::size_t c = 0; c < numbers->row; ++c) {
      total[c] += row[c];
      row[c] = static_cast<T>(total[c] / count);
    }
  }
}

template <class T>
template <class In>
void Streams<T>::Impl::run_tile(const Tile& tile, const Signal<const In>& in, std::size_t first, bool answers) {
  for (std::size_t r = 0; r < tile.rows; ++r) encode(in, (first + r) % in.batch, (first + r) / in.batch, r);
  if constexpr (std::is_same_v<In, T>) multiply(numbers->encoder, x, x_row, tile.rows, h, numbers->row);
  run_blocks(tile);
  if (!answers && !numbers->pools()) return;
  if (numbers->architecture.has_last_norm()) normalize(numbers->norm, h, h, tile.rows);
  if (numbers->pools()) pool(tile);
  if (answers) multiply(numbers->decoder[0], h, numbers->row, tile.rows, y, y_row);
}

template <class T>
void Streams<T>::Impl::mix(const Tile& tile) {
  for (std::size_t r = 0; r < tile.rows; ++r) {
    if (tile.fade[r] == 0) continue;
    const T weight = static_cast<T>(tile.fade[r]) / (static_cast<T>(fade) + 1);
    for (std::size_t i = r * y_row; i < (r + 1) * y_row; ++i) y[i] += weight * (before[i] - y[i]);
  }
}

template <class T>
template <class In>
void Streams<T>::Impl::run(const char* operation, std::span<const std::size_t> streams, Signal<const In> in,
                           const Signal<T>* out) {
  check_streams(operation, streams);
  check_in(operation, in, streams.size());
  if (out != nullptr) check_out(operation, *out, streams.size(), in.length);

  const FlushDenormals guard;
  const bool answers = out != nullptr && numbers->architecture.decoder != Architecture::Decoder::pair;
  const std::size_t count = streams.size(), total = count * in.length;
  // One sample of every stream, then the next of every stream: a tile has the samples of each in order of time.
  for (std::size_t first = 0; first < total; first += tile_rows) {
    const bool both = fading > 0;
    Tile tile;
    tile.rows = std::min(tile_rows, total - first);
    for (std::size_t r = 0; r < tile.rows; ++r) {
      tile.slot[r] = streams[(first + r) % count];
      Slot& slot = slots[tile.slot[r]];
      tile.samples[r] = slot.samples++;
      tile.fade[r] = slot.fade;
      if (slot.fade == 1) end_fade(slot);
      if (slot.fade > 1) --slot.fade;
    }
    if (both) {
      select(1 - current);
      run_tile(tile, in, first, answers);
      if (answers) std::copy_n(y, tile.rows * y_row, before);
      select(current);
    }
    run_tile(tile, in, first, answers);
    if (!answers) continue;
    if (both) mix(tile);
    for (std::size_t r = 0; r < tile.rows; ++r)
      for (std::size_t o = 0; o < out->channels; ++o)
        *out->at((first + r) % count, (first + r) / count, o) = y[r * y_row + o];
  }
}

#define RTF_INSTANTIATE(T)                                                                                            \
  template void Streams<T>::Impl::run(const char*, std::span<const std::size_t>, Signal<const T>, const Signal<T>*);  \
  template void Streams<T>::Impl::run(const char*, std::span<const std::size_t>, Signal<const std::int64_t>,          \
                                      const Signal<T>*);                                                              \
  template void Streams<T>::Impl::multiply(const LaneMatrix<T>&, const T*, std::size_t, std::size_t, T*, std::size_t) \
      const;                                                                                                          \
  template void Streams<T>::Impl::mean(std::size_t, T*) const;                                                        \
  template void Streams<T>::Impl::normalize(const NormRows<T>&, const T*, T*, std::size_t) const;                     \
  template void Streams<T>::Impl::encode(const Signal<const T>&, std::size_t, std::size_t, std::size_t);              \
  template void Streams<T>::Impl::encode(const Signal<const std::int64_t>&, std::size_t, std::size_t, std::size_t);   \
  template void Streams<T>::Impl::begin_block(const Block<T>&, const T*, T*, std::size_t) const;                      \
  template void Streams<T>::Impl::end_block(const Block<T>&, T*, T*, std::size_t) const;                              \
  template void Streams<T>::Impl::run_layer(const Layer&, const Tile&, T*);                                           \
  template void Streams<T>::Impl::pool(const Tile&);
RTF_INSTANTIATE(float)
RTF_INSTANTIATE(double)
#undef RTF_INSTANTIATE

}  // namespace rtf::stream
