#include "stream/model.h"

#include <algorithm>
#include <type_traits>

#include "core/arguments.h"
#include "core/bfloat16.h"
#include "core/carver.h"
#include "core/checksum.h"
#include "stream/model_tensors.h"
#include "stream/state.h"
#include "stream/weights.h"

namespace rtf::stream {

namespace {

bool is_identity(const Linear& layer, std::size_t outputs, std::size_t inputs) {
  if (outputs != inputs || !layer.scale.empty()) return false;
  for (std::size_t i = 0; i < layer.weight.size(); ++i)
    if (layer.weight[i] != (i % (inputs + 1) == 0 ? 1.0 : 0.0)) return false;
  return std::all_of(layer.bias.begin(), layer.bias.end(), [](double bias) { return bias == 0; });
}

}  // namespace

// Hands out aligned arrays of one piece of memory and fills them; without memory it only counts the bytes.
template <class T>
class Model<T>::Impl::Packer {
 public:
  Packer(const Impl& model, std::byte* memory) : model_(model), memory_(memory) {}
  std::size_t bytes() const { return bytes_; }

  // fill(array) is called where there is memory; arrays are zero before.
  template <class R, class Fill>
  const R* take(std::size_t count, Fill&& fill) {
    const std::size_t at = bytes_;
    bytes_ += array_bytes<R>(count);
    if (memory_ == nullptr) return nullptr;
    R* array = reinterpret_cast<R*>(memory_ + at);
    fill(array);
    return array;
  }

  // `values` in rows of `width`, each padded to whole rows.
  template <class R>
  const R* rows(std::span<const double> values, std::size_t width) {
    const std::size_t count = width > 0 ? values.size() / width : 0;
    return take<R>(count * row_size(width), [&](R* array) {
      for (std::size_t i = 0; i < values.size(); ++i)
        array[i / width * row_size(width) + i % width] = static_cast<R>(values[i]);
    });
  }

  // Outputs in `parts` of equal size, each padded to whole rows.
  LaneMatrix<T> matrix(const Linear& layer, std::size_t outputs, std::size_t inputs, std::size_t parts) {
    const std::size_t part = outputs / parts, padded = row_size(part), lanes = model_.lanes.lanes;
    LaneMatrix<T> matrix{};
    matrix.inputs = inputs;
    matrix.identity = parts == 1 && is_identity(layer, outputs, inputs);
    if (matrix.identity) return matrix;
    // Halves begin with whole rows.
    matrix.vectors = parts > 1 ? parts * padded / lanes : vectors_of(part, lanes);
    matrix.bias = rows<T>(layer.bias, part);
    matrix.scale = scales(layer, part);
    const std::size_t share = model_.weights.share();
    const auto whole = [&](std::size_t vectors) { return (vectors + share - 1) / share * share * lanes; };
    matrix.weights = weights(layer, whole(matrix.vectors) * inputs, [&](auto&& put) {
      each_block(matrix.vectors, matrix_block, [&](std::size_t first, std::size_t width) {
        for (std::size_t lane = 0; lane < width * lanes; ++lane) {
          const std::size_t at = first * lanes + lane, within = at % padded;
          if (within >= part) continue;
          const std::size_t from = (at / padded * part + within) * inputs, vector = lane / lanes;
          const std::size_t to =
              whole(first) * inputs + (vector / share * lanes + lane % lanes) * share + vector % share;
          for (std::size_t i = 0; i < inputs; ++i) put(to + i * whole(width), from + i);
        }
      });
    });
    return matrix;
  }

  Embedding<T> embedding(const Linear& layer, std::size_t vocabulary, std::size_t channels) {
    const std::size_t row = row_size(channels);
    const auto* all = weights(layer, vocabulary * row, [&](auto&& put) {
      for (std::size_t i = 0; i < vocabulary * channels; ++i) put(i / channels * row + i % channels, i);
    });
    return {static_cast<const std::byte*>(all), scales(layer, vocabulary), row * model_.weights.bytes};
  }

  NormRows<T> norm(const Linear& layer, std::size_t channels) {
    return {rows<T>(layer.weight, channels), rows<T>(layer.bias, channels)};
  }

  // value(channel, term, number), `numbers` a term.
  template <class R, class Value>
  const R* terms(std::size_t channels, std::size_t count, std::size_t numbers, std::size_t lanes, Value&& value) {
    const std::size_t vectors = vectors_of(channels, lanes);
    return take<R>(vectors * lanes * count * numbers, [&](R* array) {
      each_block(vectors, channel_block, [&](std::size_t first, std::size_t width) {
        R* block = array + first * lanes * count * numbers;
        const std::size_t end = std::min(channels, (first + width) * lanes);
        for (std::size_t c = first * lanes; c < end; ++c)
          for (std::size_t k = 0; k < count * numbers; ++k)
            block[k * width * lanes + c - first * lanes] = static_cast<R>(value(c, k / numbers, k % numbers));
      });
    });
  }

