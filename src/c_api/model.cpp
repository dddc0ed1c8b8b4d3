#include "c_api/model.h"

#include <algorithm>
#include <cstddef>

#include "c_api/border.h"

namespace rtf::c_api {
namespace {

constexpr const char* loading = "model_load";
constexpr const char* describing = "model_describe";

std::size_t order_of(const Realization& realization) {
  if (const auto* tf = std::get_if<TransferFunction>(&realization)) return tf->order;
  if (const auto* sos = std::get_if<std::vector<SecondOrderSections>>(&realization))
    return 2 * sos->front().sections.size();
  return std::get<std::vector<Modal>>(realization).front().poles.size();
}

rtf_layer_info info_of(const LayerRealization& layer) {
  return {realization_name(layer.realization), layer.precision == DataType::f32 ? RTF_F32 : RTF_F64,
          order_of(layer.realization), layer.pole_radius, layer.error};
}

rtf_model to_handle(const ModelFile& file, int precision) {
  if (precision == RTF_F32) return {stream::Model<float>(file), {}};
  if (precision == RTF_F64) return {stream::Model<double>(file), {}};
  fail(ErrorCode::argument, loading, "precision {}; RTF_F32 or RTF_F64 is needed", precision);
}

template <class Read>
rtf_status load(int precision, rtf_model** model, Read&& read) noexcept {
  return make_handle(loading, model, [&] {
    const ModelFile file = read();
    rtf_model handle = to_handle(file, precision);
    std::transform(file.blocks.begin(), file.blocks.end(), std::back_inserter(handle.layers),
                   [](const ModelBlock& block) { return info_of(block.layer); });
    return handle;
  });
}

}  // namespace
}  // namespace rtf::c_api

using namespace rtf;
using namespace rtf::c_api;

extern "C" {

rtf_status rtf_model_load(const char* path, rtf_precision precision, rtf_model** model) {
  return load(number_of(precision), model, [&] { return read_model(&required(loading, "path", path)); });
}

rtf_status rtf_model_load_bytes(const void* bytes, size_t size, rtf_precision precision, rtf_model** model) {
  return load(number_of(precision), model, [&] {
    return read_model(array(loading, "bytes", static_cast<const std::byte*>(bytes), size), "model bytes");
  });
}

void rtf_model_free(rtf_model* model) { delete model; }

rtf_status rtf_model_describe(const rtf_model* model, rtf_model_info* info) {
  return guarded(describing, [&] {
    const rtf_model& handle = required(describing, "model", model);
    rtf_model_info& to = required(describing, "info", info);
    std::visit(
        [&](const auto& m) {
          const Architecture& a = m.architecture();
          to = {static_cast<rtf_precision>(handle.model.index()),
                a.vocabulary,
                m.inputs(),
                m.outputs(),
                a.channels,
                a.layers,
                a.length,
                name(a.decoder),
                a.bidirectional ? 1 : 0,
                a.last,
                m.weight_bytes(),
                m.state_bytes()};
        },
        handle.model);
  });
}

rtf_status rtf_model_describe_layer(const rtf_model* model, size_t layer, rtf_layer_info* info) {
  constexpr const char* operation = "model_describe_layer";
  return guarded(operation, [&] {
    const auto& layers = required(operation, "model", model).layers;
    rtf_layer_info& to = required(operation, "info", info);
    if (layer >= layers.size())
      fail(ErrorCode::argument, operation, "layer {}; the model has {}", layer, layers.size());
    to = layers[layer];
  });
}
}
