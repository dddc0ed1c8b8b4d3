// Texts as tokens in a record file.
#pragma once

#include <cstdint>
#include <string>

#include "data/text_set.h"

namespace rtf::data {

// Reads the set twice, once for its vocabulary and once for its tokens, and writes the record file; just before it
// gets its name, so does the vocabulary as text.
void write_tokens(const TextSet& set, const std::string& path, const std::string& vocabulary_path,
                  std::uint64_t fingerprint);

}  // namespace rtf::data