 private:
  // An array of weights in the type they are kept in; fill(put) calls put(place in the array, place in the layer).
  template <class Fill>
  const void* weights(const Linear& layer, std::size_t count, Fill&& fill) {
    const auto as = [&]<class W>(W, auto&& narrow) -> const void* {
      return take<W>(count,
                     [&](W* array) { fill([&](std::size_t to, std::size_t from) { array[to] = narrow(from); }); });
    };
    if (model_.weight_type == DataType::bf16)
      return as(std::uint16_t{}, [&](std::size_t i) { return bfloat16_bits(layer.weight[i]); });
    if (model_.weight_type == DataType::int8)
      return as(std::int8_t{}, [whole = memory_ == nullptr ? std::vector<double>() : whole_weights(layer)](
                                   std::size_t i) { return static_cast<std::int8_t>(whole[i]); });
    return as(T{}, [&](std::size_t i) { return static_cast<T>(layer.weight[i]); });
  }
  const T* scales(const Linear& layer, std::size_t part) {
    return model_.weight_type == DataType::int8 ? rows<T>(layer.scale, part) : nullptr;
  }

  const Impl& model_;
  std::byte* memory_;
  std::size_t bytes_ = 0;
};

namespace {

// Double arithmetic takes narrow weights as wide as itself: it is for accuracy.
template <class T>
DataType type_of_weights(const ModelFile& file) {
  if constexpr (std::is_same_v<T, double>) return DataType::f64;
  return file.weights.value_or(DataType::f32);
}
template <class T>
const WeightLanes<T>& weight_lanes(DataType type) {
  const MatrixLanes<T>& lanes = matrix_lanes_of<T>(instruction_set());
  return type == DataType::bf16 ? lanes.bf16 : type == DataType::int8 ? lanes.int8 : lanes.full;
}

// --- The three forms, in the order of lanes.h -----------------------------------------------------------------------

template <class R, class Packer>
LaneLayer<R> pack_form(Packer& packer, const TransferFunction& tf, const Lanes<R>& lanes, Layer& layer) {
  layer.ring = true;
  layer.terms = tf.order;
  layer.states_a_term = 1;
  const std::size_t n = tf.order;
  const R* h0 = packer.template rows<R>(tf.h0, tf.channels);
  const R* numbers =
      packer.template terms<R>(tf.channels, n, 2, lanes.lanes, [&](std::size_t c, std::size_t k, std::size_t number) {
        return number == 0 ? tf.a[tf.group_of(c) * n + n - 1 - k] : tf.b[c * n + n - 1 - k];
      });
  return {{numbers, h0, n, vectors_of(tf.channels, lanes.lanes)}, lanes.companion, lanes.lanes};
}

template <class R, class Packer>
LaneLayer<R> pack_form(Packer& packer, const std::vector<SecondOrderSections>& all, const Lanes<R>& lanes,
                       Layer& layer) {
  layer.terms = all[0].sections.size();
  layer.states_a_term = 2;
  constexpr std::size_t places[] = {0, 1, 2, 4, 5};  // a0 is 1
  const R* numbers = packer.template terms<R>(
      all.size(), layer.terms, 5, lanes.lanes,
      [&](std::size_t c, std::size_t s, std::size_t number) { return all[c].sections[s][places[number]]; });
  return {{numbers, nullptr, layer.terms, vectors_of(all.size(), lanes.lanes)}, lanes.sos, lanes.lanes};
}

// Two poles as s <- M s + (u, 0), y = c . s: a conjugate pair turns and shrinks s; two real ones feed each other, which
// also holds where they are equal.
struct PolePair {
  double numbers[6] = {};
};
std::vector<PolePair> pole_pairs(const Modal& modal) {
  std::vector<PolePair> pairs;
  std::vector<std::size_t> real;
  for (std::size_t i = 0; i < modal.poles.size(); ++i) {
    const auto pole = modal.poles[i], residue = modal.residues[i];
    if (pole.imag() == 0 && residue.imag() == 0) {
      real.push_back(i);
      continue;
    }
    pairs.push_back({{pole.real(), -pole.imag(), pole.imag(), pole.real(), 2 * residue.real(), -2 * residue.imag()}});
    ++i;
  }
  for (std::size_t i = 0; i < real.size(); i += 2) {
    const double p = modal.poles[real[i]].real(), r = modal.residues[real[i]].real();
    if (i + 1 == real.size()) {
      pairs.push_back({{p, 0, 0, 0, r, 0}});
      continue;
    }
    const double q = modal.poles[real[i + 1]].real(), s = modal.residues[real[i + 1]].real();
    pairs.push_back({{p, 0, 1, q, r + s, s * (q - p)}});
  }
  return pairs;
}

template <class R, class Packer>
LaneLayer<R> pack_form(Packer& packer, const std::vector<Modal>& all, const Lanes<R>& lanes, Layer& layer) {
  std::vector<std::vector<PolePair>> pairs;
  std::vector<double> h0;
  for (const Modal& channel : all) {
    pairs.push_back(pole_pairs(channel));
    h0.push_back(channel.h0);
    layer.terms = std::max(layer.terms, pairs.back().size());
  }
  layer.states_a_term = 2;
  const R* h0_row = packer.template rows<R>(h0, h0.size());
  const R* numbers = packer.template terms<R>(all.size(), layer.terms, 6, lanes.lanes,
                                              [&](std::size_t c, std::size_t s, std::size_t number) {
                                                return s < pairs[c].size() ? pairs[c][s].numbers[number] : 0.0;
                                              });
  return {{numbers, h0_row, layer.terms, vectors_of(all.size(), lanes.lanes)}, lanes.modal, lanes.lanes};
}

}  // namespace

template <class T>
Layer Model<T>::Impl::pack_layer(const LayerRealization& from, Packer& packer) {
  Layer layer;
  // Double arithmetic holds what float32 was chosen for, and a layer that was not trusted to float32 keeps double.
  const bool narrow = std::is_same_v<T, float> && from.precision == DataType::f32;
  std::visit(
      [&](const auto& form) {
        if (narrow) {
          layer.lanes = pack_form<float>(packer, form, lanes_of<float>(instruction_set()), layer);
        } else {
          layer.lanes = pack_form<double>(packer, form, lanes_of<double>(instruction_set()), layer);
        }
      },
      from.realization);
  layer.state_offset = stream_bytes;
  const std::size_t each = layer.terms * layer.states_a_term * (narrow ? sizeof(float) : sizeof(double));
  stream_bytes += array_bytes<std::byte>(row * each);
  saved_bytes += architecture.channels * each;
  return layer;
}

template <class T>
void Model<T>::Impl::pack(const ModelFile& file, Packer& packer) {
  const Architecture& a = architecture;
  const std::size_t channels = a.channels;
  stream_bytes = 0;
  saved_bytes = state_header_bytes;
  if (a.vocabulary > 0) {
    embedding = packer.embedding(file.encoder, a.vocabulary, channels);
  } else {
    encoder = packer.matrix(file.encoder, channels, a.features, 1);
  }
  blocks.clear();
  for (const ModelBlock& from : file.blocks) {
    Block<T>& block = blocks.emplace_back();
    if (a.has_norms()) block.norm = packer.norm(from.norm, channels);
    block.layer = pack_layer(from.layer, packer);
    if (from.backward) block.backward = pack_layer(*from.backward, packer);
    if (a.glu) block.output = packer.matrix(from.output, 2 * channels, channels, 2);
  }
  if (a.has_last_norm()) norm = packer.norm(file.norm, channels);
  sums_offset = stream_bytes;
  if (pools()) {
    stream_bytes += array_bytes<double>(row);
    saved_bytes += channels * sizeof(double);
  }
  if (a.decoder == Architecture::Decoder::pair) {
    decoder[0] = packer.matrix(file.decoder[0], channels, 4 * channels, 1);
    decoder[1] = packer.matrix(file.decoder[1], a.outputs, channels, 1);
  } else {
    decoder[0] = packer.matrix(file.decoder[0], a.outputs, channels, 1);
  }
}

template <class T>
Model<T>::Impl::Impl(const ModelFile& file)
    : architecture(file.architecture),
      lanes(lanes_of<T>(instruction_set())),
      weight_type(type_of_weights<T>(file)),
      weights(weight_lanes<T>(weight_type)),
      activation(cpu::activation_lanes<T>(instruction_set())),
      row(row_size(file.architecture.channels)) {
  constexpr const char* operation = "stream::Model";
  validate(file, operation);
  if (std::is_same_v<T, float> && file.precision == DataType::f64)
    fail(ErrorCode::argument, operation, "a model of precision f64; load it with double arithmetic");
  Packer counting(*this, nullptr);
  pack(file, counting);
  memory = Workspace(counting.bytes());
  std::fill_n(memory.data(), memory.size(), std::byte{0});
  Packer filling(*this, memory.data());
  pack(file, filling);
  fingerprint = checksum(to_tensors(file));
}

template <class T>
Model<T>::Model(const ModelFile& file) : impl(std::make_shared<const Impl>(file)) {}
template <class T>
const Architecture& Model<T>::architecture() const {
  return impl->architecture;
}
template <class T>
std::size_t Model<T>::inputs() const {
  return impl->architecture.vocabulary > 0 ? 1 : impl->architecture.features;
}
template <class T>
std::size_t Model<T>::outputs() const {
  return impl->architecture.outputs;
}
template <class T>
std::size_t Model<T>::weight_bytes() const {
  return impl->memory.size();
}
template <class T>
std::size_t Model<T>::state_bytes() const {
  return impl->saved_bytes;
}

template class Model<float>;
template class Model<double>;

}  // namespace rtf::stream
