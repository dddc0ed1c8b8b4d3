#include "stream/layer_tensors.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/arguments.h"
#include "core/array_bytes.h"
#include "core/printable.h"
#include "core/safetensors_bytes.h"
#include "rtf/error.h"

namespace rtf {
namespace {

using Shape = std::vector<std::size_t>;

void put(TensorFile& tensors, const std::string& name, const TransferFunction& tf, DataType type) {
  tensors.tensors[name + ".a"] = {{tf.groups, tf.order}, tf.a, type};
  tensors.tensors[name + ".b"] = {{tf.channels, tf.order}, tf.b, type};
  tensors.tensors[name + ".h0"] = {{tf.channels}, tf.h0, type};
}

void put(TensorFile& tensors, const std::string& name, const std::vector<SecondOrderSections>& channels,
         DataType type) {
  Array array{{channels.size(), channels.at(0).sections.size(), 6}, {}, type};
  for (const auto& channel : channels)
    for (const auto& section : channel.sections)
      array.values.insert(array.values.end(), section.begin(), section.end());
  tensors.tensors[name + ".sections"] = std::move(array);
}

void put(TensorFile& tensors, const std::string& name, const std::vector<Modal>& channels, DataType type) {
  const std::size_t order = channels.at(0).poles.size();
  Array poles{{channels.size(), order, 2}, {}, type}, residues = poles, h0{{channels.size()}, {}, type};
  const auto append = [](Array& array, std::complex<double> value) {
    array.values.push_back(value.real());
    array.values.push_back(value.imag());
  };
  for (const Modal& channel : channels) {
    for (std::size_t i = 0; i < order; ++i) {
      append(poles, channel.poles[i]);
      append(residues, channel.residues[i]);
    }
    h0.values.push_back(channel.h0);
  }
  tensors.tensors[name + ".poles"] = std::move(poles);
  tensors.tensors[name + ".residues"] = std::move(residues);
  tensors.tensors[name + ".h0"] = std::move(h0);
}

void get(TensorTaker& taker, const std::string& name, std::size_t channels, DataType type, TransferFunction& tf) {
  Array a = taker.take(name + ".a", {TensorTaker::any, TensorTaker::any}, type);
  tf.channels = channels;
  tf.groups = a.shape[0];
  tf.order = a.shape[1];
  if (tf.groups == 0 || channels % tf.groups != 0)
    taker.refuse(fmt::format("{}.a has {} denominators, which do not divide {} channels", name, tf.groups, channels));
  tf.a = std::move(a.values);
  tf.b = taker.take(name + ".b", {channels, tf.order}, type).values;
  tf.h0 = taker.take(name + ".h0", {channels}, type).values;
}

void get(TensorTaker& taker, const std::string& name, std::size_t channels, DataType type,
         std::vector<SecondOrderSections>& into) {
  const Array array = taker.take(name + ".sections", {channels, TensorTaker::any, 6}, type);
  into.resize(channels);
  auto at = array.values.begin();
  for (auto& channel : into)
    for (std::size_t s = 0; s < array.shape[1]; ++s, at += 6)
      std::copy_n(at, 6, channel.sections.emplace_back().begin());
}

void get(TensorTaker& taker, const std::string& name, std::size_t channels, DataType type, std::vector<Modal>& into) {
  const Array poles = taker.take(name + ".poles", {channels, TensorTaker::any, 2}, type);
  const std::size_t order = poles.shape[1];
  const Array residues = taker.take(name + ".residues", {channels, order, 2}, type);
  const Array h0 = taker.take(name + ".h0", {channels}, type);
  into.resize(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    into[c].h0 = h0.values[c];
    for (std::size_t i = 2 * c * order; i < 2 * (c + 1) * order; i += 2) {
      into[c].poles.emplace_back(poles.values[i], poles.values[i + 1]);
      into[c].residues.emplace_back(residues.values[i], residues.values[i + 1]);
    }
  }
}

// --- What a recurrence must be --------------------------------------------------------------------------------------

struct LayerCheck {
  const char* operation;
  const std::string& where;  // "model.safetensors: blocks.0.layer"
  std::size_t channels;

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::argument, operation, "{}{}", where, fmt::format(format, std::forward<Args>(args)...));
  }
  void count(std::size_t got) const {
    if (got != channels) refuse(" has {} channels, the model has {}", got, channels);
  }

