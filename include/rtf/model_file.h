// A trained model as a product ships it: architecture, weights and, for every layer, the recurrence that it runs as.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "rtf/forms.h"
#include "rtf/npy.h"
#include "rtf/transfer_function.h"

namespace rtf {

// The keys and names of a run's config (docs/config.md), where they are the same.
struct Architecture {
  enum class Norm { none, batch, layer };  // batch: folded, y = weight x + bias
  enum class Activation { identity, gelu };
  enum class Decoder { pool, last, position, pair };

  std::size_t vocabulary = 0;  // tokens in; 0: `features` numbers
  std::size_t features = 1, channels = 0, layers = 0;
  Norm norm = Norm::batch;
  bool prenorm = true, residual = true;
  Activation activation = Activation::gelu;
  bool glu = true;
  Decoder decoder = Decoder::pool;
  std::size_t outputs = 0, last = 1;
  bool bidirectional = false;  // such a model takes whole sequences: it cannot be streamed
  std::size_t length = 0;      // of the sequences it was trained on

  // Without a residual no norm is applied; after the last block there is one with prenorm alone.
  bool has_norms() const { return residual && norm != Norm::none; }
  bool has_last_norm() const { return has_norms() && prenorm; }
  bool operator==(const Architecture&) const = default;
};

const char* name(DataType type);  // "f32", "f64", "bf16" or "int8"
const char* name(Architecture::Norm norm);
const char* name(Architecture::Activation activation);
const char* name(Architecture::Decoder decoder);

// The recurrence of all channels of a layer, in one of three forms: companion, sos or modal. Channels of sos have
// equally many sections, those of modal equally many poles.
using Realization = std::variant<TransferFunction, std::vector<SecondOrderSections>, std::vector<Modal>>;

// "companion", "sos" or "modal".
const char* realization_name(const Realization& realization);

struct LayerRealization {
  Realization realization;
  DataType precision = DataType::f32;  // of its numbers and of the arithmetic that runs it
  double pole_radius = 0;              // of the outermost pole
  double error = 0;                    // of the kernel it runs, measured, over the kernel's largest value
};

// y = weight x + bias; weight is (outputs, inputs).
struct Linear {
  std::vector<double> weight, bias;
  // (outputs), where weights are int8: each is a whole multiple, up to 127, of its row's.
  std::vector<double> scale = {};
};

struct ModelBlock {
  Linear norm;  // (channels) each; empty without norms
  LayerRealization layer;
  std::optional<LayerRealization> backward;  // of a bidirectional model
  Linear output;                             // (2 channels, channels) with glu
};

struct ModelFile {
  Architecture architecture;
  DataType precision = DataType::f32;  // of the weights and of the arithmetic
  std::optional<DataType> weights;     // of matrices and embeddings, where they are narrower: bf16 or int8
  Linear encoder;                      // (vocabulary, channels) without bias, or (channels, features)
  std::vector<ModelBlock> blocks;
  Linear norm;                  // after the last block
  std::vector<Linear> decoder;  // one; two with Decoder::pair
};

// Filters alone as a model: one layer, nothing before or after it. One input goes to every channel, `channels` of them
// to a channel each; one output is the sum of the channels, `channels` of them are the channels themselves.
ModelFile filter_model(LayerRealization layer, std::size_t inputs, std::size_t outputs,
                       DataType precision = DataType::f32);

// Throws unless every shape follows from the architecture and every number is finite.
void validate(const ModelFile& file, const char* operation);

// Rounds matrices and embeddings of a model in float32 to bf16, or to int8 with a scale a row. Norms and biases are
// few; the recurrences' coefficients stay as they are, since they feed their rounding back with every sample.
void round_weights(ModelFile& file, DataType weights);

// One safetensors file: "format", "architecture" and "crc32" in its metadata. Checked against its own checksum and
// against its architecture before it is handed out.
ModelFile read_model(const std::string& path);
// The same of the bytes of such a file, which errors call `name`.
ModelFile read_model(std::span<const std::byte> bytes, const std::string& name);

// Appears whole or not at all.
void write_model(const std::string& path, const ModelFile& file);

}  // namespace rtf
