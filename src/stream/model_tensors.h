// The tensors of a model file: names and shapes, to and from a ModelFile.
#pragma once

#include <string>

#include "rtf/model_file.h"
#include "rtf/safetensors.h"

namespace rtf {

// A model file and its tensors with metadata: all of read_model() and write_model() but the file itself.
ModelFile to_model(TensorFile tensors, const std::string& path);
TensorFile from_model(const ModelFile& file);

// The metadata 'architecture' of a model file; errors name `path`.
Architecture parse_architecture(const std::string& text, const std::string& path);

// Of a valid file, without metadata; float32 tensors rounded as they will be read back.
TensorFile to_tensors(const ModelFile& file);

// Fills `file`, whose architecture and forms of layers are known, and checks it. Errors name `path`.
void take_tensors(TensorFile& tensors, const std::string& path, ModelFile& file);

}  // namespace rtf