  void operator()(const TransferFunction& tf) const {
    count(tf.channels);
    validate(tf, operation);
  }
  void operator()(const std::vector<SecondOrderSections>& all) const {
    count(all.size());
    if (all[0].sections.empty()) refuse(" has no sections; at least one is needed");
    for (std::size_t c = 0; c < channels; ++c) {
      if (all[c].sections.size() != all[0].sections.size())
        refuse(" has {} sections in channel {}, {} in channel 0", all[c].sections.size(), c, all[0].sections.size());
      for (const auto& section : all[c].sections)
        if (section[3] != 1 || !all_finite(std::span<const double>(section)))
          refuse(" has a section with a0 = {} in channel {}; 1 and finite numbers are needed", section[3], c);
    }
  }
  void operator()(const std::vector<Modal>& all) const {
    count(all.size());
    for (std::size_t c = 0; c < channels; ++c) {
      const Modal& one = all[c];
      if (one.poles.size() != all[0].poles.size() || one.residues.size() != one.poles.size())
        refuse(" has {} poles and {} residues in channel {}; channel 0 has {} poles", one.poles.size(),
               one.residues.size(), c, all[0].poles.size());
      for (std::size_t i = 0; i < one.poles.size(); ++i) {
        if (one.poles[i].imag() == 0 && one.residues[i].imag() == 0) continue;
        if (i + 1 == one.poles.size() || one.poles[i + 1] != std::conj(one.poles[i]) ||
            one.residues[i + 1] != std::conj(one.residues[i]))
          refuse(" has a pole {} in channel {} without its conjugate beside it", i, c);
        ++i;
      }
    }
  }
};

std::string wanted_text(const Shape& shape) {
  std::string text;
  for (const std::size_t size : shape)
    text += (text.empty() ? "" : ", ") + (size == TensorTaker::any ? std::string("any") : std::to_string(size));
  return "(" + text + ")";
}

}  // namespace

Array TensorTaker::take(const std::string& name, const Shape& shape, DataType type) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) refuse(name + " is missing");
  Array array = std::move(found->second);
  tensors_.erase(found);
  const bool fits = array.shape.size() == shape.size() &&
                    std::equal(shape.begin(), shape.end(), array.shape.begin(),
                               [](std::size_t wanted, std::size_t got) { return wanted == any || wanted == got; });
  if (!fits) refuse(fmt::format("{} has shape {}, expected {}", name, shape_text(array.shape), wanted_text(shape)));
  if (array.type != type)
    refuse(fmt::format("{} is {}, expected {}", name, safetensors_name(array.type), safetensors_name(type)));
  if (!all_finite(std::span<const double>(array.values))) refuse(name + " holds a number that is not finite");
  return array;
}

void TensorTaker::check_empty() const {
  if (!tensors_.empty())
    refuse(fmt::format("tensor '{}' has no place in this model", printable(tensors_.begin()->first)));
}

void TensorTaker::refuse(const std::string& why) const {
  throw Error(ErrorCode::format, "read_model", path_ + ": " + why);
}

void put_layer(TensorFile& tensors, const std::string& name, const LayerRealization& layer) {
  std::visit([&](const auto& form) { put(tensors, name, form, layer.precision); }, layer.realization);
}

void take_layer(TensorTaker& taker, const std::string& name, std::size_t channels, LayerRealization& layer) {
  std::visit([&](auto& form) { get(taker, name, channels, layer.precision, form); }, layer.realization);
}

void check_layer(const LayerRealization& layer, std::size_t channels, const char* operation, const std::string& where) {
  std::visit(LayerCheck{operation, where, channels}, layer.realization);
}

}  // namespace rtf
